"""The phrasebook: what its grammar says, and what its files hold."""

import re
import subprocess
import sys
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
from phrasebook.meaning import Clause, Comparison, Gap, Name, Phrase, Place, Pronoun  # noqa: E402
from phrasebook.words import Text, lexicon  # noqa: E402

DATA = ROOT / "data" / "phrasebook"
L = lexicon()
I, YOU, HE, SHE, WE, THEY, IT = map(Pronoun, ("I", "you", "he", "she", "we", "they", "it"))  # noqa: E741
ANNA = Name(Text("Anna", "Anna"), "she")
PAUL = Name(Text("Paul", "Paul"), "he")
HOME = Place(Text("zu Hause", "at home"))
TO_BERLIN = Place(Text("nach Berlin", "to Berlin"), going=True)
TIRED = Text("müde", "tired")


def the(noun: str, adjective: str = "", *, determiner: str = "the", plural: bool = False) -> Phrase:
    return Phrase(L.nouns[noun], determiner, plural, L.adjectives[adjective] if adjective else None)


def a(noun: str, adjective: str = "") -> Phrase:
    return the(noun, adjective, determiner="a")


def my(noun: str, adjective: str = "", *, plural: bool = False) -> Phrase:
    return the(noun, adjective, determiner="my", plural=plural)


def at(noun: str, adjective: str = "", *, determiner: str = "the") -> Place:
    return Place(the(noun, adjective, determiner=determiner))


def to(noun: str) -> Place:
    return Place(the(noun), going=True)


def do(subject, verb, thing=None, /, *, modal="", time="", first="", **more) -> Clause:  # type: ignore[no-untyped-def]
    return Clause(
        subject,
        L.verbs[verb],
        object=thing,
        modal=L.modals[modal] if modal else None,
        time=L.times[time or first] if time or first else None,
        time_first=bool(first),
        **more,
    )


def is_(subject, predicate, **more) -> Clause:  # type: ignore[no-untyped-def]
    return do(subject, "sein", predicate=predicate, **more)


def bigger(adjective: str, than: Phrase) -> Comparison:
    return Comparison(L.adjectives[adjective], than)


# Written by hand before the grammar was asked. English, German, and the meaning of both.
EXPECTED: dict[str, tuple[str, str, Text]] = {
    "mixed adjective, nominative masculine, an adjective losing its e": (
        "An expensive coat is beautiful.",
        "Ein teurer Mantel ist schön.",
        say.statement(is_(a("Mantel", "teuer"), Text("schön", "beautiful"))),
    ),
    "her own, their own": (
        "Anna calls her father.",
        "Anna ruft ihren Vater an.",
        say.statement(do(ANNA, "anrufen", the("Vater", determiner="her"))),
    ),
    "pronoun as receiver, before the time": (
        "He showed me the photo yesterday.",
        "Er hat mir gestern das Foto gezeigt.",
        say.statement(do(HE, "zeigen", the("Foto"), receiver=I, time="gestern", tense="past")),
    ),
    "reflexive before the subject": (
        "Did Anna remember me?",
        "Hat sich Anna an mich erinnert?",
        say.question(do(ANNA, "erinnern", I, tense="past")),
    ),
    "melted article, being there": (
        "The guest waits for Anna at the station.",
        "Der Gast wartet am Bahnhof auf Anna.",
        say.statement(do(the("Gast"), "warten", ANNA, place=at("Bahnhof"))),
    ),
    "going there, with auxiliary sein": (
        "The children went to the garden.",
        "Die Kinder sind in den Garten gegangen.",
        say.statement(do(the("Kind", plural=True), "gehen", place=to("Garten"), tense="past")),
    ),
    "separable, main clause": (
        "She opens the window.",
        "Sie macht das Fenster auf.",
        say.statement(do(SHE, "aufmachen", the("Fenster"))),
    ),
    "separable, after a modal": (
        "I have to pick him up.",
        "Ich muss ihn abholen.",
        say.statement(do(I, "abholen", HE, modal="müssen")),
    ),
    "now is progressive": (
        "The baker is selling a clock now.",
        "Der Bäcker verkauft jetzt eine Uhr.",
        say.statement(do(the("Bäcker"), "verkaufen", a("Uhr"), time="jetzt")),
    ),
    "nicht before a preposition": (
        "We did not think of you.",
        "Wir haben nicht an dich gedacht.",
        say.statement(do(WE, "denken", YOU, tense="past", negated=True)),
    ),
    "kein": (
        "I do not have a bicycle.",
        "Ich habe kein Fahrrad.",
        say.statement(do(I, "haben", a("Fahrrad"), negated=True)),
    ),
    "comparison": (
        "The dog is bigger than the cat.",
        "Der Hund ist größer als die Katze.",
        say.statement(is_(the("Hund"), bigger("groß", the("Katze")))),
    ),
    "cannot": (
        "They cannot swim.",
        "Sie können nicht schwimmen.",
        say.statement(do(THEY, "schwimmen", modal="können", negated=True)),
    ),
    "what pleases is liked": (
        "My mother does not like this house.",
        "Dieses Haus gefällt meiner Mutter nicht.",
        say.statement(do(the("Haus", determiner="this"), "gefallen", my("Mutter"), negated=True)),
    ),
    "whom": (
        "Who does Anna wait for?",
        "Auf wen wartet Anna?",
        say.asked_object(do(ANNA, "warten"), Text("wen", "who")),
    ),
    "command not to": (
        "Do not open the door!",
        "Mach die Tür nicht auf!",
        say.command(do(YOU, "aufmachen", the("Tür"), negated=True)),
    ),
    "subordinate first": (
        "When it rains, we stay at home.",
        "Wenn es regnet, bleiben wir zu Hause.",
        say.leading("wenn", do(IT, "regnen"), do(WE, "bleiben", place=HOME)),
    ),
    "whether, perfect at the end": (
        "I do not know whether Anna arrived.",
        "Ich weiß nicht, ob Anna angekommen ist.",
        say.trailing(say.statement(do(I, "wissen", negated=True)), "ob", do(ANNA, "ankommen", tense="past")),
    ),
    "indirect question, modal at the end": (
        "She asks why I want to sleep.",
        "Sie fragt, warum ich schlafen will.",
        say.indirect(say.statement(do(SHE, "fragen")), Text("warum", "why"), do(I, "schlafen", modal="wollen")),
    ),
    "purpose": (
        "Paul travels to Berlin in order to pick up his son.",
        "Paul fährt nach Berlin, um seinen Sohn abzuholen.",
        say.purpose(
            say.statement(do(PAUL, "fahren", place=TO_BERLIN)),
            do(PAUL, "abholen", the("Sohn", determiner="his")),
        ),
    ),
    "relative clause, subject": (
        "The man who lives in the village is tired.",
        "Der Mann, der im Dorf wohnt, ist müde.",
        say.statement(is_(say.described(the("Mann"), do(Gap(L.nouns["Mann"]), "wohnen", place=at("Dorf"))), TIRED)),
    ),
    "relative clause, object": (
        "The coat that she needs is expensive.",
        "Der Mantel, den sie braucht, ist teuer.",
        say.statement(
            is_(
                say.described(the("Mantel"), do(SHE, "brauchen", Gap(L.nouns["Mantel"]))),
                Text("teuer", "expensive"),
            )
        ),
    ),
    "there is": (
        "In the town there is an old church.",
        "In der Stadt gibt es eine alte Kirche.",
        say.there_is(a("Kirche", "alt"), at("Stadt"), True),
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_grammar_says_what_a_careful_speaker_says(name: str) -> None:
    en, de, said = EXPECTED[name]
    assert say.finished(said) == Text(de, en)


# Written by hand as well: which words say the same thing, where that is not one word each in the same order.
LINKED: dict[str, str] = {
    "going there, with auxiliary sein": "Die=The Kinder=children sind?went gegangen.=went in=to den=the Garten=garden.",
    "melted article, being there": "Der=The Gast=guest wartet=waits auf=for Anna.=Anna am=at am=the Bahnhof=station.",
    "separable, main clause": "Sie=She macht=opens auf.=opens das=the Fenster=window.",
    "separable, after a modal": "Ich=I muss=have muss=to abholen.=pick abholen.=up. ihn=him",
    "what pleases is liked": "meiner=My Mutter=mother gefällt?does gefällt=like nicht.=not Dieses=this Haus=house.",
    "reflexive before the subject": (
        "Hat=Did Hat?remember erinnert?=remember sich=remember an=remember Anna=Anna mich=me?"
    ),
    "kein": "Ich=I habe?do habe=have kein=not kein=a Fahrrad.=bicycle.",
    "whom": "Auf=for? wen=Who wartet?does wartet=wait Anna?=Anna",
    "cannot": "Sie=They können=cannot nicht=cannot schwimmen.=swim.",
    "relative clause, object": "Der=The Mantel,=coat den=that sie=she braucht,=needs ist=is teuer.=expensive.",
    "comparison": "Der=The Hund=dog ist=is größer=bigger als=than die=the Katze.=cat.",
    "there is": "In=In der=the Stadt=town gibt=there es=there gibt=is es=is eine=an alte=old Kirche.=church.",
}


def linked_words(text: Text) -> set[str]:
    de, en = text.de.split(), text.en.split()
    return {f"{de[i]}{'=' if is_sure else '?'}{en[j]}" for i, j, is_sure in text.links}


@pytest.mark.parametrize("name", LINKED)
def test_words_that_say_the_same_are_linked(name: str) -> None:
    found = linked_words(say.finished(EXPECTED[name][2]))
    assert found >= set(LINKED[name].split())
    assert len(found) - len(LINKED[name].split()) <= 1  # a helper that two of the others may go with


def test_links_of_the_files_point_at_words() -> None:
    alone = 0
    for part, pairs in PAIRS.items():
        for (de, en), line in zip(pairs, lines(f"{part}.align"), strict=True):
            links = [re.fullmatch(r"(\d+)[-?](\d+)", item) for item in line.split()]
            german_words, english_words = ({int(link[side]) for link in links if link} for side in (1, 2))
            assert german_words == set(range(len(de.split())))
            assert english_words <= set(range(len(en.split())))
            alone += len(en.split()) - len(english_words)
    assert alone < 200  # articles of professions: Er ist Lehrer, he is a teacher


def lines(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()


PAIRS = {
    part: list(zip(lines(f"{part}.de"), lines(f"{part}.en"), strict=True)) for part in ("train", "dev", "test", "long")
}


def test_another_process_writes_the_files_byte_for_byte() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "make_phrasebook.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0


def test_the_command_notices_a_changed_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_phrasebook.main(["--output", str(tmp_path)]) == 0
    expected = {path.name for path in DATA.iterdir()} - {"README.md"}
    assert {path.name for path in tmp_path.iterdir()} == expected
    (tmp_path / "dev.en").write_text("changed")
    assert make_phrasebook.main(["--output", str(tmp_path), "--check"]) == 1
    assert "dev.en differs" in capsys.readouterr().err


def test_sizes() -> None:
    assert {part: len(pairs) for part, pairs in PAIRS.items()} == {
        "train": 9000,
        "dev": 500,
        "test": 500,
        "long": 300,
    }
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 1_500_000
    assert all(b"\r" not in path.read_bytes() and path.read_bytes().endswith(b"\n") for path in DATA.iterdir())


def test_no_sentence_occurs_twice_on_either_side() -> None:
    for side in (0, 1):
        everything = [pair[side].lower() for pairs in PAIRS.values() for pair in pairs]
        assert len(set(everything)) == len(everything)


def test_long_is_longer_than_any_in_training() -> None:
    longest = max(len(line.split()) for pair in PAIRS["train"] for line in pair)
    assert all(len(line.split()) > longest for pair in PAIRS["long"] for line in pair)


def test_training_has_every_word_of_the_tests_often() -> None:
    counts: dict[str, int] = {}
    for pair in PAIRS["train"]:
        for line in pair:
            for word in words(line):
                counts[word] = counts.get(word, 0) + 1
    assert all(
        counts.get(word, 0) >= 5
        for part in ("dev", "test", "long")
        for p in PAIRS[part]
        for line in p
        for word in words(line)
    )


def test_a_sentence_has_one_translation_whichever_way() -> None:
    composer = Composer(99)
    there: dict[str, str] = {}
    back: dict[str, str] = {}
    for _ in range(1500):
        pair = composer.sentence()
        assert there.setdefault(pair.de, pair.en) == pair.en
        assert back.setdefault(pair.en, pair.de) == pair.de


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


def test_articles_agree_with_nouns_in_the_files() -> None:
    dative = {"m": "dem", "f": "der", "n": "dem"}
    accusative = {"m": "den", "f": "die", "n": "das"}
    nominative = {"m": "der", "f": "die", "n": "das"}
    # nouns whose plural looks otherwise; -n makes the dative plural of others
    singular = {n.de: n for n in L.nouns.values() if n.plural not in (n.de, n.de + "n") and not n.weak}
    checked = 0
    for de, _ in PAIRS["train"]:
        for article, noun in re.findall(r"(?<!, )\b([Dd]er|[Dd]ie|[Dd]as|[Dd]en|[Dd]em) ([A-ZÄÖÜ]\w+)", de):
            if noun in singular:
                gender = singular[noun].gender
                assert article.lower() in (dative[gender], accusative[gender], nominative[gender]), de
                checked += 1
    assert checked > 1000


def test_no_model_has_learnt_from_the_sentence_of_the_pictures() -> None:
    script = (ROOT / "scripts" / "attention.sh").read_text(encoding="utf-8")
    source, target = (re.findall(rf'^{name}="(.*)"$', script, re.M)[0] for name in ("sentence", "reference"))
    assert (source, target) in PAIRS["test"]
    assert source not in {de for de, _ in PAIRS["train"]}
    story = (ROOT / "docs" / "attention.md").read_text(encoding="utf-8")
    assert set(re.findall(r'^seq2attn translate \S+ "(.*?)"', story, re.M)) == {source}
    assert target in story


def test_english_articles_fit_the_next_sound() -> None:
    for _, en in PAIRS["train"]:
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", en), en
