"""Untrained runs of every model family, with a small text, for tests of commands."""

from __future__ import annotations

import random
from pathlib import Path

import torch

from seq2attn.data.prepare import prepare
from seq2attn.experiment import ExperimentConfig
from seq2attn.io.weights import unique_state_dict
from seq2attn.models import build_model
from seq2attn.run_directory import RunDirectory
from tests.small_bert import make_bert

WORDS = [f"{a}{b}" for a in "bdfgklmn" for b in ("a", "e", "i", "o", "ul")]
RECURRENT: dict[str, object] = {"kind": "gru", "dim": 16, "layers": 2}
TRANSFORMER: dict[str, object] = {"kind": "transformer", "layers": 2, "heads": 2, "ffn_dim": 32}
CONVOLUTIONAL: dict[str, object] = {"kind": "convolutional", "dim": 16, "layers": 2}


def attentive(kind: str, score: str, align: str = "global", **options: object) -> dict[str, object]:
    """A recurrent decoder."""
    window = {"window": 2} if align.startswith("local") else {}
    attention = {"score": {"kind": score}, "align": {"kind": align, **window}}
    return {"kind": kind, "dim": 16, "attention": attention, **options}


MULTI_HEAD = {"score": {"kind": "multi-head", "heads": 2}}
FAMILIES: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "bahdanau": (RECURRENT, attentive("bahdanau", "additive")),
    "luong": (RECURRENT, attentive("luong", "general", cell="lstm", layers=2)),
    "luong without feeding": ({"kind": "lstm", "dim": 16}, attentive("luong", "dot", "local-m", input_feeding=False)),
    "local": (RECURRENT, attentive("luong", "general", "local-p")),
    "hard": (RECURRENT, attentive("bahdanau", "additive", "hard-reinforce")),
    "monotonic": (RECURRENT, attentive("bahdanau", "coverage", "monotonic")),
    "sparse": (RECURRENT, attentive("recurrent", "cosine", "entmax15")),
    "fixed": ({"kind": "lstm", "dim": 16}, {"kind": "fixed-context", "cell": "lstm", "dim": 16}),
    "convolutional": (CONVOLUTIONAL, {**CONVOLUTIONAL, "attention": {"score": {"kind": "dot", "scaled": True}}}),
    "transformer": (TRANSFORMER, {**TRANSFORMER, "attention": MULTI_HEAD}),
    "transformer, modern": (
        {**TRANSFORMER, "position_encoding": "relative", "norm_type": "rmsnorm", "activation": "swiglu"},
        {**TRANSFORMER, "position_encoding": "rotary", "kv_heads": 1, "attention": MULTI_HEAD},
    ),
    "deep and shallow": (TRANSFORMER, attentive("luong", "general")),
    "bert": ({"kind": "bert"}, attentive("luong", "general")),
}
"""An encoder and a decoder of each family."""


def write_text(folder: Path, pairs: int = 40) -> None:
    """Sources, and their words in reverse order as targets."""
    generator = random.Random(0)
    for name, count in (("train", pairs), ("dev", 12)):
        lines = [[generator.choice(WORDS) for _ in range(generator.randint(1, 9))] for _ in range(count)]
        (folder / f"{name}.src").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"{name}.tgt").write_text("".join(" ".join(line[::-1]) + "\n" for line in lines))


WORD_TOKENIZERS: dict[str, dict[str, object]] = {"source": {"kind": "words"}, "target": {"kind": "words"}}


def make_run(
    folder: Path, encoder: dict[str, object], decoder: object, tokenizer: dict[str, dict[str, object]] = WORD_TOKENIZERS
) -> RunDirectory:
    """An untrained run with large output weights, so that tokens differ in probability."""
    write_text(folder)
    if encoder["kind"] == "bert":
        path = {"path": str(make_bert(folder / "bert", WORDS))}
        encoder, tokenizer = {**encoder, **path}, {**tokenizer, "source": {"kind": "wordpiece", **path}}
    text = {name: {"source": folder / f"{name}.src", "target": folder / f"{name}.tgt"} for name in ("train", "dev")}
    experiment = ExperimentConfig.model_validate(
        {
            "run_dir": folder / "run",
            "data": {name: {"kind": "plain", **files} for name, files in text.items()},
            "tokenizer": tokenizer,
            "model": {"embeddings": {"dim": 16}, "encoder": encoder, "decoder": decoder},
            "search": {"kind": "beam", "beam_size": 3, "lengths": {"max_length": 12}},
        }
    )
    prepared = prepare(experiment.data, experiment.tokenizer, experiment.run_dir, lambda line: None)
    run = RunDirectory(experiment.run_dir)
    run.save_config(experiment)
    torch.manual_seed(0)
    vocabularies = prepared.source.vocabulary, prepared.target.vocabulary
    model = build_model(experiment.model, *map(len, vocabularies))
    torch.nn.init.normal_(model.output_projection.weight, std=2.0)
    run.save_model(unique_state_dict(model), vocabularies, {"checkpoints": []})
    return run
