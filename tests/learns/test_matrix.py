"""Every combination of encoder, decoder, score and alignment lowers the loss in a few updates."""

import itertools
import math

import pytest
import torch

from seq2attn.data.collate import Batch, collate
from seq2attn.models import build_model
from seq2attn.training.loss import TrainingLoss
from tests.laws.parts import ALIGNS, DECODERS, ENCODERS, SCORES, WORDS, calm, config
from tests.learns.test_overfit import PAIRS, update

UPDATES, LR = 6, 0.01


def learns(encoder: str, decoder: str, score: str, align: str) -> bool:
    """True if a few updates lower the perplexity in evaluation mode."""
    torch.manual_seed(0)
    net = build_model(config(encoder, decoder, score, align), WORDS, WORDS)
    objective, batch = TrainingLoss(net), collate(PAIRS)
    optimizer = torch.optim.Adam(net.parameters(), lr=LR)
    before = perplexity(objective, batch)
    calm(net)
    for _ in range(UPDATES):
        update(objective, optimizer, batch, LR)
    return perplexity(objective, batch) < 0.95 * before


@torch.no_grad()
def perplexity(objective: TrainingLoss, batch: Batch) -> float:
    loss = objective.eval()(batch)
    return math.exp(loss.negative_log_likelihood / loss.num_target_tokens)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_every_combination_learns(encoder, decoder):
    combinations = itertools.product(SCORES, ALIGNS)
    assert [combination for combination in combinations if not learns(encoder, decoder, *combination)] == []


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_decoder_learns_with_a_sample_of_scores_and_alignments(decoder):
    place = list(DECODERS).index(decoder)
    encoder = list(ENCODERS)[place % len(ENCODERS)]
    combinations = list(itertools.product(SCORES, ALIGNS))[place :: 4 * len(DECODERS)]
    assert [combination for combination in combinations if not learns(encoder, decoder, *combination)] == []
