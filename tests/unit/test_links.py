"""Links of README and docs: their files exist, and their anchors are headings."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.commands import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "data/phrasebook/README.md"]


def links(text: str) -> Iterator[tuple[str, str]]:
    """File, which may be empty, and anchor of each link that is not to another site, outside of code."""
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", lambda code: re.sub(r"[\[\]]", " ", code[0]), text, flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if not re.match(r"\w+:", target):
            file, _, anchor = target.partition("#")
            yield file, anchor


def anchors(text: str) -> set[str]:
    """The headings, as GitHub and MkDocs make anchors of them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    plain = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def dead(page: Path, text: str) -> list[str]:
    found = []
    for file, anchor in links(text):
        path = page.parent / file if file else page
        has_headings = anchor and path.suffix == ".md"  # that of an explorer's page is a selection
        if not path.exists() or (has_headings and anchor not in anchors(path.read_text(encoding="utf-8"))):
            found.append(f"{file}#{anchor}")
    return found


def test_no_link_is_dead() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    assert sum(len([*links(text)]) for text in texts.values()) > 200
    assert {page.name: found for page, text in texts.items() if (found := dead(page, text))} == {}


def test_dead_links_are_found(tmp_path: Path) -> None:
    text = "# A b\n[x](none.md) [`y`](#a-b) [z](#none) `[code](#none)` [w](page.md#a)\n"
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert dead(page, text) == ["none.md#", "#none", "page.md#a"]
