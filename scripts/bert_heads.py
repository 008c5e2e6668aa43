"""BERT with heads: sentence classification and question answering, as in Devlin et al. 2019, section 4.

    python scripts/bert_heads.py                       # a small BERT made on the spot, with random weights
    python scripts/bert_heads.py --checkpoint DIR      # one of yours: docs/bert.md tells where from

Both heads stand behind the contract of all encoders (seq2attn/encoders/base.py), so another encoder would do:

- classification (4.1): the vector at [CLS], through BERT's pooler (linear, tanh), then the logits of the classes;
- question answering (4.2): `question [SEP] text`, and two logits at each piece: does the answer start or end here?

The tasks are made up: is a film liked (`not bad` is, `not very good` is not), and who did what, where and when.
No sentence that is measured on was learnt from.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from small_bert import make_bert
from torch import Tensor, nn

from seq2attn.data.collate import collate_source
from seq2attn.encoders import BertEncoderConfig, EncoderOutput
from seq2attn.encoders.bert import load_bert_weights
from seq2attn.tokenizers.vocabulary import EOS
from seq2attn.tokenizers.wordpiece import WordPieceTokenizer, WordPieceTokenizerConfig
from seq2attn.training.optimizers import parameter_groups

GOOD, BAD = ("good", "great", "funny", "bright"), ("bad", "dull", "boring", "sad")
WHO = ("anna", "ben", "carla", "old peter", "my brother", "queen mary")
WHAT = ("cats", "small dogs", "two grey birds", "snow", "apples", "red cars")
WHERE = ("paris", "rome", "new york", "san marino", "berlin", "town")
WHEN = ("monday", "friday", "sunday evening", "christmas day", "tuesday", "july the fourth")
Example = TypeVar("Example")
UPDATES, BATCH, RATE, WARM = 300, 32, 2e-3, 50


# ---------------------------------------------------------------------- the tasks


def opinions() -> list[tuple[str, int]]:
    """Sentences, and whether they are of somebody who liked it."""
    found = []
    for noun, verb, no, very, word in product(
        ("film", "play", "book"), ("was", "is"), ("", "not "), ("", "very ", "so "), GOOD + BAD
    ):
        found.append((f"the {noun} {verb} {no}{very}{word}", int((word in GOOD) != bool(no))))
    return found


def questions() -> list[tuple[str, str, str]]:
    """Question, text and answer; the parts of the text come in any order, so that no place gives the answer away."""
    found = []
    draw = random.Random(0)
    for who, what, where, when in product(WHO, WHAT, WHERE, WHEN):
        parts = {"who": f"{who} saw {what}", "where": f"in {where}", "when": f"on {when}"}
        text = " ".join(parts[name] for name in draw.choice([*permutations(parts)]))
        asked, answer = draw.choice(
            [("who saw it", who), ("what is seen", what), ("where was it", where), ("when was it", when)]
        )
        found.append((f"{asked} ?", text, answer))
    return found


def divided(examples: Sequence[Example], share: float = 0.8) -> tuple[list[Example], list[Example]]:
    """Those to learn from, and those to measure on."""
    shuffled = random.Random(1).sample(examples, len(examples))
    cut = int(share * len(shuffled))
    return shuffled[:cut], shuffled[cut:]


# ---------------------------------------------------------------------- the models


class Bert(nn.Module):
    """Lines to what an encoder hands out."""

    def __init__(self, folder: Path, rate: float) -> None:
        super().__init__()
        self.tokenizer: WordPieceTokenizer = WordPieceTokenizerConfig(path=folder).train([])
        config = BertEncoderConfig(kind="bert", path=folder, lr_scale=rate)
        self.source = config.build_embedding()
        self.encoder = config.build(0)  # BERT's own width
        load_bert_weights(folder, self.source, self.encoder, self.tokenizer.bert_ids)
        self.dim = self.encoder.key_dim

    def forward(self, lines: Sequence[str]) -> tuple[EncoderOutput, Tensor]:
        """What stands at each piece, and the ids of the pieces [B, S]"""
        ids, mask = collate_source([self.tokenizer.encode(line) for line in lines])
        return self.encoder(self.source(ids), mask), ids


class Classifier(nn.Module):
    """Which class a line is of."""

    def __init__(self, bert: Bert, classes: int) -> None:
        super().__init__()
        self.bert = bert
        self.pooler = nn.Linear(bert.dim, bert.dim)
        self.classes = nn.Linear(bert.dim, classes)

    def forward(self, lines: Sequence[str]) -> Tensor:
        """Logits [B, classes], from the vector at [CLS]."""
        encoded, _ = self.bert(lines)
        return self.classes(torch.tanh(self.pooler(encoded.values[:, 0])))

    def loss(self, examples: Sequence[tuple[str, int]]) -> Tensor:
        """The mean cross-entropy of the right class."""
        return F.cross_entropy(self([line for line, _ in examples]), torch.tensor([label for _, label in examples]))

    def right(self, examples: Sequence[tuple[str, int]]) -> int:
        """How many examples it gets right."""
        found = self([line for line, _ in examples]).argmax(-1).tolist()
        return sum(one == label for one, (_, label) in zip(found, examples, strict=True))


class Reader(nn.Module):
    """Where in a text the answer to a question stands."""

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert = bert
        self.span = nn.Linear(bert.dim, 2)

    def forward(self, pairs: Sequence[tuple[str, str]]) -> tuple[Tensor, Tensor]:
        """Logits [B, 2, S] of start and end at the pieces of the text, and the ids [B, S]."""
        encoded, ids = self.bert([f"{question} [SEP] {text}" for question, text in pairs])
        ends = ids == EOS
        in_text = encoded.mask & ~ends & (ends.cumsum(1) == 1)
        return self.span(encoded.values).transpose(1, 2).masked_fill(~in_text[:, None], -torch.inf), ids

    def loss(self, examples: Sequence[tuple[str, str, str]]) -> Tensor:
        """The mean cross-entropy of the right start and of the right end."""
        logits, ids = self([(question, text) for question, text, _ in examples])
        layout = [self._place(row.tolist(), answer) for row, (_, _, answer) in zip(ids, examples, strict=True)]
        return F.cross_entropy(logits.flatten(0, 1), torch.tensor(layout).flatten())

    def right(self, examples: Sequence[tuple[str, str, str]]) -> int:
        """How many answers it gets right, word for word."""
        found = self.answers([(question, text) for question, text, _ in examples])
        return sum(one == answer for one, (_, _, answer) in zip(found, examples, strict=True))

    def answers(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """The best span that does not end before it starts: the greatest S.Ti + E.Tj with j >= i."""
        logits, ids = self(pairs)
        scores = logits[:, 0, :, None] + logits[:, 1, None]
        before = torch.ones(scores.shape[1:], dtype=torch.bool).tril(-1)
        best = scores.masked_fill(before, -torch.inf).flatten(1).argmax(-1)
        layout = [divmod(int(one), ids.size(1)) for one in best]
        decode = self.bert.tokenizer.decode
        return [decode(row[start : end + 1].tolist()) for row, (start, end) in zip(ids, layout, strict=True)]

    def _place(self, ids: list[int], answer: str) -> tuple[int, int]:
        """Where the answer starts and ends in the text."""
        wanted = self.bert.tokenizer.encode(answer)[1:]  # without [CLS]
        starts = range(ids.index(EOS), len(ids))
        start = next(start for start in starts if ids[start : start + len(wanted)] == wanted)
        return start, start + len(wanted) - 1


# ---------------------------------------------------------------------- learning


def learn(name: str, model: Classifier | Reader, examples: Sequence[Any], updates: int) -> float:
    """Fine-tune all of it, as in section 4; the share of what was held out that it gets right."""
    known, held_out = divided(examples)
    optimizer = torch.optim.AdamW(parameter_groups(model), lr=RATE)
    draw = random.Random(2)
    for update in range(1, updates + 1):
        model.train()
        rate = RATE * min(update / WARM, (updates - update) / (updates - WARM))
        for group in optimizer.param_groups:
            group["lr"] = rate * group["lr_scale"]
        loss = model.loss(draw.sample(known, BATCH))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if update % 100 == 0:
            print(f"{name}: update {update} of {updates}  loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        right = sum(model.right(held_out[start : start + 100]) for start in range(0, len(held_out), 100))
    print(f"{name}: {right} of {len(held_out)} held-out examples right ({right / len(held_out):.1%})")
    return right / len(held_out)


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Learn both tasks; the share of held-out examples that each gets right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, help="the folder of a BERT; none: a small one, made on the spot")
    parser.add_argument("--updates", type=int, default=UPDATES)
    chosen = parser.parse_args(arguments)
    heads: dict[str, Callable[[Bert], Classifier | Reader]] = {
        "classification": lambda bert: Classifier(bert, 2),
        "question answering": Reader,
    }
    tasks: dict[str, Sequence[Any]] = {"classification": opinions(), "question answering": questions()}
    shares = {}
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(1)
        path, rate = chosen.checkpoint, 0.02  # what was learnt before shall change little
        if path is None:
            lines = [" ".join(map(str, example)) for task in tasks.values() for example in task]
            path = make_bert(Path(folder), lines, pieces=500, dim=64, layers=2, lowercase=True)
            rate = 1.0
        for name, head in heads.items():
            shares[name] = learn(name, head(Bert(path, rate)), tasks[name], chosen.updates)
    return shares


if __name__ == "__main__":
    main()
