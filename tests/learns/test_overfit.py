"""Every component overfits a few sentences, and greedy search reproduces them."""

import pytest
import torch

from seq2attn.data.collate import Batch, collate
from seq2attn.models import ModelConfig, build_model
from seq2attn.search.config import GreedyConfig
from seq2attn.search.translate_ids import translate_ids
from seq2attn.training.loss import TrainingLoss
from tests.laws.parts import ALIGNS, ENCODERS, EVERY_DECODER, SCORES, WORDS, calm, config

PAIRS = [([3, 4, 5], [5, 4, 3]), ([6, 7], [7, 6, 6, 7]), ([8, 4, 9, 3], [3, 9]), ([4], [10, 10, 4, 8, 5])]
LR, UPDATES, MAX_LOSS = 0.02, 400, 0.03
"""The loss of all 18 tokens together is less than log 2, so each is the most probable one."""


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
    optimizer = torch.optim.Adam(net.parameters(), lr=LR)
    for number in range(UPDATES):
        if number % 5 == 0:
            with torch.no_grad():  # in evaluation mode, in which hard attention is another function
                loss = objective.eval()(batch)
            if loss.loss < MAX_LOSS * loss.num_target_tokens:
                break
            calm(net)
        update(objective, optimizer, batch, LR * min(1.0, (number + 1) / 10))
    assert loss.loss < MAX_LOSS * loss.num_target_tokens, f"a loss of {loss.loss:.3f} after {UPDATES} updates"
    hypotheses = translate_ids(net, [source for source, _ in PAIRS], GreedyConfig(kind="greedy"), budget=100)
    assert [list(best.tokens) for best, *_ in hypotheses] == [target for _, target in PAIRS]


@pytest.mark.parametrize("place", range(max(len(ENCODERS), len(EVERY_DECODER))))
def test_every_encoder_and_every_decoder(place):
    encoder, decoder = ([*names][place % len(names)] for names in (ENCODERS, EVERY_DECODER))
    overfit(config(encoder, decoder, "multi-head" if decoder.startswith(("transformer", "ssru")) else "additive"))


@pytest.mark.parametrize("score", SCORES)
def test_every_score(score):
    overfit(config("gru", "luong", score))


@pytest.mark.parametrize("align", ALIGNS)
def test_every_alignment(align):
    overfit(config("gru-forward", "luong-feeding", "general", align))
