"""Training with BERT as encoder: frozen layers, learning-rate scale, exact resume."""

import pytest
import torch
from safetensors.torch import load_file

from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.prepared_data import load_prepared
from tests.support.bert import make_bert
from tests.support.bert_trainings import folder as folder
from tests.support.bert_trainings import options
from tests.support.trainings import (
    WORDS,
    assert_exact_resume,
    assert_near,
    assert_same,
    last_weights,
    log_of,
    metrics,
    train_in_two_processes,
    train_run,
)

STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SGD = {"kind": "sgd", "lr": 0.1}


def lr_scales(scale):
    return {"lr_scales": {"source_embedding": scale, "encoder": scale}}


def weight_changes(run, folder):
    before, after = load_file(folder / "model.safetensors"), last_weights(run)
    source = run.load_tokenizers().source
    distances = {}
    for name, weight in before.items():
        full_name = (
            f"source_embedding.embeddings.{name.removeprefix('embeddings.')}"
            if name.startswith("embeddings")
            else f"encoder.bert.{name}"
        )
        if full_name in after:
            first = weight[[*source.bert_ids]] if "word_embeddings" in name else weight
            distances[full_name] = after[full_name] - first
    return distances


def test_only_layers_that_are_not_frozen_change(corpus, folder):
    run = train_run(corpus, "run", max_duration=["3 updates"], **options(folder, frozen=1))
    distances = weight_changes(run, folder)
    assert len(distances) == 5 + 2 * 16
    for name, distance in distances.items():
        if not name.endswith("key.bias"):  # a constant in all scores, without gradient up to rounding
            assert bool(distance.abs().max() > 0) == name.startswith("encoder.bert.encoder.layer.1."), name
    assert "encoder: pretrained weights of " in log_of(run)


@pytest.mark.slow
def test_bert_has_a_scaled_learning_rate(corpus, tmp_path):
    folder = make_bert(tmp_path / "still", WORDS, **STILL)
    one = {"max_duration": ["1 update"], "optimizer": SGD, "max_grad_norm": None}
    half, whole = (
        train_run(corpus, name, **one, **lr_scales(rate), **options(folder))
        for name, rate in (("half", 0.5), ("whole", 1.0))
    )
    near, far = weight_changes(half, folder), weight_changes(whole, folder)
    for name in far:
        torch.testing.assert_close(2 * near[name], far[name], rtol=1e-3, atol=1e-6)
    assert max(distance.abs().max() for distance in far.values()) > 1e-3
    decoders = [{n: w for n, w in last_weights(run).items() if n.startswith("decoder")} for run in (half, whole)]
    assert_same(*decoders)
    assert [line["learning_rate"] for line in metrics(half, "train")] == [0.1]


@pytest.mark.slow
def test_a_resumed_training_equals_an_uninterrupted_one(corpus, folder):
    assert_exact_resume(corpus, 8, batch={"tokens": 160}, report_every=1, **lr_scales(0.3), **options(folder, frozen=1))


@pytest.mark.slow
def test_two_processes_equal_one_that_accumulates(corpus, tmp_path):
    fixed = {"optimizer": {"kind": "sgd", "lr": 0.5}, "max_duration": ["1 epochs"], "validation": {"every": "1 epoch"}}
    fixed |= options(make_bert(tmp_path / "still", WORDS, **STILL), frozen=1) | lr_scales(0.5)
    alone = train_run(corpus, "alone", batch={"tokens": 48, "gradient_accumulation": 2}, **fixed)
    lengths = load_prepared(alone.folder).train.corpus.lengths
    assert len(plan_batches(lengths, tokens=48, seed=1, epoch=0)) % 2 == 0
    together, codes, outputs = train_in_two_processes(corpus, "together", batch={"tokens": 48}, **fixed)
    assert codes == (0, 0), outputs
    assert_near(last_weights(together), last_weights(alone))
