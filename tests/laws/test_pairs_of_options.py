"""Laws of two options at once, of which each has laws of its own."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from seq2attn.data.collate import collate
from seq2attn.data.prepared_data import load_prepared
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.io.weights import load_tensors
from seq2attn.losses.guided_alignment import GuidedAlignmentConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.optim.ema import AVERAGE
from seq2attn.training.checkpoints.averaging import load_merged
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.train import train
from tests.support.bert import make_bert
from tests.support.bert_trainings import options as bert_options
from tests.support.models import calm, model
from tests.support.trainings import (
    BAHDANAU,
    NO_UPDATE,
    WORDS,
    assert_near,
    assert_same,
    content,
    last_weights,
    log_of,
    metrics,
    train_run,
)

TABLE = "source_embedding.embedding.weight"


def test_a_part_that_is_excluded_from_a_run_begins_with_pretrained_vectors(corpus):
    old = train_run(corpus, "old", max_duration=["4 updates"])
    (corpus / "words.vec").write_text("".join(f"{word} {'0.5 ' * 7}{n}\n" for n, word in enumerate(WORDS)))
    embeddings = {"dim": 8, "source_vectors": str(corpus / "words.vec")}
    options = {"model": {**BAHDANAU, "embeddings": embeddings}, **NO_UPDATE}
    whole, apart = (
        train_run(
            corpus, f"of the run, {exclude}", init_from={"run_dir": str(old.folder), "exclude": exclude}, **options
        )
        for exclude in ([], ["source_embedding"])
    )
    weights = load_tensors(old.weights_path)
    assert_same(last_weights(whole), weights)
    assert "source vectors" not in log_of(whole) and "source vectors" in log_of(apart)
    found = last_weights(apart)
    ids = [apart.load_tokenizers().source.vocabulary.id(word) for word in WORDS]
    torch.testing.assert_close(found.pop(TABLE)[ids, -1] * 8**0.5, torch.arange(float(len(WORDS))))  # as it is scaled
    assert_same(found, {name: weight for name, weight in weights.items() if name != TABLE})


def test_a_part_that_is_excluded_from_a_run_begins_with_bert(corpus):
    """The other part of BERT, its embeddings, is that of the run, which was trained further."""
    options = bert_options(make_bert(corpus / "bert", WORDS))
    old = train_run(corpus, "old", max_duration=["3 updates"], **options)
    init = {"run_dir": str(old.folder), "exclude": ["encoder"]}
    found, weights = last_weights(train_run(corpus, "new", init_from=init, **options, **NO_UPDATE)), last_weights(old)
    bert = {f"encoder.bert.{name}": weight for name, weight in load_file(corpus / "bert/model.safetensors").items()}
    expected = {name: bert.get(name, weight) for name, weight in weights.items()}
    assert any(not torch.equal(expected[name], weights[name]) for name in expected)
    assert_near(found, expected)


def test_pairs_of_equal_sources_and_other_targets_are_no_duplicates(corpus):
    for name, lines in (("train.src", ["ba", "ba", "be", "ba"] * 9), ("train.tgt", ["bi", "bo", "bi", "bi"] * 9)):
        (corpus / name).write_text("".join(f"{line}\n" for line in lines))
    config = content(corpus, "run", **NO_UPDATE)
    config["data"]["filters"] = {"drop_duplicates": True}
    run = train(ExperimentConfig.model_validate(config))
    assert len(load_prepared(run.folder).train.corpus) == 3
    assert "kept 3 of 36 pairs; left out: 33 duplicate" in log_of(run)
    assert "train: 33 pairs (91.7%) are duplicates" in log_of(run)


def test_r_drop_without_dropout_changes_nothing_beside_guided_alignment():
    guided = GuidedAlignmentConfig(weight=0.3, layer=1)
    net, batch = calm(model("gru", "transformer", "multi-head")), collate([([4, 5, 6], [7, 8]), ([9], [3, 4, 5])])
    targets = torch.rand(*batch.target.shape, batch.source.size(1), dtype=torch.double)
    batch = replace(batch, alignment_targets=targets)
    losses = [vars(TrainingLoss(net, 0.1, guided, r_drop)(batch)) for r_drop in (None, 4.0)]
    assert losses[0]["guided_alignment"] > 0
    torch.testing.assert_close(*losses)


@pytest.mark.parametrize(
    "part",
    [{"frozen": ["encoder"]}, pytest.param({"lora": {"rank": 2}}, marks=pytest.mark.slow)],
    ids=["frozen", "lora"],
)
def test_the_average_is_of_the_weights_that_are_trained(corpus, part):
    """It is validated, saved and translated with; frozen weights have none, and stay as they are."""
    options = {"validation": {"every": "2 updates", "metric": "loss"}, "checkpoints": {"keep_last": 9}, "seed": 3}
    run = train_run(corpus, "run", ema_decay=0.5, max_duration=["6 updates"], **part, **options)
    plain = train_run(corpus, "plain", max_duration=["6 updates"], **part, **options)
    for checkpoint, other in zip(list_checkpoints(run.folder), list_checkpoints(plain.folder), strict=True):
        weights, others = load_tensors(checkpoint.model_path), load_tensors(other.model_path)
        assert {name for name in weights if torch.equal(weights[name], others[name])} <= {
            name for name in weights if name.endswith("scale")
        }
        assert_same(load_tensors(checkpoint.frozen_path), load_tensors(other.frozen_path))
    averages = [name for name in load_tensors(checkpoint.optimizer_path) if name.endswith(AVERAGE)]
    assert len(averages) == sum(not name.endswith("scale") for name in weights)
    best = min(list_checkpoints(run.folder), key=lambda one: one.train_state.scores["loss"])
    assert_same(load_tensors(run.weights_path), load_merged(best))
    again = {"init_from": {"run_dir": str(run.folder)}, **NO_UPDATE}
    loss = metrics(train_run(corpus, "again", **again), "validation")[-1]["loss"]
    assert loss == pytest.approx(best.train_state.scores["loss"], abs=1e-6)
