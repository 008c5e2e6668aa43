"""The files of the package, and the order of its parts."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "seq2attn"
FILES = sorted(PACKAGE.rglob("*.py"))
LAYERS = """
    errors  version
    io
    config  nn
    tokenizers  attention
    data  encoders  metrics
    decoders
    models
    search  losses  optim  visualization
    experiment
    inference
    training  pretrained  evaluation  diagnostics
    export  sweep
    cli
    __main__
"""
"""Packages, lowest first: a package imports from the lines above its own, and from itself."""
LAYER = {f"seq2attn.{part}": row for row, line in enumerate(LAYERS.split("\n")) for part in line.split()}


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
