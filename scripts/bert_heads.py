"""BERT with heads: sentence classification and question answering, as in Devlin et al. 2019, section 4.

    python scripts/bert_heads.py                       # a small BERT with random weights
    python scripts/bert_heads.py --checkpoint DIR      # a pretrained BERT, see docs/bert.md

Both heads use the interface of all encoders (seq2attn/encoders/base.py), so any encoder would work:

- classification (4.1): the vector at [CLS], through BERT's pooler (linear, tanh), then the logits of the classes;
- question answering (4.2): `question [SEP] text`, and two logits of each token: start and end of the answer.

The tasks are synthetic: is a film liked (`not bad` is, `not very good` is not), and who did what, where and when.
No test sentence is in the training set.
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
from seq2attn.encoders.base import EncoderOutput
from seq2attn.encoders.bert import BertEncoderConfig, load_bert_weights
from seq2attn.optim.optimizers import parameter_groups
from seq2attn.tokenizers.vocabulary import EOS
from seq2attn.tokenizers.wordpiece import WordPieceTokenizer, WordPieceTokenizerConfig

GOOD, BAD = ("good", "great", "funny", "bright"), ("bad", "dull", "boring", "sad")
WHO = ("anna", "ben", "carla", "old peter", "my brother", "queen mary")
WHAT = ("cats", "small dogs", "two grey birds", "snow", "apples", "red cars")
WHERE = ("paris", "rome", "new york", "san marino", "berlin", "town")
WHEN = ("monday", "friday", "sunday evening", "christmas day", "tuesday", "july the fourth")
Example = TypeVar("Example")
UPDATES, BATCH, RATE, WARM = 300, 32, 2e-3, 50


# ---------------------------------------------------------------------- the tasks


def opinions() -> list[tuple[str, int]]:
    """Sentences, and 1 for a positive opinion."""
    examples = []
    for noun, verb, no, very, word in product(
        ("film", "play", "book"), ("was", "is"), ("", "not "), ("", "very ", "so "), GOOD + BAD
    ):
        examples.append((f"the {noun} {verb} {no}{very}{word}", int((word in GOOD) != bool(no))))
    return examples


def questions() -> list[tuple[str, str, str]]:
    """Question, text and answer; the parts of the text are in random order, so that positions are not enough."""
    examples = []
    rng = random.Random(0)
    for who, what, where, when in product(WHO, WHAT, WHERE, WHEN):
        parts = {"who": f"{who} saw {what}", "where": f"in {where}", "when": f"on {when}"}
        text = " ".join(parts[name] for name in rng.choice([*permutations(parts)]))
        question, answer = rng.choice(
            [("who saw it", who), ("what is seen", what), ("where was it", where), ("when was it", when)]
        )
        examples.append((f"{question} ?", text, answer))
    return examples


def split_examples(examples: Sequence[Example], share: float = 0.8) -> tuple[list[Example], list[Example]]:
    """Training set and test set."""
    shuffled = random.Random(1).sample(examples, len(examples))
    cut = int(share * len(shuffled))
    return shuffled[:cut], shuffled[cut:]


# ---------------------------------------------------------------------- the models


class Bert(nn.Module):
    """Tokenizer, embedding and encoder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.tokenizer: WordPieceTokenizer = WordPieceTokenizerConfig(path=folder).train([])
        config = BertEncoderConfig(path=folder)
        self.source = config.build_embedding()
        self.encoder = config.build(0)  # BERT's own width
        load_bert_weights(folder, self.source, self.encoder, self.tokenizer.bert_ids)
        self.dim = self.encoder.key_dim

    def forward(self, lines: Sequence[str]) -> tuple[EncoderOutput, Tensor]:
        """Output of the encoder, and ids [B, S]"""
        ids, sequences = collate_source([self.tokenizer.encode(line) for line in lines])
        return self.encoder(self.source(ids), sequences), ids


class Classifier(nn.Module):
    """Sentence classification."""

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
        """Number of correct examples."""
        predicted = self([line for line, _ in examples]).argmax(-1).tolist()
        return sum(x == label for x, (_, label) in zip(predicted, examples, strict=True))


class Reader(nn.Module):
    """Extractive question answering."""

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert = bert
        self.span = nn.Linear(bert.dim, 2)

    def forward(self, pairs: Sequence[tuple[str, str]]) -> tuple[Tensor, Tensor]:
        """Logits [B, 2, S] of start and end of the answer, -inf outside the text, and ids [B, S]."""
        encoded, ids = self.bert([f"{question} [SEP] {text}" for question, text in pairs])
        ends = ids == EOS
        in_text = encoded.mask & ~ends & (ends.cumsum(1) == 1)
        return self.span(encoded.values).transpose(1, 2).masked_fill(~in_text[:, None], -torch.inf), ids

    def loss(self, examples: Sequence[tuple[str, str, str]]) -> Tensor:
        """The mean cross-entropy of the right start and of the right end."""
        logits, ids = self([(question, text) for question, text, _ in examples])
        spans = [self._span(row.tolist(), answer) for row, (_, _, answer) in zip(ids, examples, strict=True)]
        return F.cross_entropy(logits.flatten(0, 1), torch.tensor(spans).flatten())

    def right(self, examples: Sequence[tuple[str, str, str]]) -> int:
        """Number of exact answers."""
        predicted = self.answers([(question, text) for question, text, _ in examples])
        return sum(x == answer for x, (_, _, answer) in zip(predicted, examples, strict=True))

    def answers(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """The best span that does not end before it starts: the greatest S.Ti + E.Tj with j >= i."""
        logits, ids = self(pairs)
        scores = logits[:, 0, :, None] + logits[:, 1, None]
        before = torch.ones(scores.shape[1:], dtype=torch.bool).tril(-1)
        best = scores.masked_fill(before, -torch.inf).flatten(1).argmax(-1)
        spans = [divmod(int(index), ids.size(1)) for index in best]
        decode = self.bert.tokenizer.decode
        return [decode(row[start : end + 1].tolist()) for row, (start, end) in zip(ids, spans, strict=True)]

    def _span(self, ids: list[int], answer: str) -> tuple[int, int]:
        """Start and end of the answer in the text."""
        target = self.bert.tokenizer.encode(answer)[1:]  # without [CLS]
        starts = range(ids.index(EOS), len(ids))
        start = next(start for start in starts if ids[start : start + len(target)] == target)
        return start, start + len(target) - 1


# ---------------------------------------------------------------------- training


def fine_tune(name: str, model: Classifier | Reader, examples: Sequence[Any], updates: int, rate: float) -> float:
    """Fine-tune the whole model, BERT at a share of the learning rate (section 4). Returns the accuracy on held-out
    examples."""
    train, held_out = split_examples(examples)
    optimizer = torch.optim.AdamW(parameter_groups(model, {"bert": rate}), lr=RATE)
    rng = random.Random(2)
    warm = min(WARM, updates // 2) or 1
    for update in range(1, updates + 1):
        model.train()
        lr = RATE * min(update / warm, (updates - update) / max(updates - warm, 1))
        for group in optimizer.param_groups:
            group["lr"] = lr * group["lr_scale"]
        loss = model.loss(rng.sample(train, BATCH))
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
    """Fine-tune on both tasks. Returns the accuracy of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--checkpoint", type=Path, help="the folder of a BERT; default: a small one with random weights"
    )
    parser.add_argument("--updates", type=int, default=UPDATES)
    options = parser.parse_args(arguments)
    heads: dict[str, Callable[[Bert], Classifier | Reader]] = {
        "classification": lambda bert: Classifier(bert, 2),
        "question answering": Reader,
    }
    tasks: dict[str, Sequence[Any]] = {"classification": opinions(), "question answering": questions()}
    shares = {}
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(1)
        path, rate = options.checkpoint, 0.02  # of pretrained weights
        if path is None:
            lines = [" ".join(map(str, example)) for task in tasks.values() for example in task]
            path = make_bert(Path(folder), lines, pieces=500, dim=64, layers=2, lowercase=True)
            rate = 1.0
        for name, head in heads.items():
            shares[name] = fine_tune(name, head(Bert(path)), tasks[name], options.updates, rate)
    return shares


if __name__ == "__main__":
    main()
