"""`seq2attn score`: forced decoding gives what search gave, whatever the form and wherever the lines come from."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
import torch

from seq2attn.inference.translator import Translator
from seq2attn.io.weights import unique_state_dict
from seq2attn.run_directory import RunDirectory
from seq2attn.search.config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.vocabulary import UNK
from tests.cli.conftest import Invoke
from tests.safe.untrained import untrained

LINES = ("a few words", "not many words are there", "", "words of which there are many", "a")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """One that never says `<unk>`, which no text stands for."""
    run = untrained(tmp_path)
    model, source, target = run.load_model()
    with torch.no_grad():
        model.output_projection.bias[UNK] -= 50
    run.save_model(unique_state_dict(model), (source.vocabulary, target.vocabulary), {"checkpoints": []})
    return run


def write(path: Path, lines: list[str] | tuple[str, ...]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def found(run: RunDirectory, tmp_path: Path) -> list[float]:
    """The log-probabilities of a search whose translations are in `out`, line by line."""
    search = BeamConfig(kind="beam", beam_size=3, lengths=LengthsConfig(max_length=6))
    translations = Translator.load(run.folder).translate(LINES, search)
    write(tmp_path / "in", LINES)
    write(tmp_path / "out", [one.text for one in translations])
    return [one.log_prob for one in translations]


def test_forced_decoding_gives_what_search_gave(invoke: Invoke, run: RunDirectory, found: list[float]) -> None:
    done = invoke("score", run.folder, "--source", "in", "--target", "out")
    assert [float(line) for line in done.out.splitlines()] == pytest.approx(found, abs=1e-4)
    assert done.out.splitlines()[2] == "0.0000"  # both sides are empty


def test_tokens_add_up_and_end_with_the_end(invoke: Invoke, run: RunDirectory, found: list[float]) -> None:
    rows = invoke("score", run.folder, "--source", "in", "--target", "out", "--per-token").out.splitlines()
    objects = invoke("score", run.folder, "--source", "in", "--target", "out", "--json").out.splitlines()
    texts = Path("out").read_text(encoding="utf-8").split("\n")
    for row, item, log_prob, text in zip(rows, map(json.loads, objects), found, texts, strict=False):
        total, *tokens = row.split("\t")
        assert item["log_prob"] == pytest.approx(log_prob, abs=1e-4) == pytest.approx(float(total), abs=2e-4)
        assert sum(item["token_log_probs"]) == pytest.approx(item["log_prob"])
        assert item["tokens"] == ([*text.split(), "</s>"] if text else [])
        shown = [f"{name} {value:.4f}" for name, value in zip(item["tokens"], item["token_log_probs"], strict=True)]
        assert tokens == shown


def test_each_token_has_the_probability_that_the_model_gives_it(
    invoke: Invoke, run: RunDirectory, tmp_path: Path
) -> None:
    write(tmp_path / "in", ["a few words"])
    write(tmp_path / "out", ["not many"])
    item = json.loads(invoke("score", run.folder, "--source", "in", "--target", "out", "--json").out)
    model, source, target = run.load_model()
    ids = torch.tensor([[*source.encode("a few words"), 2]])
    memory, state = model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
    word, words = torch.tensor([1]), [*target.encode("not many"), 2]
    expected = []
    with torch.no_grad():
        for token in words:
            log_probs, state = model.step(word, state, memory)
            expected.append(float(log_probs[0, token]))
            word = torch.tensor([token])
    assert target.convert_ids_to_tokens([1, 2]) == ["<s>", "</s>"]
    assert item["token_log_probs"] == pytest.approx(expected, abs=1e-5)


def test_perplexity_is_of_all_tokens(invoke: Invoke, run: RunDirectory, found: list[float]) -> None:
    done = invoke("score", run.folder, "--source", "in", "--target", "out")
    count = sum(len(line.split()) + 1 for line in Path("out").read_text("utf-8").split("\n") if line)
    expected = f"5 pairs, {count} tokens with EOS: log-probability {sum(found):.2f}"
    assert done.err.splitlines()[-1].startswith(expected)
    assert done.err.endswith(f", perplexity {math.exp(-sum(found) / count):.2f}\n")


def test_what_is_odd_is_named(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    write(tmp_path / "in", ["a few words", "", "many " * 300])
    write(tmp_path / "out", ["", "strange words", "a few"])
    done = invoke("score", run.folder, "--source", "in", "--target", "out")
    assert len(done.out.splitlines()) == 3 and "nan" not in done.out
    assert [line for line in done.err.splitlines() if line.startswith("warning: ")] == [
        "warning: line 1: one side is empty; scored nevertheless",
        "warning: line 2: one side is empty; scored nevertheless",
        "warning: line 3: 300 tokens, and the model was trained on none with more than 256 (`data.filters.max_length`);"
        " not split for scoring",
        "warning: 1 tokens of the target are unknown, and scored as <unk>",
    ]


def test_unequal_files_are_refused_and_nothing_is_lost(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    write(tmp_path / "in", LINES)
    write(tmp_path / "out", LINES[:4])
    write(tmp_path / "scores", ["-1.0"])
    done = invoke("score", run.folder, "--source", "in", "--target", "out", "-o", "scores", code=2)
    assert "in has 5 lines and" in done.err and "out has 4 lines" in done.err
    assert (tmp_path / "scores").read_text() == "-1.0\n"
    write(tmp_path / "out", LINES)
    invoke("score", run.folder, "--source", "in", "--target", "out", "-o", "scores")
    assert (tmp_path / "scores").read_text() == invoke("score", run.folder, "--source", "in", "--target", "out").out
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("command", ["score", "align"])
def test_pipes_are_read_once(invoke: Invoke, run: RunDirectory, tmp_path: Path, command: str) -> None:
    lines = [line for line in LINES if line]
    files = [write(tmp_path / name, lines) for name in ("in", "out")]
    expected = invoke(command, run.folder, "--source", "in", "--target", "out").out
    names = []
    for file in files:
        reading, writing = os.pipe()
        os.write(writing, file.read_bytes())
        os.close(writing)
        names.append((reading, f"/dev/fd/{reading}"))
    done = invoke(command, run.folder, "--source", names[0][1], "--target", names[1][1])
    for reading, _ in names:
        os.close(reading)
    assert done.out == expected and expected.count("\n") == len(lines)


@pytest.mark.parametrize("command", [["score"], ["align"], ["align", "--select-head", "--gold", "links"]])
def test_a_device_that_is_not_there_is_refused(
    invoke: Invoke, run: RunDirectory, tmp_path: Path, command: list[str]
) -> None:
    write(tmp_path / "in", LINES)
    write(tmp_path / "links", ["0-0" if line else "" for line in LINES])
    done = invoke(*command, run.folder, "--source", "in", "--target", "in", "--device", "cuda:99", code=2)
    assert done.err.startswith("error: there is no device `cuda:99` here") and not done.out
