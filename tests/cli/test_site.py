"""The built site: no request to elsewhere, equations that browsers draw, titles, and words that people search for."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import ENVIRONMENT, ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env={**ENVIRONMENT, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return folder


def pages(site: Path) -> dict[str, str]:
    return {path.parent.name: path.read_text(encoding="utf-8") for path in site.glob("**/index.html")}


def test_equations_are_mathml_and_no_page_has_tex(site: Path) -> None:
    assert pages(site)["attention"].count("<math ") > 40
    for name, page in pages(site).items():
        prose = re.sub(r"<(code|pre|math|script)\b.*?</\1>", "", page, flags=re.DOTALL)
        assert re.findall(r"\\[a-z(\[]\w*|\$\w[^$\n]*\$", re.sub(r"<[^>]*>", "", prose)) == [], name


def test_no_page_requests_anything_from_another_server(site: Path) -> None:
    for name, page in pages(site).items():
        assert re.findall(r'<(?:script|img|iframe)\b[^>]*src="(?:https?:)?//[^"]*|<link [^>]*href="//', page) == [], (
            name
        )
        links = re.findall(r'<link rel="(\w+)"[^>]*href="https?://', page)
        assert {*links} <= {"canonical", "prev", "next"}, name


def test_links_are_titles_and_names_are_those_of_users(site: Path) -> None:
    built = pages(site)
    assert [name for name, page in built.items() if re.search(r">[\w/]+\.md</a>", page)] == []
    assert [name for name, page in built.items() if re.search(r"(`|<code>)(\S+)(`|</code>)</a> \(<code>\2", page)] == []
    assert all(f">seq2attn.{name}<" in built["api"] for name in ("load_config", "train", "load", "Translator"))
    assert 'data-md-color-scheme="slate"' in built["quickstart"] and 'title="Dark colors"' in built["quickstart"]


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("Jupyter", "installation/"), ("NumPy", "faq/"), ("Docker", "installation/"), ("Windows", "installation/"),
        ("GPU", "installation/"), ("own encoder", "extending/"),
    ],
)  # fmt: skip
def test_the_search_has_the_words_of_newcomers(site: Path, words: str, page: str) -> None:
    entries = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    found = [entry["location"] for entry in entries if words.lower() in f"{entry['title']} {entry['text']}".lower()]
    assert any(location.startswith(page) for location in found)
