"""Copying: attention generalizes to longer sentences than in training, a fixed context does not."""

import random

import torch

from seq2attn.data.collate import collate
from seq2attn.models import ModelConfig, build_model
from seq2attn.search.config import GreedyConfig
from seq2attn.search.translate_ids import translate_ids
from seq2attn.training.loss import TrainingLoss
from tests.learns.test_overfit import update

VOCAB_SIZE, DIM, LR = 13, 32, 0.01
TRAINED, LONGER = (1, 8), (9, 20)


def sentences(rng: random.Random, count: int, lengths: tuple[int, int]) -> list[list[int]]:
    return [[rng.randrange(4, VOCAB_SIZE) for _ in range(rng.randint(*lengths))] for _ in range(count)]


def copy_accuracy(decoder: dict, updates: int) -> tuple[float, float]:
    """Share of sentences that a trained model copies exactly, of lengths in training and of longer ones."""
    torch.manual_seed(0)
    rng, encoder = random.Random(0), {"kind": "gru", "dim": DIM}
    config = {"embeddings": {"dim": DIM}, "encoder": encoder, "decoder": {**decoder, "dim": DIM}}
    net = build_model(ModelConfig.model_validate(config), VOCAB_SIZE, VOCAB_SIZE).train()
    objective, optimizer = TrainingLoss(net), torch.optim.Adam(net.parameters(), lr=LR)
    for number in range(updates):
        batch = collate([(ids, ids) for ids in sentences(rng, 32, TRAINED)])
        update(objective, optimizer, batch, LR * min(1.0, (number + 1) / 20) * (1 - number / updates))
    net.eval()
    shares = []
    for lengths in (TRAINED, LONGER):
        sources = sentences(rng, 200, lengths)
        hypotheses = translate_ids(net, sources, GreedyConfig(kind="greedy"), budget=4000)
        copied = [list(best.tokens) == ids for (best, *_), ids in zip(hypotheses, sources, strict=True)]
        shares.append(sum(copied) / len(copied))
    return shares[0], shares[1]


def test_attention_copies_longer_sentences_than_in_training():
    attention = {"score": {"kind": "offset", "max_distance": 4}}
    assert copy_accuracy({"kind": "luong", "input_feeding": False, "attention": attention}, 300) == (1.0, 1.0)


def test_a_fixed_context_does_not_copy_longer_sentences():
    trained, longer = copy_accuracy({"kind": "fixed-context"}, 300)
    assert trained > 0.3
    assert longer < 0.1
