"""The phrasebook: sentences of its grammar, and its files."""

import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import make_phrasebook  # noqa: E402
from phrasebook import german_clauses as german  # noqa: E402
from phrasebook import sentences as say  # noqa: E402
from phrasebook.compose import Composer  # noqa: E402
from phrasebook.corpus import words  # noqa: E402
from phrasebook.marks import bare  # noqa: E402
from phrasebook.meaning import Clause, Gap, Name, Phrase, Place, Pronoun  # noqa: E402
from phrasebook.words import Text, lexicon  # noqa: E402

DATA = ROOT / "data" / "phrasebook"
L = lexicon()
I, HE, SHE = map(Pronoun, ("I", "he", "she"))  # noqa: E741
ANNA = Name(Text("Anna", "Anna"), "she")


def the(noun: str, adjective: str = "", *, determiner: str = "the", plural: bool = False) -> Phrase:
    return Phrase(L.nouns[noun], determiner, plural, L.adjectives[adjective] if adjective else None)


def a(noun: str, adjective: str = "") -> Phrase:
    return the(noun, adjective, determiner="a")


def at(noun: str, *, going: bool = False) -> Place:
    return Place(the(noun), going=going)


def do(subject, verb, thing=None, /, *, modal="", time="", **more) -> Clause:  # type: ignore[no-untyped-def]
    options = {"modal": L.modals[modal] if modal else None, "time": L.times[time] if time else None}
    return Clause(subject, L.verbs[verb], object=thing, **options, **more)


def is_(subject, predicate) -> Clause:  # type: ignore[no-untyped-def]
    return do(subject, "sein", predicate=predicate)


# Written by hand before the grammar existed: German, English, links, and the meaning.
# Every other sentence is compared with the committed files.
SENTENCES: list[tuple[str, str, str, Text]] = [
    (
        "Der Gast wartet am Bahnhof auf Anna.",
        "The guest waits for Anna at the station.",
        "Der=The Gast=guest wartet=waits auf=for Anna.=Anna am=at am=the Bahnhof=station.",
        say.statement(do(the("Gast"), "warten", ANNA, place=at("Bahnhof"))),
    ),
    (
        "Ich muss ihn abholen.",
        "I have to pick him up.",
        "Ich=I muss=have muss=to abholen.=pick abholen.=up. ihn=him",
        say.statement(do(I, "abholen", HE, modal="müssen")),
    ),
    (  # the object is the subject in English
        "Dieses Haus gefällt meiner Mutter nicht.",
        "My mother does not like this house.",
        "meiner=My Mutter=mother gefällt?does gefällt=like nicht.=not Dieses=this Haus=house.",
        say.statement(do(the("Haus", determiner="this"), "gefallen", the("Mutter", determiner="my"), negated=True)),
    ),
    (  # the reflexive before the subject
        "Hat sich Anna an mich erinnert?",
        "Did Anna remember me?",
        "Hat=Did Hat?remember erinnert?=remember sich=remember an=remember Anna=Anna mich=me?",
        say.question(do(ANNA, "erinnern", I, tense="past")),
    ),
    (
        "Auf wen wartet Anna?",
        "Who does Anna wait for?",
        "Auf=for? wen=Who wartet?does wartet=wait Anna?=Anna",
        say.asked_object(do(ANNA, "warten"), Text("wen", "who")),
    ),
    (
        "Der Mantel, den sie braucht, ist teuer.",
        "The coat that she needs is expensive.",
        "Der=The Mantel,=coat den=that sie=she braucht,=needs ist=is teuer.=expensive.",
        say.statement(
            is_(say.described(the("Mantel"), do(SHE, "brauchen", Gap(L.nouns["Mantel"]))), Text("teuer", "expensive"))
        ),
    ),
    (
        "In der Stadt gibt es eine alte Kirche.",
        "In the town there is an old church.",
        "In=In der=the Stadt=town gibt=there es=there gibt=is es=is eine=an alte=old Kirche.=church.",
        say.there_is(a("Kirche", "alt"), at("Stadt"), True),
    ),
]


@pytest.mark.parametrize(("german_sentence", "english_sentence", "expected", "text"), SENTENCES)
def test_sentences_and_links(german_sentence: str, english_sentence: str, expected: str, text: Text) -> None:
    text = say.finished(text)
    assert text == Text(german_sentence, english_sentence)
    de, en = text.de.split(), text.en.split()
    links = {f"{de[i]}{'=' if is_sure else '?'}{en[j]}" for i, j, is_sure in text.links}
    assert links >= set(expected.split())
    assert len(links) - len(expected.split()) <= 1  # one auxiliary may have a second link


def lines(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()


SIZES = {"train": 9000, "dev": 500, "test": 500, "long": 300}
PAIRS = {part: list(zip(lines(f"{part}.de"), lines(f"{part}.en"), strict=True)) for part in SIZES}


def test_links_of_the_files_point_at_words() -> None:
    num_unlinked = 0
    for part, pairs in PAIRS.items():
        for (de, en), line in zip(pairs, lines(f"{part}.align"), strict=True):
            links = [re.fullmatch(r"(\d+)[-?](\d+)", item) for item in line.split()]
            german_words, english_words = ({int(link[side]) for link in links if link} for side in (1, 2))
            assert german_words == set(range(len(de.split())))
            assert english_words <= set(range(len(en.split())))
            num_unlinked += len(en.split()) - len(english_words)
    assert num_unlinked < 200  # articles of professions: Er ist Lehrer, he is a teacher


def test_the_command_writes_the_files_and_finds_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_phrasebook.main(["--output", str(tmp_path)]) == 0
    files = {path.name: path.read_bytes() for path in DATA.iterdir() if path.name != "README.md"}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    (tmp_path / "dev.en").write_text("changed")
    assert make_phrasebook.main(["--output", str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().err.count("differs") == 1


def test_properties_of_the_files() -> None:
    assert {part: len(pairs) for part, pairs in PAIRS.items()} == SIZES
    assert all(b"\r" not in path.read_bytes() and path.read_bytes().endswith(b"\n") for path in DATA.iterdir())
    for side in (0, 1):
        sentences = [pair[side].lower() for pairs in PAIRS.values() for pair in pairs]
        assert len(set(sentences)) == len(sentences)
    longest = max(len(line.split()) for pair in PAIRS["train"] for line in pair)
    assert all(len(line.split()) > longest for pair in PAIRS["long"] for line in pair)
    counts = {part: Counter(word for pair in PAIRS[part] for line in pair for word in words(line)) for part in SIZES}
    assert all(counts["train"][word] >= 5 for part in ("dev", "test", "long") for word in counts[part])


def test_a_sentence_has_one_translation_in_both_directions() -> None:
    composer = Composer(99)
    to_english: dict[str, str] = {}
    to_german: dict[str, str] = {}
    for _ in range(1000):
        pair = composer.sentence()
        assert to_english.setdefault(pair.de, pair.en) == pair.en
        assert to_german.setdefault(pair.en, pair.de) == pair.de


def test_the_finite_verb_is_second_in_main_clauses_and_last_in_subordinate_ones() -> None:
    composer = Composer(5)
    for _ in range(500):
        clause = composer.action(composer.subject())
        finite, rest, cluster = map(bare, german.verbs(clause))
        first = clause.time.de if clause.time_first and clause.time else bare(german.who(clause.subject, "nom"))
        assert bare(german.statement(clause)).startswith(f"{first} {finite}")
        assert bare(german.statement(clause)).endswith(rest)
        assert bare(german.subordinate(replace(clause, time_first=False), "weil")).endswith(f" {cluster}")
        assert bare(german.inverted(clause)).startswith(f"{finite} ")


def test_articles_agree_with_nouns_and_sounds() -> None:
    articles = {"m": {"dem", "den", "der"}, "f": {"der", "die"}, "n": {"dem", "das"}}
    # nouns whose plural has another form; -n makes the dative plural of others
    singular = {n.de: n for n in L.nouns.values() if n.plural not in (n.de, n.de + "n") and not n.weak}
    num_checked = 0
    for de, en in PAIRS["train"]:
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", en), en
        for article, noun in re.findall(r"(?<!, )\b([Dd]er|[Dd]ie|[Dd]as|[Dd]en|[Dd]em) ([A-ZÄÖÜ]\w+)", de):
            if noun in singular:
                assert article.lower() in articles[singular[noun].gender], de
                num_checked += 1
    assert num_checked > 1000


def test_the_sentence_of_the_pictures_is_not_in_training() -> None:
    script = (ROOT / "scripts" / "attention.sh").read_text(encoding="utf-8")
    source, target = (re.findall(rf'^{name}="(.*)"$', script, re.M)[0] for name in ("sentence", "reference"))
    assert (source, target) in PAIRS["test"]
    page = (ROOT / "docs" / "attention.md").read_text(encoding="utf-8")
    assert set(re.findall(r'^seq2attn translate \S+ "(.*?)"', page, re.M)) == {source}
    assert target in page
