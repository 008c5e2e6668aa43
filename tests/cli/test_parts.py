"""`training.frozen` and `training.init_from` on the command line: names of parts, and what `--dry-run` prints."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Invoke
from tests.safe.untrained import untrained


def test_the_names_are_those_of_a_dry_run(invoke: Invoke, tmp_path: Path) -> None:
    untrained(tmp_path)
    out = invoke("train", "own.yaml", "--dry-run").out
    names = [line.split()[0] for line in out.splitlines() if line[:1].islower() and "." in line.split()[0]]
    total, encoder = (
        sum(int(line.split()[-1].replace(",", "")) for line in out.splitlines() if line.split()[0] == name)
        for name in ("trained", "encoder")
    )
    frozen = invoke("train", "own.yaml", "--dry-run", "--set", "training.frozen=[encoder]").out.splitlines()
    assert next(line for line in frozen if line.startswith("trained")).split()[-1] == f"{total - encoder:,}"
    assert len(names) > 10
    invoke("train", "own.yaml", "--dry-run", "--set", f"training.frozen=[{','.join(names[1:])}]")
    error = invoke("train", "own.yaml", "--dry-run", "--set", "training.frozen=[encoder.rn]", code=2).err
    assert error.startswith("<command line>:1:17: `training.frozen`: ") and "did you mean `encoder.rnn`?" in error
    exclude = "training.init_from={run_dir: run, exclude: [coder]}"
    error = invoke("train", "own.yaml", "--set", exclude, code=2).err
    assert error.startswith("<command line>:1:") and "exclude`: the model has no part `coder`" in error
    options = ["--set", "run_dir=new", "--set", "training.init_from={run_dir: elsewhere}"]
    assert "elsewhere: is no run directory" in invoke("train", "own.yaml", *options, code=2).err
