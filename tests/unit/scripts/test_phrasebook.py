"""The phrasebook: the files that its grammar makes, and their properties."""

import re
from collections import Counter
from pathlib import Path

import make_phrasebook
import pytest
from phrasebook.corpus import words
from phrasebook.words import lexicon

ROOT = Path(__file__).resolve().parents[3]

DATA = ROOT / "data" / "phrasebook"


def lines(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()


SIZES = {"train": 9000, "dev": 500, "test": 500, "long": 300}
PAIRS = {part: list(zip(lines(f"{part}.de"), lines(f"{part}.en"), strict=True)) for part in SIZES}
LINKS = [
    "der=The Köchin=cook gefällt?does nicht.=not gefällt=like Diese=this interessante=interesting Zeitung=newspaper.",
    "Die=The Gäste=guests sollen=should einschlafen,=fall einschlafen,=asleep, aber=but Sophie=Sophie freut=looks "
    "sich=looks freut=forward sich=forward auf=to unsere=our Eltern.=parents.",
    "Sie=They hoffen,=hope dass=that sie=they angerufen=called haben.?called Maria=Maria zwei=two Tagen=days vor=ago.",
    "Im=In Im=the Dorf=village gibt=there es=there gibt=are es=are zwei=two Restaurants.=restaurants.",
    "Ich=I muss=have muss=to in=to dieses=this Dorf=village gehen,=go um=in um=order zu=to suchen.=look suchen.=for "
    "das=the alte=old Hemd=shirt.",
]
"""By hand; `?` is one that an auxiliary may have."""


def test_links_of_sentences() -> None:
    linked = set()
    for (de, en), line in zip(PAIRS["test"], lines("test.align"), strict=True):
        source, target, ends = de.split(), en.split(), re.findall(r"(\d+)([-?])(\d+)", line)
        linked.add(frozenset(f"{source[int(i)]}{mark.replace('-', '=')}{target[int(j)]}" for i, mark, j in ends))
    assert [links for links in LINKS if frozenset(links.split()) not in linked] == []


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
    others = ("README.md", "glossary.tsv")
    files = {path.name: path.read_bytes() for path in DATA.iterdir() if path.name not in others}
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


def test_articles_agree_with_nouns_and_sounds() -> None:
    articles = {"m": {"dem", "den", "der"}, "f": {"der", "die"}, "n": {"dem", "das"}}
    # nouns whose plural has another form; -n makes the dative plural of others
    singular = {n.de: n for n in lexicon().nouns.values() if n.plural not in (n.de, n.de + "n") and not n.weak}
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
