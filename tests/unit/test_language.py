"""The language of the package and its pages: docstrings name things, and no word has a private meaning."""

import ast
import re

from tests.support.source_code import FILES, ROOT, parse

PAGES = [*sorted((ROOT / "docs").glob("*.md")), *ROOT.glob("*.md"), *sorted((ROOT / "seq2attn").rglob("*.html"))]
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
