"""Files, names and modules in docs/architecture.md exist, and its lists of modules are those that run."""

import re

import pytest
from trace_modules import trace_all

from tests.support.source_code import LAYER, ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MAXIMUM = {"update": 20, "translate": 24}


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_every_file_exists():
    named = re.findall(r"`((?:seq2attn|tests|scripts)/[\w/.]*)`", PAGE)
    assert len(named) > 60
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_files_of_each_concept_have_its_names():
    rows = [line.split("|")[1:-1] for line in section("Concepts and files").splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 12
    for concept, files, names in rows[2:]:
        texts = [(ROOT / name).read_text(encoding="utf-8") for name in re.findall(r"`(.*?)`", files)]
        assert texts, concept
        for name in re.findall(r"`(.*?)`", names):
            assert any(re.search(rf"\b{name}\b", text) for text in texts), (concept, name)
        for text in texts:
            assert any(re.search(rf"\b{name}\b", text) for name in re.findall(r"`(.*?)`", names)), concept


def test_packages_stand_in_the_order_of_imports():
    lines = section("Packages").split("```")[1].strip("\n").splitlines()
    rows = [[f"seq2attn.{name}" for name in re.split(r"\s{3,}", line)[0].split()] for line in lines]
    assert {name for row in rows for name in row} == {
        name for name in LAYER if name.count(".") == 1 and not name.endswith("__main__")
    }
    layers = [LAYER[name] for row in rows for name in row]
    assert layers == sorted(layers, reverse=True)


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    return trace_all(tmp_path_factory.mktemp("traced"))


@pytest.mark.parametrize("name", MAXIMUM)
def test_the_modules_are_those_that_run(name, traced):
    *_, update, translate = re.split(r"\nOne (?:training update|call of).*modules:\n", PAGE)
    listed = re.findall(r"- `(.*?)`", {"update": update, "translate": translate}[name])
    assert set(listed) == {f"{module.replace('.', '/')}.py" for module in traced[name]}
    assert f", {len(listed)} modules:" in PAGE and len(listed) <= MAXIMUM[name]
