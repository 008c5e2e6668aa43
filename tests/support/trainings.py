"""Trainings of seconds on a small text, and their weights and metrics."""

import json
import random

import torch
import yaml

from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.training.checkpoints.checkpoint import list_checkpoints, load_weights
from seq2attn.training.train import train
from tests.support.compare_runs import MEASUREMENTS, assert_identical
from tests.support.processes import start_two

WORDS = [f"{a}{b}" for a in "bdfgklmn" for b in ("a", "e", "i", "o", "ul")]
BAHDANAU = {
    "embeddings": {"dim": 8},
    "encoder": {"kind": "gru", "dim": 8},
    "decoder": {"kind": "bahdanau", "dim": 8, "attention": {"score": {"kind": "additive", "dim": 8}}},
}
HARD = {"score": {"kind": "coverage", "dim": 8}, "align": {"kind": "hard-reinforce"}}
TRANSFORMER = {"kind": "transformer", "layers": 1, "heads": 2, "ffn_dim": 16, "dropout": 0.2}
MULTI_HEAD = {"attention_dropout": 0.2, "attention": {"score": {"kind": "multi-head", "heads": 2}}}
MODELS = {
    "recurrent": {
        "embeddings": {"dim": 8, "dropout": 0.2},
        "encoder": {"kind": "gru", "dim": 8, "layers": 2, "dropout": 0.2},
        "decoder": {"kind": "luong", "cell": "lstm", "dim": 8, "layers": 2, "dropout": 0.2},
    },
    "transformer": {
        "embeddings": {"dim": 8, "dropout": 0.2, "tie": "output"},
        "encoder": TRANSFORMER,
        "decoder": TRANSFORMER | MULTI_HEAD,
    },
    "hard": {**BAHDANAU, "decoder": {"kind": "bahdanau", "dim": 8, "attention": HARD}},
}
WORD_TOKENIZERS = {"source": {"kind": "words"}, "target": {"kind": "words"}}
BPE_DROPOUT = {"joint": {"kind": "bpe", "vocab_size": 300, "dropout": 0.3}}


def write_corpus(folder, train=48, dev=6, max_words=7):
    """A small text of numbers of pairs in `folder`; the translation reverses the words."""
    rng = random.Random(0)
    for name, pairs in (("train", train), ("dev", dev)):
        lines = [[rng.choice(WORDS) for _ in range(rng.randint(2, max_words))] for _ in range(pairs)]
        (folder / f"{name}.src").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"{name}.tgt").write_text("".join(" ".join(line[::-1]) + "\n" for line in lines))
    return folder


def content(folder, run, *, model=BAHDANAU, tokenizer=WORD_TOKENIZERS, **training):
    defaults = {
        "batch": {"tokens": 64},
        "lr_schedule": {"kind": "constant"},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "validation": {"every": "4 updates", "metric": "loss"},
        "report_every": 2,
    }
    data = {
        name: {"kind": "plain", "source": str(folder / f"{name}.src"), "target": str(folder / f"{name}.tgt")}
        for name in ("train", "dev")
    }
    parts = {"data": data, "tokenizer": tokenizer, "model": model, "training": {**defaults, **training}}
    return {"run_dir": str(folder / run), **parts}


def train_run(folder, run, *, resume=False, **options):
    return train(ExperimentConfig.model_validate(content(folder, run, **options)), resume=resume)


def last_weights(run):
    """Weights of the last checkpoint, not of the best."""
    return load_weights(list_checkpoints(run.folder)[-1])


def metrics(run, kind=None):
    """metrics.jsonl without timings."""
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    untimed = [{k: v for k, v in line.items() if k not in MEASUREMENTS} for line in lines]
    return [line for line in untimed if kind in (None, line["kind"])]


def assert_exact_resume(folder, updates, *, train=train_run, **options):
    """A training that is resumed half-way equals an uninterrupted one in weights, optimizer state and logs."""
    whole = train(folder, "whole", max_duration=[f"{updates} updates"], **options)
    train(folder, "parts", max_duration=[f"{updates // 2} updates"], **options)
    parts = train(folder, "parts", max_duration=[f"{updates} updates"], resume=True, **options)
    assert_identical(whole, parts)
    assert len(list_checkpoints(parts.folder)) > 1


def log_of(run):
    return (run.folder / "train.log").read_text()


def last_state(run):
    return list_checkpoints(run.folder)[-1].train_state


def train_in_two_processes(folder, run, *arguments, **options):
    """Returns the run directory, and the exit code and output of each process."""
    config = folder / f"{run}.yaml"
    config.write_text(yaml.safe_dump(content(folder, run, **options)))
    processes = start_two("train", config, *arguments, folder=folder)
    return RunDirectory(folder / run), *zip(*(process.finish() for process in processes), strict=True)


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def assert_near(one, other):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-6)


LAST = {"keep_last": 2, "keep_best": 2, "average": "last"}
BEST = {"keep_last": 1, "keep_best": 2, "average": "best"}
PLATEAU = {"kind": "plateau", "factor": 0.5, "patience": 1}
FAST = {"optimizer": {"kind": "adam", "lr": 0.3}}  # too high, so that validations get worse at times
LOCAL_ATTENTION = {"score": {"kind": "general", "scaled": True}, "align": {"kind": "local-p", "window": 2}}
LOCAL = {**BAHDANAU, "decoder": {"kind": "luong", "dim": 8, "dropout": 0.2, "attention": LOCAL_ATTENTION}}
LAYERS = {"kind": "convolutional", "dim": 8, "layers": 2, "kernel_size": 3, "dropout": 0.2}
CONVOLUTIONAL = {
    "embeddings": {"dim": 8},
    "encoder": LAYERS,
    "decoder": {**LAYERS, "attention": {"score": {"kind": "dot", "scaled": True}}},
}
CASES = {
    "recurrent, moving average": {
        "model": MODELS["recurrent"],
        "ema_decay": 0.9,
        "checkpoints": LAST,
        "lr_schedule": {"kind": "inverse-sqrt"},
        **FAST,
    },
    "transformer, bpe-dropout, plateau": {
        "model": MODELS["transformer"],
        "tokenizer": BPE_DROPOUT,
        "batch": {"tokens": 150, "micro_batch_tokens": 50},
        "checkpoints": BEST,
        "lr_schedule": PLATEAU,
        **FAST,
    },
    "hard, momentum, cosine": {
        "model": MODELS["hard"],
        "optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9},
        "lr_schedule": {"kind": "cosine"},
        "batch": {"gradient_accumulation": 2},
        "validation": {"every": "5 updates", "metric": "loss"},
    },
    "adadelta": {"optimizer": {"kind": "adadelta"}, "report_every": 1, "batch": {"tokens": "auto"}},
    "local": {"model": LOCAL, "ema_decay": 0.9},
    "convolutional": {"model": CONVOLUTIONAL},
    "early stop": {"validation": {"every": "2 updates", "metric": "loss", "patience": 2}, **FAST},
}
PLAIN = {
    "max_duration": ["13 updates"],
    "report_every": 4,
    "batch": {"tokens": 64},
    "validation": {"every": "3 updates", "metric": "loss"},
}


NO_UPDATE = {"optimizer": {"kind": "sgd", "lr": 1e-40}, "max_duration": ["1 update"]}
"""An update that changes no weight, except those that are zero, by less than a float can hold otherwise."""
