"""Guided alignment: the formula, any decoder, sums that add up, and trainings that go on where they stopped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from seq2attn.alignment.aligner import Aligner
from seq2attn.alignment.head_selection import score_heads
from seq2attn.config.load import load
from seq2attn.data.collate import collate, make_batch
from seq2attn.data.corpus import CorpusAlignments, CorpusBuilder
from seq2attn.data.readers import PlainTextConfig, read_pairs_with_alignments
from seq2attn.errors import ConfigError, UserError
from seq2attn.experiment import ExperimentConfig
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.guided_alignment import GuidedAlignmentConfig, guided_alignment_loss
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.train import train
from tests.laws.parts import ALIGNS, DECODERS, model
from tests.laws.small import (
    BAHDANAU,
    BPE_DROPOUT,
    MODELS,
    assert_near,
    assert_same,
    content,
    corpus,
    last_weights,
    metrics,
    trained,
)

__all__ = ["corpus"]  # a fixture


def shares(rows, steps, words, seed=0):
    """Random guides: some rows share out 1, some are empty."""
    random = np.random.default_rng(seed)
    guide = (random.random((rows, steps, words)) < 0.4).astype(float)
    guide[:, ::3] = 0
    return guide / np.maximum(guide.sum(-1, keepdims=True), 1)


# ---------------------------------------------------------------------- the formula


def test_it_is_the_cross_entropy_of_the_rows_that_are_known():
    guide, weights = shares(3, 5, 4), np.random.default_rng(1).dirichlet(np.ones(4), (3, 5))
    expected, known = 0.0, 0
    for b in range(3):
        for t in range(5):
            known += guide[b, t].sum() > 0
            expected -= sum(guide[b, t, s] * np.log(weights[b, t, s]) for s in range(4))
    found, count = guided_alignment_loss(torch.tensor(weights), torch.tensor(guide))
    assert 0 < known < 15
    assert count == known
    torch.testing.assert_close(found, torch.tensor(expected))


@pytest.mark.parametrize(
    ("head", "layer", "pick"),
    [
        (1, None, lambda w: w[:, 1, 0]),  # the last but one
        (2, 3, lambda w: w[:, 2, 1]),
        ("mean", 1, lambda w: (w[:, 0, 0] + w[:, 0, 1]) / 2),
    ],
)
def test_one_attention_is_guided(head, layer, pick):
    weights = torch.rand(2, 3, 2, 4, 5)
    config = GuidedAlignmentConfig(head=head, layer=layer)
    torch.testing.assert_close(config.select_attention(weights), pick(weights))
    assert GuidedAlignmentConfig().resolve_layer(1) == 1


def test_weights_of_zero_cost_much_and_ask_for_nothing():
    weights = torch.tensor([[[0.0, 1.0], [0.5, 0.5], [1e-30, 1.0]]], requires_grad=True)
    guide = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]])
    loss, _ = guided_alignment_loss(weights, guide)
    (gradient,) = torch.autograd.grad(loss, weights)
    assert loss.isfinite() and gradient.isfinite().all()
    assert loss > 80
    assert gradient[0, 0].tolist() == [0, 0]
    assert gradient[0, 1, 0] == pytest.approx(-2)
    assert gradient[0, 2, 0] < -1e29  # a small weight that may grow is asked to


# ---------------------------------------------------------------------- any decoder

PAIRS = [([4, 5, 6, 7], [7, 8]), ([9], [3, 4, 5, 6]), ([3, 4, 5], [6])]


def batch_with_guide():
    batch = collate(PAIRS)
    guide = shares(*batch.labels.shape, batch.source.size(1))
    for row, (source, target) in enumerate(PAIRS):
        guide[row, len(target) :] = 0
        guide[row, :, len(source) :] = 0
    guide /= np.maximum(guide.sum(-1, keepdims=True), 1e-9)
    return replace(batch, alignment_targets=torch.tensor(guide))


@pytest.mark.parametrize(
    ("decoder", "align"), [*((d, "global") for d in DECODERS), *(("luong-feeding", a) for a in ALIGNS)]
)
def test_the_objective_adds_it_for_any_decoder(decoder, align):
    net, batch = model("gru", decoder, "multi-head", align), batch_with_guide()
    guided = GuidedAlignmentConfig(weight=0.3)
    plain, both = TrainingLoss(net, 0.1)(batch), TrainingLoss(net, 0.1, guided)(batch)
    seen = net(batch.source, batch.source_mask, batch.target, need_weights=True).cross_attention
    layer = seen[:, max(0, seen.size(1) - 2), 0]
    logs = torch.where(layer > 0, layer.clamp_min(1e-300).log(), np.log(np.finfo(float).tiny))
    torch.testing.assert_close(both.guided_alignment, -(batch.alignment_targets * logs).sum())
    torch.testing.assert_close(both.loss, plain.loss + 0.3 * both.guided_alignment)
    torch.testing.assert_close(both.negative_log_likelihood, plain.negative_log_likelihood)
    assert plain.guided_alignment == plain.num_guided_tokens == 0
    assert both.num_guided_tokens == (batch.alignment_targets.sum(-1) > 0).sum() > 0
    gradients = torch.autograd.grad(both.loss, [*net.parameters()], allow_unused=True)
    assert all(g.isfinite().all() for g in gradients if g is not None)


def test_the_row_of_a_label_is_the_step_that_says_it():
    # A decoder that looks at a word when it says it has nothing to learn; one step off, much.
    guide = torch.zeros(1, 3, 4)
    guide[0, 0, 2] = guide[0, 1, 0] = 1
    right = guide.clone()
    right[0, 2, 3] = 1  # the end looks at the end
    assert guided_alignment_loss(right, guide)[0] == 0
    assert guided_alignment_loss(right.roll(1, dims=1), guide)[0] > 80


def test_each_target_token_shares_out_one_over_the_tokens_of_its_words():
    # Source words of 1, 2, 1 and 1 tokens; target words of 2, 1 and 1. Both sides have words with several links.
    source, target, links = [0, 1, 1, 2, 3], [0, 0, 1, 2], {(0, 0), (1, 0), (2, 0), (2, 1)}
    ids, words, numbers = CorpusBuilder(10), CorpusBuilder(10), CorpusBuilder(10)
    for shift in (0, 1):  # a second, shorter pair, which has no link but one
        ids.add(([4] * (5 - shift), [5] * (4 - shift)))
        words.add((source[: 5 - shift], target[: 4 - shift]))
    numbers.add(tuple(zip(*sorted(links), strict=True)))
    numbers.add(([1], [0]))
    found = make_batch(ids.build(CorpusAlignments(words.build(), numbers.build())), [1, 0]).alignment_targets
    for row, (shift, linked) in enumerate(((1, {(1, 0)}), (0, links))):
        expected = torch.zeros_like(found[row])
        for t, word in enumerate(target[: 4 - shift]):
            tokens = [s for s, other in enumerate(source[: 5 - shift]) if (other, word) in linked]
            for s in tokens:
                expected[t, s] = 1 / len(tokens)
        torch.testing.assert_close(found[row], expected)


def test_a_batch_without_links_is_not_guided():
    net, batch = model("gru", "luong"), collate(PAIRS)
    plain, both = TrainingLoss(net, 0.1)(batch), TrainingLoss(net, 0.1, GuidedAlignmentConfig())(batch)
    assert both.loss == plain.loss


# ---------------------------------------------------------------------- trainings


def guided(folder, run, *, resume=False, guide=None, **options):
    """A training on text and its reversal, with the links of the train set."""
    lines = (folder / "train.src").read_text().splitlines()
    links = [" ".join(f"{len(line.split()) - 1 - t}-{t}" for t in range(len(line.split()))) for line in lines]
    (folder / "train.align").write_text("".join(f"{line}\n" for line in links))
    values = content(folder, run, **options)
    values["data"]["train"]["alignment"] = str(folder / "train.align")
    values["training"]["guided_alignment"] = guide or {"weight": 0.5}
    return train(ExperimentConfig.model_validate(values), resume=resume)


SGD = {
    "optimizer": {"kind": "sgd", "lr": 0.5},
    "max_duration": ["3 epochs"],
    "validation": {"every": "1 epoch"},
}


def test_accumulating_batches_is_one_large_batch(corpus):
    parts = guided(corpus, "parts", batch={"tokens": 24, "gradient_accumulation": 1000}, **SGD)
    whole = guided(corpus, "whole", batch={"tokens": 10_000}, **SGD)
    assert_near(last_weights(parts), last_weights(whole))
    for one, other in zip(metrics(parts, "train"), metrics(whole, "train"), strict=True):
        assert one["guided_alignment_loss"] == pytest.approx(other["guided_alignment_loss"], rel=1e-4)
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)


def test_stopped_and_resumed_is_never_stopped(corpus):
    options = {
        "model": MODELS["transformer"],
        "tokenizer": BPE_DROPOUT,
        "batch": {"tokens": 160},
        "report_every": 1,
        "validation": {"every": "1.5 epochs", "metric": "loss"},
        "guide": {"weight": 1, "head": 2},
    }
    whole = guided(corpus, "whole", max_duration=["3 epochs"], **options)
    guided(corpus, "parts", max_duration=["1.5 epochs"], **options)
    parts = guided(corpus, "parts", max_duration=["3 epochs"], resume=True, **options)
    assert metrics(parts) == metrics(whole)
    assert_same(last_weights(parts), last_weights(whole))
    assert len(list_checkpoints(parts.folder)) > 1


def error_rate(run, corpus):
    """That of the links of the train set, which a model can learn in seconds."""
    aligned = PlainTextConfig(
        source=corpus / "train.src", target=corpus / "train.tgt", alignment=corpus / "train.align"
    )
    aligner = Aligner.load(run.folder, "cpu")
    pairs = list(read_pairs_with_alignments(aligned))
    return min(
        found.error_rate
        for found in score_heads(
            zip(aligner.attention_weights(pairs), (gold for _, gold in pairs), strict=True)
        ).values()
    )


def test_guided_attention_looks_where_it_is_told(corpus):
    options = {
        "max_duration": ["80 updates"],
        "batch": {"tokens": 256},
        "optimizer": {"kind": "adam", "lr": 0.02},
    }
    options["validation"] = {"every": "80 updates"}
    run = guided(corpus, "run", guide={"weight": 1}, **options)
    rates = error_rate(run, corpus), error_rate(trained(corpus, "plain", **options), corpus)
    assert rates[0] < 0.25 < 0.5 < rates[1]
    first, *_, last = (line["guided_alignment_loss"] for line in metrics(run, "train"))
    assert last < 0.4 * first


# ---------------------------------------------------------------------- mistakes

FIXED = "{kind: fixed-context, dim: 8}"
TRANSFORMER = "{kind: transformer, layers: 2, heads: 2, attention: {score: {kind: multi-head, heads: 4}}}"


@pytest.mark.parametrize(
    ("decoder", "guide", "alignment", "place", "message"),
    [
        ("{kind: luong, dim: 8}", "{}", "", "11:21", "`: needs word alignments: set"),
        (FIXED, "{}", ", alignment: a", "11:21", "`: guides attention, but the decoder has none"),
        (TRANSFORMER, "{layer: 3}", ", alignment: a", "11:29",
         ".layer`: there is no layer 3; the decoder has 2 with attention"),
        (TRANSFORMER, "{head: 5}", ", alignment: a", "11:28", ".head`: there is no head 5; a layer has 4"),
        ("{kind: luong, dim: 8}", "{head: 2}", ", alignment: a", "11:28",
         ".head`: there is no head 2; a layer has 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_guided_has_a_place(tmp_path, decoder, guide, alignment, place, message):
    path = tmp_path / "c.yaml"
    path.write_text(f"""\
run_dir: r
data:
  train: {{kind: plain, source: s, target: t{alignment}}}
  dev: {{kind: plain, source: s, target: t}}
tokenizer: {{joint: {{kind: words}}}}
model:
  embeddings: {{dim: 8}}
  encoder: {{kind: gru, dim: 8}}
  decoder: {decoder}
training:
  guided_alignment: {guide}
""")
    with pytest.raises(ConfigError) as error:
        load(path, ExperimentConfig)
    assert f"{path}:{place}: `training.guided_alignment{message}" in str(error.value)


def test_a_decoder_from_elsewhere_is_asked_before_training(corpus):
    decoder = {"kind": "tests.laws.elsewhere:Blind"}
    with pytest.raises(UserError, match=r"`training.guided_alignment` guides attention, but the decoder has none"):
        guided(corpus, "run", model={**BAHDANAU, "decoder": decoder})
