"""Token batches for plain loops, as small as their authors would write them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, BOS, EOS, UNK = range(4)
Pair = tuple[list[int], list[int]]
Logits = Callable[[Tensor, Tensor], Tensor]  # source [B, S], target read [B, T] -> [B, T, V]


def vocabulary(data: Path) -> list[str]:
    """The pieces in the order of their ids."""
    return ["<pad>", "<s>", "</s>", "<unk>", *(data / "vocab.plain.txt").read_text("utf-8").split("\n")[:-1]]


def sentences(data: Path, path: Path) -> list[list[int]]:
    """The ids of segmented lines, without ends."""
    ids = {piece: id for id, piece in enumerate(vocabulary(data))}
    lines = path.read_text("utf-8").split("\n")[:-1]
    return [[ids.get(piece, UNK) for piece in line.split()] for line in lines]


def padded(rows: list[list[int]]) -> Tensor:
    """Rows of ids as a tensor."""
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def cut(pairs: list[Pair], tokens: int, seed: int) -> list[list[Pair]]:
    """Pairs alike in length together: rows x the longest side within `tokens`; the batches are shuffled."""
    draw = random.Random(seed)
    order = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0]), draw.random()))
    batches, batch, width = list[list[Pair]](), list[Pair](), 0
    for pair in order:
        size = max(map(len, pair)) + 1
        if batch and max(width, size) * (len(batch) + 1) > tokens:
            batches.append(batch)
            batch, width = [], 0
        batch.append(pair)
        width = max(width, size)
    batches.append(batch)
    draw.shuffle(batches)
    return batches


def train(model: nn.Module, logits: Logits, data: Path, tokens: int) -> None:
    """Train until somebody ends it, and print `PROGRESS update tokens` every other update.

    On a card, where there is one to be seen, in bfloat16 and with fewer lines.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on_card = device.type == "cuda"
    model.to(device)
    pairs = list(zip(*(sentences(data, data / f"train.bpe.{side}") for side in ("de", "en")), strict=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / 200, (200 / (n + 1)) ** 0.5))
    model.train()
    words = 0
    for update, batch in enumerate(_forever(pairs, tokens), 1):
        source = padded([pair[0] + [EOS] for pair in batch])
        read = padded([[BOS, *pair[1]] for pair in batch])
        say = padded([pair[1] + [EOS] for pair in batch])
        words += int((say != PAD).sum())
        source, read, say = (ids.to(device) for ids in (source, read, say))
        with torch.autocast(device.type, torch.bfloat16, enabled=on_card):
            loss = F.cross_entropy(
                logits(source, read).flatten(0, 1), say.flatten(), ignore_index=PAD, label_smoothing=0.1
            )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        if update % (20 if on_card else 2) == 0:
            card = f" card {torch.cuda.max_memory_allocated() >> 20}" if on_card else ""
            print(f"PROGRESS {update} {words} {loss.item():.3f}{card}", flush=True)


def _forever(pairs: list[Pair], tokens: int) -> Iterator[list[Pair]]:
    epoch = 0
    while True:
        yield from cut(pairs, tokens, epoch)
        epoch += 1
