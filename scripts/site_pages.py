"""An extension of Python-Markdown for the site: links to files of the repository, and equations in MathML."""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor

REPOSITORY = "https://github.com/seq2attn/seq2attn"
DOCS = Path(__file__).parents[1] / "docs"
LINK = re.compile(r"\]\(\.\./([^)\s]+)\)")
FILE_NAME = re.compile(r"\[(\w+\.md)\]\(\1")
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


@cache
def title(page: str) -> str:
    """The first heading of a page."""
    return (DOCS / page).read_text(encoding="utf-8").split("# ", 1)[1].split("\n", 1)[0]


class Links(Preprocessor):
    """`[text](../file)`, which a checkout has and the site does not, there; `[page.md](page.md)` by its title."""

    def run(self, lines: list[str]) -> list[str]:  # noqa: D102
        lines = [LINK.sub(rf"]({REPOSITORY}/blob/main/\1)", line) for line in lines]
        return [FILE_NAME.sub(lambda link: f"[{title(link[1])}]({link[1]}", line) for line in lines]


class Equations(Postprocessor):
    """The TeX that `pymdownx.arithmatex` found, as MathML, which browsers draw without a script."""

    def run(self, text: str) -> str:  # noqa: D102
        return EQUATION.sub(self._as_mathml, text)

    def _as_mathml(self, found: re.Match[str]) -> str:
        return convert(html.unescape(found[2]), display="inline" if found[1] == "span" else "block")


class SitePages(Extension):
    """Both of them; equations last, when the text is whole."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: D102, N802
        md.preprocessors.register(Links(md), "links", 100)
        md.postprocessors.register(Equations(md), "equations", 0)


def makeExtension() -> SitePages:  # noqa: N802
    """The function that Python-Markdown calls."""
    return SitePages()
