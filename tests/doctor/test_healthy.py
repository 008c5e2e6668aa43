"""Sound models of every family are found to be sound, by the command as a user has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seq2attn.cli import app
from seq2attn.doctor.examine import LAWS, admit, examine
from seq2attn.run import Run
from tests.doctor.runs import FAMILIES, make_run

NOT = {
    "bahdanau": (),
    "luong": (),
    "luong without feeding": ("attention equals its formula",),
    "local": ("attention equals its formula",),
    "hard": (),
    "monotonic": ("attention equals its formula",),
    "sparse": ("attention equals its formula",),
    "fixed": ("attention equals its formula",),
    "convolutional": ("recurrence equals PyTorch's",),
    "transformer": ("recurrence equals PyTorch's",),
    "transformer, modern": ("recurrence equals PyTorch's",),
    "deep and shallow": (),
    "bert": (),
}
"""The laws that say nothing about a family, besides those of exports that are not there."""
EXPORTS = ("ctranslate2 equals native",)


def examined(run: Run, count: int = 6, file: Path | None = None):
    _, patient = admit(run, count, file, "cpu")
    return examine(patient)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sound_model_passes(family, tmp_path):
    rows = examined(make_run(tmp_path, *FAMILIES[family]))
    assert [row.law for row in rows] == [*LAWS]
    assert {row.law: row for row in rows if row.fails} == {}
    assert {row.law for row in rows if row.found is None} == {*NOT[family], *EXPORTS}
    assert all(row.why.startswith("does not apply: ") for row in rows if row.found is None)


def command(*arguments: object):
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)], prog_name="seq2attn")


def test_the_table(tmp_path):
    run = make_run(tmp_path, *FAMILIES["luong"])
    done = command(run.folder, "--sentences", 5)
    assert (done.exit_code, done.exception) == (0, None)
    assert f"5 sentences of {run.folder / 'data/dev.jsonl'}, on cpu" in done.stderr
    head, *rows = done.stdout.split("\n\n")[0].splitlines()
    assert head.split() == ["check", "largest", "allowed", "sentence", "time"]
    assert [re.split(r"\s{2,}", row)[0] for row in rows] == [*LAWS]
    said = {re.split(r"\s{2,}", row)[0]: re.split(r"\s{2,}", row)[1:] for row in rows}
    for law, (passes, *numbers, seconds) in said.items():
        assert seconds.endswith(" s")
        if law in (*NOT["luong"], *EXPORTS):
            assert (passes, numbers) == ("-", [])
        else:
            assert passes == "pass" and float(numbers[0]) <= float(numbers[1])
    assert "ctranslate2 equals native: does not apply: the run was not exported to it" in done.stdout


def test_where_sentences_come_from(tmp_path):
    run = make_run(tmp_path, *FAMILIES["fixed"])
    (tmp_path / "lines").write_text("\n \nba be\nbi\n")
    done = command(run.folder, "-i", tmp_path / "lines")
    assert done.exit_code == 0 and f"2 sentences of {tmp_path / 'lines'}" in done.stderr
    assert {row.found.where for row in examined(run, 1, tmp_path / "lines") if row.found} <= {3, None}
    (run.folder / "data" / "dev.jsonl").unlink()
    done = command(run.folder, "--sentences", 4)
    assert done.exit_code == 0 and "4 sentences of the vocabulary, on cpu" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "is no run directory"),
        (["run", "-i", "empty"], "has no line to examine the model with"),
        (["run", "-i", "none"], "there is no such file"),
        (["run", "--device", "cuda:99"], "there is no device `cuda:99` here"),
    ],
)
def test_mistakes_of_a_user(arguments, said, tmp_path, monkeypatch):
    make_run(tmp_path, *FAMILIES["fixed"])
    (tmp_path / "empty").write_text("\n \n")
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    assert done.exit_code == 2 and said in done.stderr
