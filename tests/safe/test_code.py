"""The package never runs code from a file: no pickle, no `eval`, no YAML objects, no import by a name in a file."""

import ast
from collections.abc import Iterator

from tests.unit.test_structure import FILES, PACKAGE, parse

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "runpy", "ctypes", "imp", "code"}
CALLS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "importlib.import_module"),
    *("torch.load", "torch.jit.load", "torch.hub.load", "torch.export.load", "torch.package.PackageImporter"),
    *("torch.ops.load_library", "torch.classes.load_library"),
    *("numpy.load", "np.fromfile", "pandas.read_pickle"),
    *("yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "yaml.Loader", "yaml.UnsafeLoader"),
    *("yaml.FullLoader", "yaml.CLoader", "yaml.UnsafeConstructor"),
}
ALLOWED = {
    ("__init__.py", "importlib.import_module"),  # our public names
    ("config/plugin.py", "importlib.import_module"),  # after a check of trust: see test_trust.py
    ("engines/ctranslate2/engine.py", "importlib.import_module"),  # CTranslate2
    ("pretrained/convert_pickle.py", "torch.load"),  # for --allow-pickle, with `weights_only`, in a limited process
    ("pretrained/convert_pickle.py", "ctypes"),  # to leave the network
    ("engines/onnx/engine.py", "importlib.import_module"),  # the packages of ONNX
    ("training/config.py", "compile"),  # the value of the key `training.compile`
}


def unsafe_uses(tree: ast.AST) -> Iterator[str]:
    """Names and options that could run code of a file; `np.load` without pickles is safe."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in names if name in CALLS or name.split(".")[0] in MODULES)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from {ast.unparse(node)} & CALLS
        elif isinstance(node, ast.Call):
            options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if ast.unparse(node.func) == "np.load" and options.get("allow_pickle") != "False":
                yield "np.load"
            unsafe = ("shell", "allow_pickle", "trust_remote_code")
            yield from (f"{name}=True" for name in unsafe if options.get(name) == "True")


def test_no_file_of_the_package_runs_what_it_reads():
    uses = {(file.relative_to(PACKAGE).as_posix(), use) for file in FILES for use in unsafe_uses(parse(file))}
    assert uses == ALLOWED


def test_unsafe_uses_are_detected():
    source = """
from pickle import loads
from torch import load
list(map(exec, lines))
np.load("x")
yaml.load(text, Loader=yaml.SafeLoader)
subprocess.run("ls", shell=True)
importlib.import_module(name)
"""
    for line in source.strip().split("\n"):
        assert [*unsafe_uses(ast.parse(line))], line
