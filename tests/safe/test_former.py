"""Runs of older formats, built file by file as they were written, translate as they did."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from seq2attn import formats
from seq2attn.errors import RunError
from seq2attn.former import MIX
from seq2attn.run import Run
from seq2attn.search.config import BeamConfig
from seq2attn.text.vocabulary import Vocabulary
from seq2attn.translator import Translator
from seq2attn.weights import own_weights
from tests.cli.conftest import Invoke

CONFIG_1 = """\
run: runs/old
data:
  train:
    kind: aligned
    source: /nowhere/train.de
    target: /nowhere/train.en
  dev:
    kind: aligned
    source: /nowhere/dev.de
    target: /nowhere/dev.en
  test: {}
  filters:
    max_length: 256
    max_ratio: null
    duplicates: false
text:
  joint: null
  source:
    kind: words
    lowercase: false
    unicode: nfc
    split: punctuation
    min_frequency: 1
    max_size: null
    vocabulary: null
  target:
    kind: words
    lowercase: false
    unicode: nfc
    split: punctuation
    min_frequency: 1
    max_size: null
    vocabulary: null
model:
  embeddings:
    dim: 6
    tie: none
    scaled: true
    dropout: 0.0
    source_vectors: null
    target_vectors: null
  encoder:
    kind: gru
    dim: 6
    layers: 1
    bidirectional: true
    dropout: 0.0
  decoder:
    kind: luong
    cell: gru
    dim: 6
    layers: 1
    dropout: 0.0
    attention:
      score:
        kind: general
      align:
        kind: global
      dropout: 0.0
    input_feeding: true
training:
  until:
  - 60 updates
  seed: 1
  batch:
    tokens: 400
    accumulate: 1
  optimizer:
    kind: adam
    rate: 0.004
    betas:
    - 0.9
    - 0.98
    epsilon: 1.0e-09
    weight_decay: 0.0
  schedule:
    kind: constant
    warmup: 0
  label_smoothing: 0.1
  clip: 1.0
  precision: auto
  validation:
    every: 30 updates
    metric: bleu
    patience: null
    samples: 4
  checkpoints:
    keep_last: 2
    keep_best: 1
    average: none
  report_every: 50
  tensorboard: false
search:
  kind: beam
  width: 3
  lengths:
    normalise: average
    alpha: 1.0
    min_length: 0
    max_length: 9
    min_ratio: 0.0
    max_ratio: 3.0
"""
"""As the first version wrote it, 21 November 2026: before beams had patience, before scores had heads."""
TOKENS = ["<pad>", "<s>", "</s>", "<unk>", "a", "few", "words"]
SHAPES = {
    "source.table.weight": (7, 6),
    "encoder.rnn.weight_ih_l0": (9, 6),
    "encoder.rnn.weight_hh_l0": (9, 3),
    "encoder.rnn.bias_ih_l0": (9,),
    "encoder.rnn.bias_hh_l0": (9,),
    "encoder.rnn.weight_ih_l0_reverse": (9, 6),
    "encoder.rnn.weight_hh_l0_reverse": (9, 3),
    "encoder.rnn.bias_ih_l0_reverse": (9,),
    "encoder.rnn.bias_hh_l0_reverse": (9,),
    "target.table.weight": (7, 6),
    "decoder.bridge.parts.0.weight": (6, 6),
    "decoder.bridge.parts.0.bias": (6,),
    "decoder.attention.score.w_key.weight": (6, 6),
    "decoder.cells.words.weight": (18, 6),
    "decoder.cells.words.bias": (18,),
    "decoder.cells.feed.weight": (18, 6),
    "decoder.cells.hidden.0.weight": (18, 6),
    "decoder.cells.hidden.0.bias": (18,),
    "decoder.mix.weight": (6, 12),
    "decoder.mix.bias": (6,),
    "output.weight": (7, 6),
    "output.bias": (7,),
}
STATE = {"update": 60, "epoch": 6, "cursor": 6, "seconds": 1.5, "words": 1932, "best": 0.5, "stale": 1}
TOKENIZER = {"lowercase": False, "unicode": "nfc", "kind": "words", "split": "punctuation"} | {
    "min_frequency": 1,
    "max_size": None,
    "vocabulary": None,
}
Weights = dict[str, NDArray[np.float32]]


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def old_run(folder: Path, format_: int) -> tuple[Run, Weights]:
    """A run of format 1 or 2, file by file: as of before there was run.json, and before weights knew their digest.

    The first of them did not know their vocabularies either.
    """
    (folder / "checkpoints/00000060").mkdir(parents=True)
    heads = "" if format_ == 1 else "        heads: 1\n"
    config = CONFIG_1.replace("        kind: general\n", f"        kind: general\n{heads}")
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    tokens = json.dumps(TOKENS, ensure_ascii=False)
    digest = hashlib.sha256(tokens.encode()).hexdigest()
    for side in ("source", "target"):
        write(folder / side / "vocabulary.json", {"format": 1, "size": 7, "hash": digest, "tokens": TOKENS})
        write(folder / side / "tokenizer.json", {"format": 1, "config": TOKENIZER})
    draw = np.random.default_rng(1)
    weights = {name: draw.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    about = None if format_ == 1 else {"source": tokens, "target": tokens}
    for place in (folder, folder / "checkpoints/00000060"):
        safetensors.numpy.save_file(weights, place / "model.safetensors", about)
    safetensors.numpy.save_file({}, folder / "checkpoints/00000060/training.safetensors")
    write(folder / "model.json", {"format": 1, "origin": {"checkpoints": ["00000060"], "bleu": 0.5}})
    state = {"format": 1, "score": 0.5, "state": STATE, "optimizer": {"0.step": 60.0}}
    write(folder / "checkpoints/00000060/state.json", state)
    return Run(folder), weights


def patience(run: Run, *overrides: str) -> float | None:
    search = run.experiment(overrides).search
    assert isinstance(search, BeamConfig)
    return search.patience


@pytest.mark.parametrize("format_", [1, 2])
class TestBefore:
    """A run of a format of before translates as it did."""

    def test_it_translates(self, tmp_path: Path, format_: int) -> None:
        run, weights = old_run(tmp_path / "old", format_)
        assert run.format() == format_ and run.origin() == {"checkpoints": ["00000060"], "bleu": 0.5}
        own = own_weights(Translator.load(run.folder).model)
        if (
            format_ == 1
        ):  # eq. 5 of Luong et al. is tanh(W [context; state]), and ours tanh(W [state; context])
            weights[MIX] = np.roll(weights[MIX], 6, axis=1)
        assert {name: tensor.tolist() for name, tensor in own.items()} == {
            name: array.tolist() for name, array in weights.items()
        }
        twin = Run(tmp_path / "new")
        twin.save_experiment(run.experiment())
        source, target = run.tokenizers()
        source.save(twin.folder / "source")
        target.save(twin.folder / "target")
        twin.save_model(own, (source.vocabulary, target.vocabulary), {"checkpoints": []})
        assert twin.format() == formats.RUN
        lines = ["a few words", "", "few few a unknown", "words"]
        here, there = ([*Translator.load(one.folder).translate(lines)] for one in (run, twin))
        assert here == there and len({t.text for t in here}) > 1

    def test_its_beam_has_the_patience_that_it_had(self, tmp_path: Path, format_: int) -> None:
        run, _ = old_run(tmp_path / "old", format_)
        assert patience(run) is None and patience(run, "search.patience=1.5") == 1.5
        assert run.experiment(["search.kind=greedy"]).search.kind == "greedy"
        config = run.config.read_text(encoding="utf-8")
        run.config.write_text(config.replace("  width: 3\n", "  width: 3\n  patience: 4\n"), encoding="utf-8")
        assert patience(run) == 4
        run.config.write_text(config, encoding="utf-8")
        run.sign()
        assert patience(run) == 2

    def test_other_vocabularies_are_seen(self, tmp_path: Path, format_: int) -> None:
        run, _ = old_run(tmp_path / "old", format_)
        Vocabulary.of(["few", "a", "words"]).save(run.folder / "source/vocabulary.json")
        if format_ == 2:  # before, nobody could tell
            with pytest.raises(RunError, match="was trained with another vocabulary"):
                Translator.load(run.folder)

    def test_it_is_not_trained_on(self, tmp_path: Path, format_: int, invoke: Invoke) -> None:
        run, _ = old_run(tmp_path / "old", format_)
        said = invoke("train", run.config, "--resume", "--set", f"run={run.folder}", code=2).err
        assert "translates but is not trained on" in said


@pytest.mark.parametrize(
    ("score", "training", "state", "expected"),
    [
        ("kind: additive", "", None, None),
        ("kind: additive", "", {}, 1),
        ("kind: additive", "", {"baseline": None}, 2),
        ("kind: additive", "    at_once: null\n", None, 2),
        ("kind: multi-head\n        groups: null", "", None, 2),
        ("kind: dot", "", {"baseline": None}, 1),
        ("kind: dot\n        heads: 1", "", {}, 2),
    ],
)
def test_marks_of_the_time(
    tmp_path: Path, score: str, training: str, state: dict[str, object] | None, expected: int | None
) -> None:
    run, _ = old_run(tmp_path / "old", 1)
    config = CONFIG_1.replace("kind: general", score).replace(
        "    accumulate: 1\n", f"    accumulate: 1\n{training}"
    )
    run.config.write_text(config, encoding="utf-8")
    for file in run.folder.glob("checkpoints/*/state.json"):
        write(file, {"format": 1, "score": 0.5, "state": STATE | (state or {}), "optimizer": {}})
        if state is None:
            file.unlink()
    if expected is None:
        with pytest.raises(RunError, match="nothing tells of which"):
            run.format()
    else:
        assert run.format() == expected
    run.config.write_text(CONFIG_1.replace("kind: luong", "kind: bahdanau"), encoding="utf-8")
    assert run.format() == 2
