"""`seq2attn score`: forced decoding of given translations."""

import json
import math
import os
from pathlib import Path

import pytest
import torch

import seq2attn
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference import scoring
from seq2attn.nn.packing import Sequences
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.vocabulary import BOS, EOS, UNK
from tests.support.commands import Invoke, write_lines
from tests.support.untrained_runs import change_weights, untrained_run

LINES = ("a few words", "not many words are there", "", "words of which there are many", "a")
FILES = ("--source", "in", "--target", "out")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A model that never predicts `<unk>`, which has no text."""
    run = untrained_run(tmp_path)
    change_weights(run, lambda model: model.output_projection.bias[UNK].sub_(50))
    return run


def test_scores_are_the_log_probabilities_of_search(
    invoke: Invoke, run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "WINDOW", 2)
    search = BeamConfig(beam_size=3, lengths=LengthsConfig(max_length=6))
    translations = seq2attn.load(run.folder).translate(LINES, search)
    texts, log_probs = [one.text for one in translations], [one.log_prob for one in translations]
    write_lines(tmp_path / "in", LINES)
    write_lines(tmp_path / "out", texts)
    done = invoke("score", run.folder, *FILES)
    assert [float(line) for line in done.out.splitlines()] == pytest.approx(log_probs, abs=1e-4)
    assert done.out.splitlines()[2] == "0.0000"  # both sides are empty
    count = sum(len(text.split()) + 1 for text in texts if text)
    summary = f"5 pairs, {count} tokens with EOS: log-probability {sum(log_probs):.2f}"
    assert done.err.splitlines()[-1].startswith(summary)
    assert done.err.endswith(f", perplexity {math.exp(-sum(log_probs) / count):.2f}\n")
    rows = invoke("score", run.folder, *FILES, "--per-token").out.splitlines()
    objects = map(json.loads, invoke("score", run.folder, *FILES, "--json").out.splitlines())
    for row, item, log_prob, text in zip(rows, objects, log_probs, texts, strict=True):
        total, *tokens = row.split("\t")
        assert item["log_prob"] == pytest.approx(log_prob, abs=1e-4) == pytest.approx(float(total), abs=2e-4)
        assert sum(item["token_log_probs"]) == pytest.approx(item["log_prob"])
        assert item["tokens"] == ([*text.split(), "</s>"] if text else [])
        pairs = zip(item["tokens"], item["token_log_probs"], strict=True)
        assert tokens == [f"{token} {value:.4f}" for token, value in pairs]


def test_each_token_has_its_probability(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    write_lines(tmp_path / "in", ["a few words"])
    write_lines(tmp_path / "out", ["not many"])
    item = json.loads(invoke("score", run.folder, *FILES, "--json").out)
    loaded = run.load()
    model, (source, target) = loaded.model, loaded.tokenizers
    ids = torch.tensor([[*source.encode("a few words"), EOS]])
    memory, state = model.encode(ids, Sequences(torch.ones_like(ids, dtype=torch.bool)))
    previous, expected = BOS, []
    with torch.no_grad():
        for token in [*target.encode("not many"), EOS]:
            log_probs, state = model.step(torch.tensor([previous]), state, memory)
            expected.append(float(log_probs[0, token]))
            previous = token
    assert item["token_log_probs"] == pytest.approx(expected, abs=1e-5)


def test_a_tag_is_scored_and_not_printed(invoke: Invoke, tmp_path: Path) -> None:
    untrained_run(tmp_path, tags=("<news>",))
    for name, lines in (
        ("in", LINES),
        ("tagged", [f"<news> {line}" if line else "" for line in LINES]),
        ("out", LINES),
    ):
        write_lines(tmp_path / name, lines)
    score = ("score", "run", "--json", "--target", "out", "--source")
    tagged, written, plain = (
        [json.loads(line) for line in invoke(*score, *source).out.splitlines()]
        for source in (("in", "--tag", "news"), ("tagged",), ("in",))
    )
    assert tuple(item["source"] for item in tagged) == LINES
    assert [item["log_prob"] for item in tagged] == pytest.approx([item["log_prob"] for item in written])
    assert tagged[0]["log_prob"] != pytest.approx(plain[0]["log_prob"])
    assert tagged[2] == plain[2]  # an empty line gets no tag


def test_warnings(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    write_lines(tmp_path / "in", ["a few words", "", "many " * 300])
    write_lines(tmp_path / "out", ["", "strange words", "a few"])
    done = invoke("score", run.folder, *FILES)
    assert len(done.out.splitlines()) == 3 and "nan" not in done.out
    assert [line for line in done.err.splitlines() if line.startswith("warning: ")] == [
        "warning: lines 1, 2: one side is empty; scored nevertheless",
        "warning: line 3: too many tokens: the model was trained on none with more than 256"
        " (`data.filters.max_length`); not split for scoring",
        "warning: the target has 1 unknown token, scored as <unk>",
    ]
    write_lines(tmp_path / "in", [""])
    write_lines(tmp_path / "out", [""])
    assert invoke("score", run.folder, *FILES).err.startswith("1 pair, 0 tokens with EOS: ")


def test_the_output_is_written_atomically(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    write_lines(tmp_path / "in", LINES)
    write_lines(tmp_path / "out", LINES[:4])
    write_lines(tmp_path / "scores", ["-1.0"])
    done = invoke("score", run.folder, *FILES, "-o", "scores", "--overwrite", code=2)
    assert "in has 5 lines and" in done.err and "out has 4 lines" in done.err
    assert (tmp_path / "scores").read_text() == "-1.0\n"
    write_lines(tmp_path / "out", LINES)
    invoke("score", run.folder, *FILES, "-o", "scores", "--overwrite")
    assert (tmp_path / "scores").read_text() == invoke("score", run.folder, *FILES).out
    assert not list(tmp_path.glob("*.partial"))


def test_an_output_that_cannot_be_written_is_refused(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    for name in ("in", "out"):
        write_lines(tmp_path / name, LINES)
    done = invoke("score", run.folder, *FILES, "-o", "missing/scores", code=2)
    assert "missing/scores: " in done.err and done.out == ""


@pytest.mark.parametrize("command", ["score", "align"])
def test_pipes_are_read_once(invoke: Invoke, run: RunDirectory, tmp_path: Path, command: str) -> None:
    pipes = []
    for name in ("in", "out"):
        write_lines(tmp_path / name, [line for line in LINES if line])
        read, write = os.pipe()
        os.write(write, (tmp_path / name).read_bytes())
        os.close(write)
        pipes.append(read)
    expected = invoke(command, run.folder, *FILES).out
    assert expected.count("\n") == 4
    names = [f"/dev/fd/{read}" for read in pipes]
    assert invoke(command, run.folder, "--source", names[0], "--target", names[1]).out == expected
    for read in pipes:
        os.close(read)
