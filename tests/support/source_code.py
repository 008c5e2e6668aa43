"""The files of the package, and the order of its parts."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "seq2attn"
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in FILES}
LAYERS = """
    errors  version
    io
    config  nn
    tokenizers  attention  options
    data  encoders  metrics
    decoders
    models
    search  losses  optim  visualization
    experiment
    inference
    training  pretrained  evaluation  diagnostics
    exporters  sweep  starter  explorer
    cli
    __main__
"""
"""Packages, lowest first: a package imports from the lines above its own, and from itself."""
LAYER = {f"seq2attn.{part}": row for row, line in enumerate(LAYERS.split("\n")) for part in line.split()}


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
