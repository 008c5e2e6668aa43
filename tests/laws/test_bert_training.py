"""Training with a BERT in front, each through `train` on a small text: what moves, how far, and what is kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
import torch
import yaml
from safetensors.torch import load_file

from seq2attn.config.load import load
from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.prepare import load_prepared
from seq2attn.experiment import ExperimentConfig
from seq2attn.inference.translator import Translator
from seq2attn.io.weights import load_tensors
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.train import train
from tests.laws.small import WORDS, assert_near, assert_same, content, corpus, last_weights, metrics, trained
from tests.small_bert import make_bert

__all__ = ["corpus"]  # a fixture

STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SGD = {"kind": "sgd", "lr": 0.1}


@pytest.fixture
def folder(corpus):
    return make_bert(corpus / "bert", WORDS)


def options(folder, decoder=None, **bert):
    """The parts of a config that a BERT asks for."""
    path = str(folder)
    attentive = {"kind": "luong", "dim": 8, "attention": {"score": {"kind": "additive", "dim": 8}}}
    return {
        "tokenizer": {"source": {"kind": "wordpiece", "path": path}, "target": {"kind": "words"}},
        "model": {
            "embeddings": {"dim": 8},
            "encoder": {"kind": "bert", "path": path, **bert},
            "decoder": decoder or attentive,
        },
    }


def moved(run, folder):
    """How far each weight of BERT is from the checkpoint; words in BERT's own order."""
    before, after = load_file(folder / "model.safetensors"), last_weights(run)
    source = run.load_tokenizers()[0]
    distances = {}
    for name, weight in before.items():
        own = (
            f"source_embedding.embeddings.{name.removeprefix('embeddings.')}"
            if name.startswith("embeddings")
            else f"encoder.bert.{name}"
        )
        if own in after:
            first = weight[[*source.bert_ids]] if "word_embeddings" in name else weight
            distances[own] = after[own] - first
    return distances


@pytest.mark.parametrize(
    ("frozen", "learn"),
    [
        ("none", ("source", "encoder.bert.encoder.layer.0.", "encoder.bert.encoder.layer.1.")),
        (0, ("encoder.bert.encoder.layer.0.", "encoder.bert.encoder.layer.1.")),
        (1, ("encoder.bert.encoder.layer.1.",)),
        ("all", ()),
    ],
)
def test_what_learns_moves_and_what_is_frozen_does_not(corpus, folder, frozen, learn):
    run = trained(corpus, "run", max_duration=["3 updates"], **options(folder, frozen=frozen, lr_scale=1.0))
    distances = moved(run, folder)
    assert len(distances) == 5 + 2 * 16
    for name, distance in distances.items():
        if name.endswith("key.bias"):
            continue  # adds the same to all scores: it has no gradient but for rounding
        assert bool(distance.abs().max() > 0) == name.startswith(learn or "-"), name
    assert "encoder: pretrained weights of " in (run.folder / "train.log").read_text()


def test_it_learns_at_a_share_of_the_rate(corpus, tmp_path):
    folder = make_bert(tmp_path / "still", WORDS, **STILL)
    one = {"max_duration": ["1 update"], "optimizer": SGD, "max_grad_norm": None}
    half, whole = (
        trained(corpus, name, **one, **options(folder, lr_scale=rate)) for name, rate in (("half", 0.5), ("whole", 1.0))
    )
    near, far = moved(half, folder), moved(whole, folder)
    for name in far:
        torch.testing.assert_close(2 * near[name], far[name], rtol=1e-3, atol=1e-6)
    assert max(distance.abs().max() for distance in far.values()) > 1e-3
    decoders = [{n: w for n, w in last_weights(run).items() if n.startswith("decoder")} for run in (half, whole)]
    assert_same(*decoders)
    assert [line["learning_rate"] for line in metrics(half, "train")] == [0.1]


def test_stopped_and_resumed_is_never_stopped(corpus, folder, frozen=1):
    fixed = {"batch": {"tokens": 160}, "report_every": 1, **options(folder, frozen=frozen, lr_scale=0.3)}
    fixed["validation"] = {"every": "4 updates", "metric": "loss"}
    whole = trained(corpus, "whole", max_duration=["8 updates"], **fixed)
    trained(corpus, "parts", max_duration=["4 updates"], **fixed)
    parts = trained(corpus, "parts", max_duration=["8 updates"], resume=True, **fixed)
    assert_same(last_weights(parts), last_weights(whole))
    assert metrics(parts) == metrics(whole)
    one, other = (list_checkpoints(run.folder)[-1].folder / "optimizer.safetensors" for run in (parts, whole))
    assert_same(load_tensors(one), load_tensors(other))


def test_a_run_needs_no_checkpoint_any_more(corpus, folder):
    run = trained(corpus, "run", max_duration=["4 updates"], **options(folder))
    lines = [" ".join(WORDS[:4]), "", f"{WORDS[0]} unheard {WORDS[1]} " * 40]
    before = [t.text for t in Translator.load(run.folder).translate(lines)]
    shutil.rmtree(folder)
    translator = Translator.load(run.folder)
    found = [*translator.translate(lines, attention=True)]
    assert [translation.text for translation in found] == before
    assert found[1].text == ""
    assert found[0].source_tokens == ("<s>", *WORDS[:4])
    assert found[0].cross_attention.shape[-1] == 6  # and the end
    config = load(run.config_path, ExperimentConfig, ["training.max_duration=[6 updates]"])
    train(config, resume=True)
    assert list_checkpoints(run.folder)[-1].train_state.update == 6


@pytest.mark.slow
def test_two_processes_are_one_that_accumulates(corpus, tmp_path):
    parts = options(make_bert(tmp_path / "still", WORDS, **STILL), frozen=1, lr_scale=0.5)
    fixed = {
        "optimizer": {"kind": "sgd", "lr": 0.5},
        "max_duration": ["1 epochs"],
        "validation": {"every": "1 epoch"},
    }
    alone = trained(corpus, "alone", batch={"tokens": 48, "gradient_accumulation": 2}, **fixed, **parts)
    lengths = load_prepared(alone.folder).train.corpus.lengths
    assert len(plan_batches(lengths, tokens=48, seed=1, epoch=0)) % 2 == 0
    config = corpus / "config.yaml"
    config.write_text(yaml.safe_dump(content(corpus, "together", batch={"tokens": 48}, **fixed, **parts)))
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
        *("-m", "seq2attn", "train", str(config)),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=corpus, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_near(last_weights(RunDirectory(corpus / "together")), last_weights(alone))
