"""The language of the package and its pages: docstrings name things, and each thing has one noun of the field."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.source_code import FILES, ROOT, parse

PAGES = [path for pattern in ("docs/*.md", "*.md", "seq2attn/**/*.html") for path in sorted(ROOT.glob(pattern))]
CLAUSE = re.compile(r"(what|whether|how|where|which|when|who|whose|why|that|lest)\b", re.IGNORECASE)
"""The beginning of a clause that is in the place of a noun."""
PRIVATE_WORDS = {
    "asked", "card", "cards", "damaged", "healthy", "learnt", "lest", "likeliest", "looked", "noticed", "sitting",
    "soundness", "stranger", "tally", "told", "undrawn", "unsound", "verdict",
}  # fmt: skip
"""Words for which the field has others: query, GPU, corrupt, valid, trained, most likely, session, untrusted."""


def test_docstrings_begin_with_a_noun():
    clauses = [
        f"{path.relative_to(ROOT)}: {docstring}"
        for path in FILES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and (docstring := ast.get_docstring(node))
        and CLAUSE.match(docstring)
    ]
    assert clauses == []


def test_no_word_has_a_private_meaning():
    places = [
        f"{path.relative_to(ROOT)}:{number}: {word}"
        for path in [*FILES, *PAGES]
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
        for word in re.findall(r"[a-z]+", re.sub("model.card", "", line.lower()))
        if word in PRIVATE_WORDS
    ]
    assert places == []


OTHER_PROGRAMS = ("seq2attn/config/hints.py", "seq2attn/pretrained/", "seq2attn/exporters/")
"""Code that calls things as other programs do."""


def rows() -> list[tuple[str, str, str]]:
    """Noun, thing and twins of each row of the table."""
    table = (ROOT / "docs/glossary.md").read_text(encoding="utf-8").split("## One noun, one thing")[1]
    _, _, *found = re.findall(r"^\| (.*?) \| (.*?) \| (.*?) ?\|$", table, re.MULTILINE)
    return found


TWINS = "|".join(twin.replace(" ", "[-_ ]?") for _, _, twins in rows() for twin in twins.split(", ") if twin)
PATTERN = re.compile(rf"(?<![A-Za-z])({TWINS})(?:e?s)?(?![A-Za-z])", re.IGNORECASE)


def twins_of(text: str) -> set[str]:
    """Banned words in a text, also as parts of names: `run_folder` is a run folder."""
    return {re.sub("[-_]", " ", word.lower()) for word in PATTERN.findall(text)}


def other_names(tree: ast.AST) -> Iterator[str]:
    """Arguments and fields of a class of the table that have another name than its noun."""
    nouns = {name: noun.replace("-", "_") for noun, thing, _ in rows() for name in re.findall(r"`([A-Z]\w+)`", thing)}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            name = node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)
            noun = nouns.get(ast.unparse(node.annotation).removesuffix(" | None"), name)
            if not re.fullmatch(rf"(\w+[._])?_?{noun}", name):
                yield f"{name}: {ast.unparse(node.annotation)}"


@pytest.mark.parametrize("text", ["the objective", "RUN_FOLDER = 1", "two mini-batches", "cfg", "training steps"])
def test_a_planted_twin_is_found(text: str) -> None:
    assert len(twins_of(text)) == 1
    assert twins_of("the objectivity of a configured run, saved in a folder") == set()


def test_a_planted_name_is_found() -> None:
    tree = ast.parse(
        "def f(config: ExperimentConfig, model: Seq2Seq, source_memory: Memory | None): run_dir: RunDirectory"
    )
    assert sorted(other_names(tree)) == ["config: ExperimentConfig", "run_dir: RunDirectory"]


def test_no_thing_has_two_nouns() -> None:
    names = {
        f"{'.'.join(path.relative_to(ROOT).with_suffix('').parts[1:])}: {name}"
        for path in FILES
        for name in other_names(parse(path))
    }
    words = {
        f"{name}: {twin}"
        for path in [*FILES, *PAGES, *ROOT.glob("configs/**/*.yaml")]
        if path.name != "glossary.md" and not (name := path.relative_to(ROOT).as_posix()).startswith(OTHER_PROGRAMS)
        for twin in twins_of(path.read_text(encoding="utf-8"))
    }
    assert not names | words


def test_each_noun_is_in_one_row() -> None:
    nouns, _, twins = zip(*rows(), strict=True)
    assert len(nouns) > 15 and [*nouns] == sorted({*nouns})
    assert {*nouns} & {twin for cell in twins for twin in cell.split(", ")} == set()
