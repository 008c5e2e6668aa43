"""The package never runs code from a file: no pickle, no `eval`, no YAML objects, no import by a name in a file."""

import ast
from collections.abc import Iterator

import pytest

from tests.support.source_code import FILES, PACKAGE, parse

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
    ("inference/engines/ctranslate2_engine.py", "importlib.import_module"),  # CTranslate2
    ("pretrained/family.py", "torch.load"),  # for --allow-pickle, with `weights_only`
    ("inference/engines/onnx_engine.py", "importlib.import_module"),  # the packages of ONNX
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


READERS = {
    *("json.load", "json.loads", "json.JSONDecoder", "tomllib.load", "ast.literal_eval", "zipfile.ZipFile"),
    *("numpy.load", "numpy.fromfile", "numpy.memmap", "numpy.loadtxt", "numpy.genfromtxt", "torch.load"),
    *("yaml.safe_load", "yaml.load", "yaml.safe_load_all", "yaml.compose", "yaml.compose_all", "yaml.parse"),
    *("yaml.scan", "yaml.SafeLoader", "yaml.CSafeLoader", "yaml.BaseLoader", "yaml.CBaseLoader"),
    *("safetensors.safe_open", "safetensors.deserialize", "safetensors.torch.load_file", "safetensors.torch.load"),
    *("safetensors.numpy.load_file", "safetensors.numpy.load"),
}
READER_METHODS = {
    *("model_validate", "model_validate_json", "validate_python", "validate_json", "validate_strings"),
    *("read_text", "read_bytes"),
}
READERS_ALLOWED = {
    ("data/corpora.py", "read_text"),  # a file of the package
    ("data/corpora.py", "zipfile.ZipFile"),  # a corpus of a known digest
    ("explorer/answers.py", "validate_python"),  # a question of the page
    ("explorer/widget.py", "read_text"),  # a file of the package
    ("data/corpus.py", "numpy.load"),  # of a regular file, which is mapped
    ("exporters/standalone.py", "read_text"),  # a file of the package
    ("pretrained/family.py", "torch.load"),  # for --allow-pickle, with `weights_only`
    ("pretrained/import_run.py", "model_validate"),  # sections that the import makes
    ("pretrained/marian_weights.py", "numpy.load"),  # of bytes whose arrays were counted and measured
    ("pretrained/marian_weights.py", "zipfile.ZipFile"),
    *(("starter/candidates.py", use) for use in ("read_text", "yaml.safe_load")),  # a file of the package
    *(("starter/init.py", use) for use in ("read_text", "yaml.safe_load")),  # the same, and what it writes
    ("sweep/record.py", "read_text"),  # of the system
    ("sweep/run_sweep.py", "read_text"),  # the log of a training that it started
    ("sweep/speedrun.py", "validate_python"),  # the validations of a training that it made
    ("tokenizers/train_sentencepiece.py", "json.loads"),  # its argument; it imports nothing from the package
    ("tokenizers/wordpiece.py", "json.loads"),  # the rules of a tokenizer that is loaded
    *(("visualization/page.py", use) for use in ("read_text", "read_bytes")),  # files of the package
}


def readers(tree: ast.AST) -> Iterator[str]:
    """Functions that read or validate files, by the names of their modules, whatever they are imported as."""
    names = dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            head, dot, rest = ast.unparse(node).partition(".")
            yield from {names.get(head, head) + dot + rest} & READERS
        if isinstance(node, ast.Attribute):
            yield from {node.attr} & READER_METHODS


def test_files_are_read_in_io_and_config_only():
    """The readers there are limited, refuse what is no regular file, and name the file."""
    files = {file.relative_to(PACKAGE): file for file in FILES}
    outside = {path: file for path, file in files.items() if path.parts[0] not in ("io", "config")}
    assert {(path.as_posix(), use) for path, file in outside.items() for use in readers(parse(file))} == READERS_ALLOWED


@pytest.mark.parametrize(
    "breach",
    [
        "import json\njson.loads(path.open().read())",
        "import json as other\nother.load(file)",
        "from json import loads as parse\nmap(parse, lines)",
        "import numpy as np\nnp.load(path, allow_pickle=False)",
        "from numpy import load\nload(path)",
        "import yaml\nyaml.safe_load(text)",
        "from yaml import safe_load\nsafe_load(text)",
        "import yaml\nyaml.compose(text, Loader)",
        "import safetensors\nsafetensors.safe_open(path, 'np')",
        "from safetensors.torch import load_file\nload_file(path)",
        "ExperimentConfig.model_validate(read_object(path, fix)['config'])",
        "TypeAdapter(Record).validate_json(line)",
        "path.read_text(encoding='utf-8')",
    ],
)
def test_other_readers_are_detected(breach: str) -> None:
    assert [*readers(ast.parse(breach))]
