"""Nothing that is read is run: no pickle, no `eval`, no YAML that makes objects, no import by a name in a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.unit.test_structure import FILES, PACKAGE, parse

MODULES = {
    "pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "runpy",
    "ctypes",
    "imp",
    "code",
}
CALLS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "importlib.import_module"),
    *("torch.load", "torch.jit.load", "torch.hub.load", "torch.export.load", "torch.package.PackageImporter"),
    *("torch.ops.load_library", "torch.classes.load_library"),
    *("np.load", "numpy.load", "np.fromfile", "pandas.read_pickle"),
    *("yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "yaml.Loader", "yaml.UnsafeLoader"),
    *("yaml.FullLoader", "yaml.CLoader", "yaml.UnsafeConstructor"),
}
KNOWN = {
    ("__init__.py", "importlib.import_module"): "our own public names",
    ("config/plugin.py", "importlib.import_module"): "asks for trust first: see test_trust.py",
    ("engines/ctranslate2/package.py", "importlib.import_module"): "CTranslate2 by its name",
    ("engines/ctranslate2/spec.py", "importlib.import_module"): "CTranslate2 by its name",
}
"""What is there for a reason."""


def offences(tree: ast.AST) -> Iterator[str]:
    """What could run code that is in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            yield from (name for name in names if name.split(".")[0] in MODULES)
            if isinstance(node, ast.ImportFrom):
                yield from (full for a in node.names if (full := f"{node.module}.{a.name}") in CALLS)
        elif (
            isinstance(node, ast.Name | ast.Attribute)
            and isinstance(node.ctx, ast.Load)
            and (name := ast.unparse(node)) in CALLS
        ):
            yield name
        elif isinstance(node, ast.Call):
            keywords = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
            yield from (f"{name}=True" for name in ("shell", "allow_pickle", "trust_remote_code") if keywords.get(name))


def is_harmless_load(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "np.load"
        and any(k.arg == "allow_pickle" and ast.unparse(k.value) == "False" for k in node.keywords)
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_no_file_of_ours_runs_what_it_reads(file):
    name, tree = file.relative_to(PACKAGE).as_posix(), parse(file)
    harmless = sum(is_harmless_load(node) for node in ast.walk(tree))
    found = [offence for offence in offences(tree) if (name, offence) not in KNOWN]
    assert found == ["np.load"] * harmless


def test_what_is_known_is_there():
    for name, offence in KNOWN:
        assert offence in [*offences(parse(PACKAGE / name))], f"{name} has no `{offence}` any more"


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "def f():\n  from pickle import loads",
        "import torch\ntorch.load('x')",
        "from torch import load",
        "eval('1')",
        "list(map(exec, lines))",
        "np.load('x', allow_pickle=True)",
        "yaml.load(text, Loader=yaml.SafeLoader)",
        "from yaml import unsafe_load",
        "subprocess.run('ls', shell=True)",
        "AutoModel.from_pretrained(folder, trust_remote_code=True)",
        "importlib.import_module(name)",
    ],
)
def test_it_would_be_found(source):
    assert [*offences(ast.parse(source))]
