"""The shape of the package: imports flow one way, files are short, functions shorter."""

import ast
import graphlib
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from inspect import signature

import pytest

from seq2attn.config.base import Config
from tests.support.source_code import LAYER, MODULES, PACKAGE, ROOT, parse

HEAVY = {"torch", "numpy", "rich", "sacrebleu", "sentencepiece", "torchtext", "matplotlib", "transformers"}


def part_of(module: str) -> str:
    """The package, or the module at the top, that a module belongs to."""
    return ".".join(module.split(".")[:2])


def imports(tree: ast.AST) -> Iterator[str]:
    """Our modules that are imported anywhere in a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "seq2attn":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "seq2attn")


def test_every_module_has_a_layer():
    assert [m for m in MODULES if m != "seq2attn" and part_of(m) not in LAYER] == []
    parts = {part_of(m) for m in MODULES}
    assert [part for part in LAYER if part not in parts] == []


def test_imports_flow_one_way():
    """No module imports from a layer above its own, or from another part of its own."""
    against = [
        (module, imported)
        for module, path in MODULES.items()
        for imported in imports(parse(path))
        if "seq2attn" not in (module, imported)  # which names all, and loads none
        and part_of(imported) != part_of(module)
        and LAYER[part_of(imported)] >= LAYER[part_of(module)]
    ]
    assert against == []


def test_no_module_imports_itself_by_way_of_others():
    graph = {module: set(imports(parse(path))) - {module} for module, path in MODULES.items()}
    graph["seq2attn"] = set()
    tuple(graphlib.TopologicalSorter(graph).static_order())


def test_no_test_module_imports_another():
    """What several share is in tests/support."""
    imported = [
        f"{path.relative_to(ROOT)} from {module}"
        for path in (ROOT / "tests").rglob("*.py")
        for module in re.findall(r"^ *(?:from|import) (tests\b\S*)", path.read_text(encoding="utf-8"), re.MULTILINE)
        if not f"{module}.".startswith("tests.support.")
    ]
    assert imported == []


def test_folders_of_unit_tests_are_those_of_the_package():
    folders = {path.parent.name for path in (ROOT / "tests/unit").glob("*/test_*.py")}
    assert folders - {path.name for path in PACKAGE.iterdir()} == {"scripts"}


def test_each_class_has_a_name_of_its_own():
    places: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_rules_are_about_fields():
    # A rule that asks for a field under another name is never checked.
    importlib.import_module("seq2attn.sweep.sweep_config")
    importlib.import_module("seq2attn.experiment.experiment_config")
    configs = [Config]
    for config in configs:
        configs += config.__subclasses__()
    rules = [(config, rule) for config in configs for rule in config.rules]
    strange = [rule for config, rule in rules if not {*signature(rule).parameters} <= {*config.model_fields}]
    assert len(rules) > 10 and strange == []


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import seq2attn; dir(seq2attn)", {*HEAVY, "pydantic", "yaml", "typer"}),
        ("import seq2attn; seq2attn.Config", HEAVY),
        ("import seq2attn.__main__ as _", HEAVY),  # imports `seq2attn.cli`, and prints the help of a command
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code, heavy):
    program = f"import sys; sys.argv = ['seq2attn', 'train', '--help']\ntry: {code}\nexcept SystemExit: pass\n"
    program += f"print('found', *{heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "found"


@pytest.mark.slow
def test_a_model_without_memory_comes_without_a_compiler():
    """PyTorch's compiler takes longer to import than all else, and each loaded run is first built without memory."""
    code = (
        "import sys; from pathlib import Path\n"
        "from seq2attn.config.load import load\n"
        "from seq2attn.models.build import assumed_vocab_sizes, build_on_meta_device\n"
        "from seq2attn.experiment.experiment_config import ExperimentConfig\n"
        "for path in sorted(Path('configs/attention').glob('[0-9]*.yaml')):\n"
        "    config = load(path, ExperimentConfig)\n"
        "    print(build_on_meta_device(config.model, *assumed_vocab_sizes(config.tokenizer)).output_projection)\n"
        "print(*[m for m in ('torch._dynamo', 'sympy') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    *built, imported = done.stdout.splitlines()
    assert len(built) > 9 and imported == ""


def test_no_module_is_a_collection():
    collections = {"utils", "util", "helpers", "helper", "common", "misc", "constants", "registry"}
    assert [m for m in MODULES if m.split(".")[-1] in collections] == []
