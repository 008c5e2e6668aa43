"""Runs for tests of commands: a small text, a model with first weights, and no training."""

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


def attentive(kind: str, score: str, align: str = "global", **options: object) -> dict[str, object]:
    """A recurrent decoder."""
    more = {"local-p": {"window": 2}, "local-m": {"window": 2}}.get(align, {})
    scaled = {"scaled": True} if score == "general" and align == "global" else {}
    attention = {"score": {"kind": score, **scaled}, "align": {"kind": align, **more}}
    return {"kind": kind, "dim": 16, "attention": attention, **options}


MULTI_HEAD = {"score": {"kind": "multi-head", "heads": 2}}
FAMILIES: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "bahdanau": (RECURRENT, attentive("bahdanau", "additive")),
    "luong": (RECURRENT, attentive("luong", "general", cell="lstm", layers=2)),
    "luong without feeding": (
        {"kind": "lstm", "dim": 16},
        attentive("luong", "dot", "local-m", input_feeding=False),
    ),
    "local": (RECURRENT, attentive("luong", "general", "local-p")),
    "hard": (RECURRENT, attentive("bahdanau", "additive", "hard-reinforce")),
    "monotonic": (RECURRENT, attentive("bahdanau", "coverage", "monotonic")),
    "sparse": (RECURRENT, attentive("recurrent", "cosine", "entmax15")),
    "fixed": ({"kind": "lstm", "dim": 16}, {"kind": "fixed-context", "cell": "lstm", "dim": 16}),
    "convolutional": (
        {"kind": "convolutional", "dim": 16, "layers": 2},
        {
            "kind": "convolutional",
            "dim": 16,
            "layers": 2,
            "attention": {"score": {"kind": "dot", "scaled": True}},
        },
    ),
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
    """Pairs whose translation is the source from behind."""
    draw = random.Random(0)
    for name, count in (("train", pairs), ("dev", 12)):
        lines = [[draw.choice(WORDS) for _ in range(draw.randint(1, 9))] for _ in range(count)]
        (folder / f"{name}.src").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"{name}.tgt").write_text("".join(" ".join(line[::-1]) + "\n" for line in lines))


WORD_TOKENIZERS: dict[str, dict[str, object]] = {"source": {"kind": "words"}, "target": {"kind": "words"}}


def content(
    folder: Path,
    encoder: dict[str, object],
    decoder: object,
    tokenizer: dict[str, dict[str, object]] = WORD_TOKENIZERS,
) -> dict[str, object]:
    """A config as YAML has it."""
    if encoder["kind"] == "bert":
        path = {"path": str(make_bert(folder / "bert", WORDS))}
        encoder, tokenizer = {**encoder, **path}, {**tokenizer, "source": {"kind": "wordpiece", **path}}
    data = {
        name: {
            "kind": "plain",
            "source": str(folder / f"{name}.src"),
            "target": str(folder / f"{name}.tgt"),
        }
        for name in ("train", "dev")
    }
    model = {"embeddings": {"dim": 16}, "encoder": encoder, "decoder": decoder}
    return {
        "run_dir": str(folder / "run"),
        "data": data,
        "tokenizer": tokenizer,
        "model": model,
        "search": {"kind": "beam", "beam_size": 3, "lengths": {"max_length": 12}},
    }


def make_run(
    folder: Path,
    encoder: dict[str, object],
    decoder: object,
    tokenizer: dict[str, dict[str, object]] = WORD_TOKENIZERS,
) -> RunDirectory:
    """A run that was never trained; its words differ enough that it is sure of most."""
    write_text(folder)
    experiment = ExperimentConfig.model_validate(content(folder, encoder, decoder, tokenizer))
    prepared = prepare(experiment.data, experiment.tokenizer, experiment.run_dir, lambda line: None)
    run = RunDirectory(experiment.run_dir)
    run.save_config(experiment)
    torch.manual_seed(0)
    sizes = len(prepared.source.vocabulary), len(prepared.target.vocabulary)
    model = build_model(experiment.model, *sizes)
    torch.nn.init.normal_(model.output_projection.weight, std=2.0)
    vocabularies = prepared.source.vocabulary, prepared.target.vocabulary
    run.save_model(unique_state_dict(model), vocabularies, {"checkpoints": []})
    return run
