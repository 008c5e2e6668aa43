"""Learning: every component overfits, every combination lowers the loss, and attention copies longer sentences."""

import itertools
import math
import random

import pytest
import torch

from seq2attn.data.collate import Batch, collate
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import ModelConfig, build_model
from seq2attn.search.search_config import GreedyConfig
from seq2attn.search.translate_ids import translate_ids
from tests.support.models import ALIGNS, DECODERS, ENCODERS, EVERY_DECODER, SCORES, WORDS, calm, config

PAIRS = [([3, 4, 5], [5, 4, 3]), ([6, 7], [7, 6, 6, 7]), ([8, 4, 9, 3], [3, 9]), ([4], [10, 10, 4, 8, 5])]
LR, UPDATES, MAX_LOSS = 0.02, 400, 0.03
"""The loss of all 18 tokens together is less than log 2, so each is the most probable one."""
VOCAB_SIZE, DIM = 13, 32
TRAINED, LONGER = (1, 8), (9, 20)
NUM_UPDATES = 200


def update(objective: TrainingLoss, optimizer: torch.optim.Optimizer, batch: Batch, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad()
    loss = objective(batch)
    (loss.loss / loss.num_target_tokens).backward()
    torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
    optimizer.step()


def overfit(settings: ModelConfig) -> None:
    torch.manual_seed(0)
    net = calm(build_model(settings, WORDS, WORDS))
    objective, batch = TrainingLoss(net), collate(PAIRS)
    optimizer = torch.optim.Adam(net.parameters())
    for number in range(UPDATES):
        if number % 5 == 0:
            with torch.no_grad():  # in evaluation mode, in which hard attention is another function
                loss = objective.eval()(batch)
            if loss.loss < MAX_LOSS * loss.num_target_tokens:
                break
            calm(net)
        update(objective, optimizer, batch, LR * min(1.0, (number + 1) / 10))
    assert loss.loss < MAX_LOSS * loss.num_target_tokens, f"a loss of {loss.loss:.3f} after {UPDATES} updates"
    hypotheses = translate_ids(net, [source for source, _ in PAIRS], GreedyConfig(), budget=100)
    assert [list(best.tokens) for best, *_ in hypotheses] == [target for _, target in PAIRS]


PLACES = range(max(len(ENCODERS), len(EVERY_DECODER)))


@pytest.mark.parametrize("place", [pytest.param(n, marks=pytest.mark.slow) if n % 4 else n for n in PLACES])
def test_every_encoder_and_every_decoder(place):
    encoder, decoder = ([*names][place % len(names)] for names in (ENCODERS, EVERY_DECODER))
    overfit(config(encoder, decoder, "multi-head" if decoder.startswith(("transformer", "ssru")) else "additive"))


@pytest.mark.slow
@pytest.mark.parametrize("score", SCORES)
def test_every_score(score):
    overfit(config("gru", "luong", score))


@pytest.mark.slow
@pytest.mark.parametrize("align", ALIGNS)
def test_every_alignment(align):
    overfit(config("gru-forward", "luong-feeding", "general", align))


def learns(encoder: str, decoder: str, score: str, align: str) -> bool:
    """True if a few updates lower the perplexity in evaluation mode."""
    torch.manual_seed(0)
    net = build_model(config(encoder, decoder, score, align), WORDS, WORDS)
    objective, batch = TrainingLoss(net), collate(PAIRS)
    optimizer = torch.optim.Adam(net.parameters())
    before = perplexity(objective, batch)
    calm(net)
    for _ in range(6):
        update(objective, optimizer, batch, 0.01)
    return perplexity(objective, batch) < 0.95 * before


@torch.no_grad()
def perplexity(objective: TrainingLoss, batch: Batch) -> float:
    loss = objective.eval()(batch)
    return math.exp(loss.negative_log_likelihood / loss.num_target_tokens)


SHARE = 6
"""Encoders take turns: of all scores and alignments each learns with a sixth, and every decoder with all."""


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_every_encoder_and_decoder_learn_together(encoder, decoder):
    turn = list(ENCODERS).index(encoder) + list(DECODERS).index(decoder)
    combinations = list(itertools.product(SCORES, ALIGNS))[turn % SHARE :: SHARE]
    assert [combination for combination in combinations if not learns(encoder, decoder, *combination)] == []


def sentences(rng: random.Random, count: int, lengths: tuple[int, int]) -> list[list[int]]:
    return [[rng.randrange(4, VOCAB_SIZE) for _ in range(rng.randint(*lengths))] for _ in range(count)]


def copy_accuracy(decoder: dict) -> tuple[float, float]:
    """Share of sentences that a trained model copies exactly, of lengths in training and of longer ones."""
    torch.manual_seed(0)
    rng, encoder = random.Random(0), {"kind": "gru", "dim": DIM}
    config = {"embeddings": {"dim": DIM}, "encoder": encoder, "decoder": {**decoder, "dim": DIM}}
    net = build_model(ModelConfig.model_validate(config), VOCAB_SIZE, VOCAB_SIZE).train()
    objective, optimizer = TrainingLoss(net), torch.optim.Adam(net.parameters())
    for number in range(NUM_UPDATES):
        batch = collate([(ids, ids) for ids in sentences(rng, 32, TRAINED)])
        update(objective, optimizer, batch, 0.01 * min(1.0, (number + 1) / 20) * (1 - number / NUM_UPDATES))
    net.eval()
    shares = []
    for lengths in (TRAINED, LONGER):
        sources = sentences(rng, 200, lengths)
        hypotheses = translate_ids(net, sources, GreedyConfig(), budget=4000)
        copied = [list(best.tokens) == ids for (best, *_), ids in zip(hypotheses, sources, strict=True)]
        shares.append(sum(copied) / len(copied))
    return shares[0], shares[1]


@pytest.mark.slow
def test_attention_copies_longer_sentences_than_in_training():
    attention = {"score": {"kind": "offset", "max_distance": 4}}
    assert copy_accuracy({"kind": "luong", "input_feeding": False, "attention": attention}) == (1.0, 1.0)


@pytest.mark.slow
def test_a_fixed_context_does_not_copy_longer_sentences():
    trained, longer = copy_accuracy({"kind": "fixed-context"})
    assert trained > 0.3
    assert longer < 0.1
