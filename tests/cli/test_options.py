"""The options of a command reach the part that they are about."""

from __future__ import annotations

import json
from pathlib import Path

from seq2attn.translator import Translator
from tests.cli.conftest import Invoke
from tests.safe.untrained import LINES, untrained

SHORT = ("--set", "search.lengths.max_length=2")


def test_translate(tmp_path: Path, invoke: Invoke) -> None:
    """The search is that of the run, and what is said on the command line comes over it."""
    run = untrained(tmp_path).folder
    line = LINES[1]
    found = json.loads(invoke("translate", run, line, "--json", "--n-best", "3").out)
    assert len(found["tokens"]) == 9 and len(found["alternatives"]) == 2
    assert "--beam 4" in invoke("translate", run, line, "--n-best", "4", code=2).err
    whole = Translator.load(run).translate(line)
    assert (whole.tokens, len(whole.alternatives)) == (tuple(found["tokens"]), 2)
    assert len(json.loads(invoke("translate", run, line, "--json", *SHORT).out)["tokens"]) == 2


def test_evaluate(tmp_path: Path, invoke: Invoke) -> None:
    run = untrained(tmp_path).folder
    for more, width, most in (((), 3, 9), (("--beam", "2"), 2, 9), (SHORT, 3, 2)):
        invoke("evaluate", run, *more)
        report = json.loads((run / "evaluation/ours.json").read_text("utf-8"))
        assert (report["search"]["width"], report["search"]["lengths"]["max_length"]) == (width, most)
        texts = (run / "evaluation/ours.txt").read_text("utf-8").split("\n")[:-1]
        assert [len(text.split()) for text in texts] == [most, most, 0]
