"""An extension of Python-Markdown for the site: links to files of the repository, and equations in MathML."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor

REPOSITORY = "https://github.com/seq2attn/seq2attn"
LINK = re.compile(r"\]\(\.\./([^)\s]+)\)")
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


class RepositoryLinks(Preprocessor):
    """`[text](../file)`, which a checkout has and the site does not, as a link to the file in the repository."""

    def run(self, lines: list[str]) -> list[str]:  # noqa: D102
        return [LINK.sub(rf"]({REPOSITORY}/blob/main/\1)", line) for line in lines]


class Equations(Postprocessor):
    """The TeX that `pymdownx.arithmatex` found, as MathML, which browsers draw without a script."""

    def run(self, text: str) -> str:  # noqa: D102
        return EQUATION.sub(self._as_mathml, text)

    def _as_mathml(self, found: re.Match[str]) -> str:
        return convert(html.unescape(found[2]), display="inline" if found[1] == "span" else "block")


class SitePages(Extension):
    """Both of them; equations last, when the text is whole."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: D102, N802
        md.preprocessors.register(RepositoryLinks(md), "repository_links", 100)
        md.postprocessors.register(Equations(md), "equations", 0)


def makeExtension() -> SitePages:  # noqa: N802
    """The function that Python-Markdown calls."""
    return SitePages()
