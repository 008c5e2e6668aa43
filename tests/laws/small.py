"""Trainings of seconds: a small text, small models, and what they leave behind."""

from __future__ import annotations

import json
import random

import pytest
import torch

from seq2attn.experiment import ExperimentConfig
from seq2attn.io.weights import load_tensors
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.train import train

WORDS = [f"{a}{b}" for a in "bdfgklmn" for b in ("a", "e", "i", "o", "ul")]
MODELS = {
    "recurrent": {
        "embeddings": {"dim": 8, "dropout": 0.2},
        "encoder": {"kind": "gru", "dim": 8, "layers": 2, "dropout": 0.2},
        "decoder": {"kind": "luong", "cell": "lstm", "dim": 8, "layers": 2, "dropout": 0.2},
    },
    "transformer": {
        "embeddings": {"dim": 8, "dropout": 0.2, "tie": "output"},
        "encoder": {"kind": "transformer", "layers": 1, "heads": 2, "ffn_dim": 16, "dropout": 0.2},
        "decoder": {
            "kind": "transformer",
            "layers": 1,
            "heads": 2,
            "ffn_dim": 16,
            "dropout": 0.2,
            "attention_dropout": 0.2,
            "attention": {"score": {"kind": "multi-head", "heads": 2}},
        },
    },
    "drawing": {
        "embeddings": {"dim": 8},
        "encoder": {"kind": "gru", "dim": 8},
        "decoder": {
            "kind": "bahdanau",
            "dim": 8,
            "attention": {"score": {"kind": "coverage", "dim": 8}, "align": {"kind": "hard-reinforce"}},
        },
    },
}
CALM = {
    "embeddings": {"dim": 8},
    "encoder": {"kind": "gru", "dim": 8},
    "decoder": {"kind": "bahdanau", "dim": 8, "attention": {"score": {"kind": "additive", "dim": 8}}},
}
WORDWISE = {"source": {"kind": "words"}, "target": {"kind": "words"}}
CUT_ANEW = {"joint": {"kind": "bpe", "vocab_size": 300, "dropout": 0.3}}


@pytest.fixture
def corpus(tmp_path):
    """A small text whose translation is itself from behind."""
    draw = random.Random(0)
    for name, pairs in (("train", 48), ("dev", 6)):
        lines = [[draw.choice(WORDS) for _ in range(draw.randint(2, 7))] for _ in range(pairs)]
        (tmp_path / f"{name}.src").write_text("".join(" ".join(line) + "\n" for line in lines))
        (tmp_path / f"{name}.tgt").write_text("".join(" ".join(line[::-1]) + "\n" for line in lines))
    return tmp_path


def content(folder, run, *, model=CALM, tokenizer=WORDWISE, **training):
    """A config as YAML has it."""
    plain = {
        "batch": {"tokens": 64},
        "lr_schedule": {"kind": "constant"},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "validation": {"every": "4 updates", "metric": "loss"},
        "report_every": 2,
    }
    data = {
        name: {"source": str(folder / f"{name}.src"), "target": str(folder / f"{name}.tgt")}
        for name in ("train", "dev")
    }
    for part in data.values():
        part["kind"] = "plain"
    return {
        "run_dir": str(folder / run),
        "data": data,
        "tokenizer": tokenizer,
        "model": model,
        "training": {**plain, **training},
    }


def trained(folder, run, *, resume=False, **options):
    return train(ExperimentConfig.model_validate(content(folder, run, **options)), resume=resume)


def last_weights(run):
    """What training ended with, not the best."""
    return load_tensors(list_checkpoints(run.folder)[-1].model_path)


def metrics(run, kind=None):
    """metrics.jsonl without what a clock says."""
    lines = [json.loads(line) for line in run.metrics_path.read_text().splitlines()]
    clocks = ("seconds", "target_tokens_per_second")
    found = [{k: v for k, v in line.items() if k not in clocks} for line in lines]
    return [line for line in found if kind in (None, line["kind"])]


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def assert_near(one, other):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-6)
