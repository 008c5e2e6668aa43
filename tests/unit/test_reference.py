"""docs/config.md and docs/cli.md are what the code says, and lack no key and no command; all names of pages exist."""

import pkgutil
import re
from functools import cache

import pytest
import reference
from reference import DOCS

from seq2attn.experiment.experiment_config import ExperimentConfig
from tests.support.commands import all_commands

config_page, cli_page = cache(reference.config_page), cache(reference.cli_page)


@pytest.mark.parametrize(("name", "page"), [("config.md", config_page), ("cli.md", cli_page)])
def test_the_page_is_up_to_date(name, page):
    assert (DOCS / name).read_text(encoding="utf-8") == page(), "run `python scripts/reference.py`"


def test_every_key_has_a_type_and_a_default_or_is_required():
    classes = [ExperimentConfig.model_json_schema(), *ExperimentConfig.model_json_schema()["$defs"].values()]
    keys = {key for one in classes for key in one.get("properties", {})} - {"kind"}
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*) \|$", config_page(), re.MULTILINE)
    assert {key for key, *_ in rows} == keys
    assert [row for row in rows if not row[1]] == []
    assert [row for row in rows if not row[2] and "section" not in row[1] and row[0] not in {"test", "score"}] == []


def test_every_section_has_a_meaning_where_it_is_a_key():
    rows = re.findall(r"^\| `(\w+)` \| \[section\]\(.*?\) \| .*? \| (.*) \|$", config_page(), re.MULTILINE)
    assert {"data", "tokenizer", "model", "training"} <= {key for key, _ in rows}
    assert [key for key, meaning in rows if len(meaning) < 10] == []


def test_the_note_for_editors_is_no_text_of_the_page():
    for page in (config_page(), cli_page()):
        assert "scripts/reference.py" not in re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)


def test_every_link_of_the_config_page_has_its_heading():
    page = config_page()
    headings = re.findall(r"^##+ (.*)$", page, re.MULTILINE)
    anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert len(anchors) == len({*anchors})
    assert {*re.findall(r"\(#(.*?)\)", page)} <= {*anchors}


def test_every_command_is_on_its_page():
    assert sorted(re.findall(r"^## seq2attn (.*)$", cli_page(), re.MULTILINE)) == sorted(all_commands())


def test_usages_mark_each_argument_once():
    usages = re.findall(r"^Usage: .*$", cli_page(), re.MULTILINE)
    assert [usage for usage in usages if re.search(r"\[\[|\.\.\..*\.\.\.", usage)] == []


def test_names_of_pages_and_shell_scripts_exist():
    """Also those of code that only the slow tests run, and of the API that mkdocs builds."""
    files = [*DOCS.glob("*.md"), DOCS.parent / "README.md", *DOCS.parent.glob("scripts/*.sh")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    names = re.findall(r"^::: (seq2attn\S+)", text, re.MULTILINE)
    for module, imported in re.findall(r"^from (seq2attn[\w.]*) import ([\w, ]+)$", text, re.MULTILINE):
        names += [f"{module}.{name.split()[0]}" for name in imported.split(",")]
    assert len(names) > 30
    for name in names:
        pkgutil.resolve_name(name)
