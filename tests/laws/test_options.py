"""Laws of wiring: each option of a config reaches the part that it is about, and no other."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import TypeAdapter
from torch import nn

from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.collate import IGNORE_INDEX, collate
from seq2attn.data.prepare import load_prepared
from seq2attn.io.files import read_object, write_json
from seq2attn.models import ModelConfig, build_model
from seq2attn.nn.dropout import Dropout
from seq2attn.search.config import SearchConfig
from seq2attn.search.translate_ids import translate_ids
from seq2attn.sweep.worker import run_trial
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, UNK
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.interruption import StopRequest
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.metrics_logger import MetricsLogger
from seq2attn.training.train_state import TrainState
from seq2attn.training.trainer import Trainer
from tests.laws.parts import DECODERS, ENCODERS, FIXED, OWN_EMBEDDINGS, model
from tests.laws.small import (
    BAHDANAU,
    BPE_DROPOUT,
    MODELS,
    WORD_TOKENIZERS,
    WORDS,
    content,
    corpus,
    last_weights,
    metrics,
    trained,
)

__all__ = ["corpus"]  # a fixture
WHOLE = {"batch": {"tokens": 10_000}, "max_duration": ["1 update"]}
"""An update that learns from all of the text."""


def fewer_words(corpus):
    """Make the vocabulary of the target another one, and smaller."""
    for name in ("train", "dev"):
        target = corpus / f"{name}.tgt"
        target.write_text(target.read_text().replace("ul", "o").upper())


@pytest.mark.parametrize(("smoothing", "clip", "decay"), [(0.0, None, 0.0), (0.3, None, 0.0), (0.3, 0.05, 0.2)])
def test_an_update_is_its_formula(corpus, smoothing, clip, decay):
    """The gradient of the smoothed cross-entropy of a word, clipped, and the decay, times the rate of the schedule."""
    fewer_words(corpus)
    run = trained(
        corpus,
        "run",
        optimizer={"kind": "sgd", "lr": 2.0, "weight_decay": decay},
        lr_schedule={"kind": "constant", "warmup_updates": 4},
        label_smoothing=smoothing,
        max_grad_norm=clip,
        seed=3,
        **WHOLE,
    )
    prepared = load_prepared(run.folder)
    torch.manual_seed(3)
    sizes = len(prepared.source.vocabulary), len(prepared.target.vocabulary)
    model = build_model(ModelConfig.model_validate(BAHDANAU), *sizes)
    pairs = prepared.train.corpus
    batch = collate([pairs[row] for row in range(len(pairs))])
    logits = model.output_projection(model(batch.source, batch.source_mask, batch.target).hidden)
    labels = batch.labels.flatten()
    loss = F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=IGNORE_INDEX, label_smoothing=smoothing)
    loss.backward()
    norm = math.sqrt(sum(float(p.grad.pow(2).sum()) for p in model.parameters()))
    assert clip is None or norm > clip
    share = 1.0 if clip is None else clip / norm
    expected = {name: p - 0.5 * (share * p.grad + decay * p) for name, p in model.named_parameters()}
    found = last_weights(run)
    for name, weights in expected.items():
        torch.testing.assert_close(found[name], weights.detach(), rtol=1e-4, atol=1e-6, msg=name)
    report = metrics(run, "train")[-1]
    likelihood = F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=IGNORE_INDEX)
    assert report["loss"] == pytest.approx(loss.item(), rel=1e-4)
    assert report["perplexity"] == pytest.approx(likelihood.exp().item(), rel=1e-4)
    assert (report["learning_rate"], report["gradient_norm"]) == pytest.approx((0.5, norm), rel=1e-4)


def test_rates_follow_the_updates_and_the_epochs(corpus):
    options = {"batch": {"tokens": 100}, "report_every": 1, "max_duration": ["3 epochs"]}
    halved = trained(corpus, "halved", lr_schedule={"kind": "halving", "start_epoch": 1.0}, **options)
    rates = [line["learning_rate"] for line in metrics(halved, "train")]
    an_epoch = len(rates) // 3
    assert an_epoch > 1
    assert rates == pytest.approx([0.01] * an_epoch + [0.005] * an_epoch + [0.0025] * an_epoch)
    warm = trained(corpus, "warm", lr_schedule={"kind": "noam", "dim": 16, "warmup_updates": 4}, **options)
    for n, line in enumerate(metrics(warm, "train"), 1):
        assert line["learning_rate"] == pytest.approx(0.01 * 16**-0.5 * min(n**-0.5, n * 4**-1.5))


def test_each_update_of_each_seed_draws_its_own_dropout(corpus, monkeypatch):
    seeds: list[int] = []
    seed_all = torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda seed: (seeds.append(seed), seed_all(seed))[1])
    for seed in (1, 2):
        trained(corpus, f"seed-{seed}", seed=seed, batch={"tokens": 200}, max_duration=["3 updates"])
        seeds.append(-seed)
    text = " ".join(map(str, seeds))
    first, second = ({*part.split()} for part in re.split(r" -[12]\b", text)[:2])
    assert min(len(first), len(second)) >= 4 and not first & second


@pytest.mark.parametrize("tokenizer", [WORD_TOKENIZERS, BPE_DROPOUT], ids=["words", "BPE-dropout"])
def test_each_epoch_has_its_own_batches_and_its_own_cut(corpus, tokenizer):
    options = {"batch": {"tokens": 200}, "report_every": 1, "max_duration": ["3 epochs"]}
    run = trained(corpus, "run", tokenizer=tokenizer, seed=5, **options)
    train, words = load_prepared(run.folder).train, []
    for epoch in range(3):
        lengths = train.epoch_corpus(5, epoch).lengths
        batches = plan_batches(lengths, tokens=200, seed=5, epoch=epoch)
        words += [int((lengths[batch, 1] + 1).sum()) for batch in batches]
    assert [line["target_tokens"] for line in metrics(run, "train")] == np.cumsum(words).tolist()


def test_each_process_draws_its_own_dropout(corpus, monkeypatch):
    run = trained(corpus, "run", **WHOLE)
    config, seeds = run.load_config(), []
    seed_all = torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda seed: (seeds.append(seed), seed_all(seed))[1])
    for rank in (0, 1):
        world = DistributedContext(rank, 1, torch.device("cpu"))
        reporter = MetricsLogger(run, leads=False, since=None, tensorboard=False)
        objective = TrainingLoss(run.load_model()[0])
        optimizer = config.training.optimizer.build(objective.parameters())
        for group in optimizer.param_groups:
            group["lr_scale"] = 1.0
        parts = objective, optimizer, TrainState(), world, reporter, StopRequest(None, 0.0)
        trainer = Trainer(config, run, load_prepared(run.folder), *parts)
        seeds.clear()
        corpus_of_epoch = trainer.prepared.train.corpus
        trainer._update(corpus_of_epoch, trainer.accumulator.make_micro_batches(corpus_of_epoch, [np.arange(9)]))
        if rank == 0:
            first = {*seeds}
    assert first and seeds and not first & {*seeds}


def test_translations_of_a_validation_are_of_the_target_s_words(corpus):
    fewer_words(corpus)
    run = trained(corpus, "run", validation={"every": "1 update", "metric": "bleu"}, **WHOLE)
    lines = (run.folder / "samples.txt").read_text().splitlines()
    said = [line.split(":", 1)[1] for line in lines if line.startswith("translation:")]
    assert "".join(said).strip() and all(line.isupper() for line in said if line.strip())


def never_ending():
    """A model for which the end is impossible, and which would say BOS and PAD if it might."""
    net = model("gru", "luong")
    with torch.no_grad():
        net.output_projection.bias[[PAD, BOS]], net.output_projection.bias[EOS] = 99.0, -99.0
    return net


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_lengths_are_those_of_the_source_and_controls_are_not_said(kind):
    lengths = {"max_length_ratio": 1.5, "max_length": 15}
    search = TypeAdapter(SearchConfig).validate_python({"kind": kind, "lengths": lengths})
    for source, most in (([4], 11), ([4, 5], 13), ([4, 5, 6, 7], 15)):
        ((best, *_),) = translate_ids(never_ending(), [source], search, budget=100)
        assert len(best.tokens) == most and not {PAD, BOS, EOS} & {*best.tokens}


@pytest.mark.parametrize(
    ("length_penalty", "divisor"),
    [("none", lambda n: 1.0), ("average", lambda n: n**0.7), ("gnmt", lambda n: ((5 + n) / 6) ** 0.7)],
)
def test_scores_are_normalised_as_the_config_says(length_penalty, divisor):
    lengths = {"length_penalty": length_penalty, "alpha": 0.7, "max_length": 9}
    search = TypeAdapter(SearchConfig).validate_python({"kind": "beam", "beam_size": 4, "lengths": lengths})
    (found,) = translate_ids(model("gru", "luong"), [[4, 5, 6]], search, budget=100)
    assert len(found) == 4
    for one in found:
        assert one.score == pytest.approx(one.log_prob / divisor(len(one.tokens) + 1), rel=1e-5)


def test_a_validation_is_without_dropout(corpus):
    run = trained(corpus, "run", model=MODELS["transformer"], label_smoothing=0.2, **WHOLE)
    (found,), dev = metrics(run, "validation"), load_prepared(run.folder).dev
    net = run.load_model()[0]
    batch = collate([dev[row] for row in range(len(dev))])
    with torch.no_grad():
        logits = net.output_projection(net(batch.source, batch.source_mask, batch.target).hidden).flatten(0, 1)
    loss = F.cross_entropy(logits, batch.labels.flatten(), ignore_index=IGNORE_INDEX, label_smoothing=0.2)
    assert found["loss"] == pytest.approx(loss.item(), rel=1e-5)


def test_vectors_of_the_target_are_for_the_target_s_words(corpus):
    fewer_words(corpus)
    words = [word.upper() for word in WORDS if not word.endswith("ul")]
    vectors = torch.arange(8.0 * len(words)).view(-1, 8) / 100
    lines = [f"{word} {' '.join(map(str, v))}\n" for word, v in zip(words, vectors.tolist(), strict=True)]
    (corpus / "vectors.txt").write_text("".join(lines))
    embeddings = {"dim": 8, "target_vectors": str(corpus / "vectors.txt")}
    sgd = {"kind": "sgd", "lr": 1e-12}
    run = trained(corpus, "run", model={**BAHDANAU, "embeddings": embeddings}, optimizer=sgd, **WHOLE)
    net, _, target = run.load_model()
    ids = [target.vocabulary.id(word) for word in words]
    assert UNK not in ids
    torch.testing.assert_close(net.target_embedding(torch.tensor(ids)), vectors)


def test_a_training_of_a_sweep_searches_as_its_config_says(corpus):
    config = content(corpus, "run", **WHOLE)
    config["data"]["test"] = {"ours": config["data"]["dev"]}
    config["search"] = {"kind": "beam", "beam_size": 2, "lengths": {"max_length": 3}}
    write_json(corpus / "run" / "trial.json", {"config": config})
    record = run_trial(corpus / "run", 1)
    assert all(len(text.split()) <= 3 for text in record.sets["ours"].translations)
    report = read_object(corpus / "run/evaluation/ours.json", "")["search"]
    assert (report["beam_size"], report["lengths"]["max_length"]) == (2, 3)


def places(net):
    """Every module that drops, its probability, and where it is."""
    for name, module in net.named_modules():
        if isinstance(module, Dropout):
            yield name, module.p
        elif isinstance(module, nn.RNNBase) and module.num_layers > 1:
            yield name, module.dropout


PAIRS = [(encoder, "luong") for encoder in ENCODERS if encoder not in OWN_EMBEDDINGS]
PAIRS += [("gru", decoder) for decoder in (*DECODERS, *FIXED)]


@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_every_dropout_has_the_probability_of_its_part(encoder, decoder):
    parts = {"encoder": dict(ENCODERS[encoder]), "decoder": dict({**DECODERS, **FIXED}[decoder])}
    parts["encoder"]["dropout"], parts["decoder"]["dropout"] = 0.25, 0.375
    for part in parts.values():
        if part["kind"] == "transformer":
            part["attention_dropout"] = part["dropout"] + 0.5
    if parts["decoder"]["kind"] != "fixed-context":
        parts["decoder"]["attention"] = {"score": {"kind": "multi-head", "heads": 4}, "dropout": 0.125}
    model = build_model(ModelConfig.model_validate({"embeddings": {"dim": 16, "dropout": 0.5}, **parts}), 11, 13)
    found = list(places(model))
    for name, p in found:
        side = name.split(".")[0]
        expected = {"source_embedding": 0.5, "target_embedding": 0.5, "encoder": 0.25, "decoder": 0.375}[side]
        if re.search(r"(?<!self_)attention\.dropout$", name) and side == "decoder":
            expected = 0.125
        elif re.search(r"self_attention\.dropout$", name):
            expected += 0.5
        assert p == expected, name
    assert {name.split(".")[0] for name, _ in found} == {
        "source_embedding",
        "target_embedding",
        "encoder",
        "decoder",
    }


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("tie", ["none", "output", "all"])
def test_tables_are_tied_and_scaled_as_the_config_says(tie, scaled):
    config = BAHDANAU | {"embeddings": {"dim": 8, "tie": tie, "scaled": scaled}}
    model = build_model(ModelConfig.model_validate(config), 13, 13).eval()
    tables = (
        model.source_embedding.embedding.weight,
        model.target_embedding.embedding.weight,
        model.output_projection.weight,
    )
    assert [tables[0] is tables[1], tables[1] is tables[2]] == [tie == "all", tie != "none"]
    for side in (model.source_embedding, model.target_embedding):
        torch.testing.assert_close(side(torch.arange(13)), side.embedding.weight * (8**0.5 if scaled else 1))


def test_each_side_has_its_own_vocabulary():
    model = build_model(ModelConfig.model_validate(BAHDANAU), 11, 13)
    assert [
        len(model.source_embedding.embedding.weight),
        len(model.target_embedding.embedding.weight),
        len(model.output_projection.weight),
    ] == [11, 13, 13]
