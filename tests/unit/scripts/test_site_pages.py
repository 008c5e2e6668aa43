"""The Markdown of the site, with the extensions of mkdocs.yml."""

import html
import re
from functools import cache

import markdown
import pytest
import yaml
from site_pages import REPOSITORY

from tests.support.commands import ROOT

PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))


@cache
def site() -> markdown.Markdown:
    extensions = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["markdown_extensions"]
    options = {name: value for one in extensions if isinstance(one, dict) for name, value in one.items()}
    names = [next(iter(one)) if isinstance(one, dict) else one for one in extensions]
    return markdown.Markdown(extensions=["tables", *names], extension_configs=options)


def rendered(text: str) -> str:
    return site().reset().convert(text)


@cache
def page_html(page: str) -> str:
    return rendered((ROOT / "docs" / page).read_text(encoding="utf-8"))


def tex_in(page: str) -> list[str]:
    """What looks like TeX in the text of a page, outside of code and MathML."""
    prose = re.sub(r"<(code|pre|math)\b.*?</\1>", "", page, flags=re.DOTALL)
    return re.findall(r"\\[a-zA-Z(\[]\w*|\$[^$\n]+\$|\w_\{\w+\}", html.unescape(re.sub(r"<[^>]*>", "", prose)))


@pytest.mark.parametrize("page", PAGES)
def test_equations_are_mathml(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    built = page_html(page)
    assert tex_in(built) == []
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    equations = re.findall(r"\$\$.+?\$\$|\$[^$\n]+\$", prose, re.DOTALL)
    assert built.count("<math ") == len(equations)
    assert page != "attention.md" or len(equations) > 40


def test_a_line_and_a_block_of_tex() -> None:
    line, block = rendered("The width $d < 2$ of\n\n$$c_t = \\sum_s \\alpha_{ts} v_s$$\n").split("</p>")
    assert 'display="inline"' in line and "<mi>d</mi><mo>&#x0003C;</mo>" in line
    assert 'display="block"' in block and "<munder>" in block and "&#x003B1;" in block
    assert tex_in(line + block + "<code>$d$</code>") == []
    assert tex_in(r"<p>\(d\) and \alpha and $x$</p>") == [r"\(d", r"\alpha", "$x$"]


def test_files_outside_of_the_site_are_links_to_the_repository() -> None:
    built = rendered("[`configs/a.yaml`](../configs/a.yaml) and [data](data.md)")
    assert built == (
        f'<p><a href="{REPOSITORY}/blob/main/configs/a.yaml"><code>configs/a.yaml</code></a>'
        ' and <a href="data.md">data</a></p>'
    )


def test_links_to_pages_have_titles() -> None:
    built = rendered("[glossary.md](glossary.md), [glossary.md](glossary.md#terms), [words](glossary.md)")
    assert re.findall(r">([^<>]*)</a>", built) == ["Glossary", "Glossary", "words"]
    assert [name for page in PAGES for name in re.findall(r">(\w+\.md)</a>", page_html(page))] == []
