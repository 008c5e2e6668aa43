"""Copying: with attention it is learnt once and for all lengths, without only for those that were seen."""

from __future__ import annotations

import random

import torch

from seq2attn.data.collate import collate
from seq2attn.models import ModelConfig, build_model
from seq2attn.search.config import GreedyConfig
from seq2attn.search.translate_ids import translate_ids
from seq2attn.training.loss import TrainingLoss

WORDS, DIM, RATE, UPDATES = 13, 32, 0.01, 300
SEEN, UNSEEN = (1, 8), (9, 20)


def sentences(draw: random.Random, count: int, lengths: tuple[int, int]) -> list[list[int]]:
    return [[draw.randrange(4, WORDS) for _ in range(draw.randint(*lengths))] for _ in range(count)]


def share_copied(decoder: dict) -> tuple[float, float]:
    """How many sentences of seen and of unseen lengths come back whole from a model that learnt to copy."""
    torch.manual_seed(0)
    draw, encoder = random.Random(0), {"kind": "gru", "dim": DIM}
    config = {"embeddings": {"dim": DIM}, "encoder": encoder, "decoder": {**decoder, "dim": DIM}}
    net = build_model(ModelConfig.model_validate(config), WORDS, WORDS).train()
    objective, optimizer = TrainingLoss(net), torch.optim.Adam(net.parameters(), lr=RATE)
    for update in range(UPDATES):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (update + 1) / 20) * (1 - update / UPDATES)
        loss = objective(collate([(words, words) for words in sentences(draw, 32, SEEN)]))
        optimizer.zero_grad()
        (loss.loss / loss.num_target_tokens).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    net.eval()
    shares = []
    for lengths in (SEEN, UNSEEN):
        sources = sentences(draw, 200, lengths)
        found = translate_ids(net, sources, GreedyConfig(kind="greedy"), budget=4000)
        whole = [list(best.tokens) == words for (best, *_), words in zip(found, sources, strict=True)]
        shares.append(sum(whole) / len(whole))
    return shares[0], shares[1]


def test_attention_copies_sentences_longer_than_any_that_it_learnt_from():
    attention = {"score": {"kind": "offset", "max_distance": 4}}
    assert share_copied({"kind": "luong", "input_feeding": False, "attention": attention}) == (1.0, 1.0)


def test_without_attention_long_sentences_are_lost():
    seen, unseen = share_copied({"kind": "fixed-context"})
    assert seen > 0.3  # it did learn
    assert unseen < 0.1
