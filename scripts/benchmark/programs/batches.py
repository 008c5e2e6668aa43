"""Batches and training loop of programs for libraries, as in tutorials."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, BOS, EOS, UNK = range(4)
Pair = tuple[list[int], list[int]]
Logits = Callable[[Tensor, Tensor], Tensor]  # source [B, S], target inputs [B, T] -> [B, T, V]


def vocabulary(data: Path) -> list[str]:
    """Tokens in the order of their ids."""
    return ["<pad>", "<s>", "</s>", "<unk>", *(data / "vocab.plain.txt").read_text("utf-8").split("\n")[:-1]]


def sentences(data: Path, path: Path) -> list[list[int]]:
    """Token ids of lines, without EOS."""
    ids = {token: id for id, token in enumerate(vocabulary(data))}
    lines = path.read_text("utf-8").split("\n")[:-1]
    return [[ids.get(token, UNK) for token in line.split()] for line in lines]


def pad(rows: list[list[int]]) -> Tensor:
    """Rows of ids as a padded tensor."""
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def make_batches(pairs: list[Pair], tokens: int, seed: int) -> list[list[Pair]]:
    """Shuffled batches of pairs of similar lengths; rows times the longest side are at most `tokens`."""
    rng = random.Random(seed)
    order = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0]), rng.random()))
    batches, batch, width = list[list[Pair]](), list[Pair](), 0
    for pair in order:
        size = max(map(len, pair)) + 1
        if batch and max(width, size) * (len(batch) + 1) > tokens:
            batches.append(batch)
            batch, width = [], 0
        batch.append(pair)
        width = max(width, size)
    batches.append(batch)
    rng.shuffle(batches)
    return batches


@dataclass(frozen=True)
class Update:
    """An update of a training."""

    number: int
    num_tokens: int  # target tokens so far
    loss: Tensor  # []


def updates(model: nn.Module, logits: Logits, pairs: list[Pair], tokens: int, *, bfloat16: bool) -> Iterator[Update]:
    """Endless training with Adam, warm-up and decay with the inverse square root: each update after it was made.

    On a GPU, if there is one; `bfloat16`: with autocast.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / 200, (200 / (n + 1)) ** 0.5))
    num_tokens = 0
    for number, batch in enumerate(_forever(pairs, tokens), 1):
        model.train()
        source = pad([pair[0] + [EOS] for pair in batch])
        inputs = pad([[BOS, *pair[1]] for pair in batch])
        labels = pad([pair[1] + [EOS] for pair in batch])
        num_tokens += int((labels != PAD).sum())
        source, inputs, labels = (ids.to(device) for ids in (source, inputs, labels))
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            loss = F.cross_entropy(
                logits(source, inputs).flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=0.1
            )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        yield Update(number, num_tokens, loss)


def train(model: nn.Module, logits: Logits, data: Path, tokens: int) -> None:
    """Train until killed, on a GPU in bfloat16, and print `PROGRESS update tokens` every second update or twentieth."""
    on_gpu = torch.cuda.is_available()
    pairs = list(zip(*(sentences(data, data / f"train.bpe.{side}") for side in ("de", "en")), strict=True))
    for update in updates(model, logits, pairs, tokens, bfloat16=on_gpu):
        if update.number % (20 if on_gpu else 2) == 0:
            memory = f" gpu {torch.cuda.max_memory_allocated() >> 20}" if on_gpu else ""
            print(f"PROGRESS {update.number} {update.num_tokens} {update.loss.item():.3f}{memory}", flush=True)


def _forever(pairs: list[Pair], tokens: int) -> Iterator[list[Pair]]:
    epoch = 0
    while True:
        yield from make_batches(pairs, tokens, epoch)
        epoch += 1
