"""What a model is examined with: lines of a file, the run's own dev set, or words drawn from its vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from seq2attn.data.prepare import DEV
from seq2attn.data.texts import read_texts
from seq2attn.errors import DataError
from seq2attn.run import Run
from seq2attn.text.lines import read_lines
from seq2attn.text.tokenizer import Tokenizer
from seq2attn.text.vocabulary import SPECIALS

LONGEST = 20
"""Most tokens of a drawn sentence."""


@dataclass(frozen=True)
class Sentence:
    """A source, the translation to be read after it if one is known, and its number where it comes from."""

    number: int
    source: tuple[int, ...]
    target: tuple[int, ...] | None


@dataclass(frozen=True)
class Sentences:
    """What is read, and where it is from."""

    origin: str
    each: tuple[Sentence, ...]


def choose_sentences(
    run: Run, tokenizers: tuple[Tokenizer, Tokenizer], count: int, file: Path | None
) -> Sentences:
    """The first `count` that are not empty.

    Raises: DataError when a file has none, RunError when the run's dev set is damaged.
    """  # fmt: skip
    source, target = tokenizers
    dev = (run.folder / DEV).with_suffix(".jsonl")
    texts: Iterator[tuple[str, str | None]]
    if file is not None:
        origin, texts = str(file), ((line, None) for line in read_lines(file))
    elif dev.is_file():
        origin, texts = str(dev), iter(read_texts(dev))
    else:
        return Sentences("the vocabulary", tuple(_drawn(source, target, count)))
    each = list[Sentence]()
    for number, (text, translation) in enumerate(texts, start=1):
        if len(each) == count:
            break
        if ids := source.encode(text):
            read = None if translation is None else tuple(target.encode(translation))
            each.append(Sentence(number, tuple(ids), read))
    if not each:
        raise DataError(f"{origin}: has no line to examine the model with; give --input FILE")
    return Sentences(origin, tuple(each))


def _drawn(source: Tokenizer, target: Tokenizer, count: int) -> Iterator[Sentence]:
    """Sentences of drawn tokens, as the tokeniser itself would cut them."""
    random = Random(0)

    def draw(side: Tokenizer) -> tuple[int, ...]:
        known = range(min(len(SPECIALS), len(side.vocabulary) - 1), len(side.vocabulary))
        ids = random.choices(known, k=random.randint(1, LONGEST))
        return tuple(side.encode(side.decode(ids)) or ids)

    for number in range(1, count + 1):
        yield Sentence(number, draw(source), draw(target))
