"""Text to tokenisers and memory-mapped ids, once.

source/ target/          the tokenisers; the same one twice where it is joint
data/train/ data/dev/    the ids, and beside them the text as data/train.jsonl, data/dev.jsonl
data/train/words/, links/    the word of each id and the links between words, where they are known
data/prepared.json       written last: what all of it was made from
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from pydantic import Field
from tqdm import tqdm

from seq2attn.config.base import Config
from seq2attn.data.corpus import Corpus, Growing, Guide
from seq2attn.data.filter import Encoded, Filter, FilterReport, FiltersConfig
from seq2attn.data.fingerprint import fingerprint
from seq2attn.data.links import Alignment
from seq2attn.data.read import CorpusConfig, read_aligned, read_pairs
from seq2attn.data.texts import read_texts, texts_writer
from seq2attn.data.training import NUMBERS, TrainingData
from seq2attn.data.word_numbers import word_numbers
from seq2attn.errors import DataError, RunError
from seq2attn.text.config import TextConfig, TokenizerConfig
from seq2attn.text.files import read_object, write_json
from seq2attn.text.subwords import BPEConfig, UnigramConfig
from seq2attn.text.tokenizer import Tokenizer, load_tokenizer

FORMAT = 1
PREPARED, TRAIN, DEV = "data/prepared.json", "data/train", "data/dev"
FIX = "remove the folder it is in, and prepare the data again"

Log = Callable[[str], None]


class DataConfig(Config):
    """The text to learn from and to be measured on."""

    train: CorpusConfig
    """What the tokenisers and the model learn from."""
    dev: CorpusConfig
    """What decides when to stop and which weights are best; never filtered."""
    test: dict[str, CorpusConfig] = Field(default_factory=dict)
    """What finished models are measured on, each set by a name; never filtered."""
    filters: FiltersConfig = FiltersConfig()
    """Which training pairs to leave out."""


@dataclass(frozen=True)
class Prepared:
    """All that training asks of the text."""

    source: Tokenizer
    target: Tokenizer
    train: TrainingData
    dev: Corpus
    dev_sources: tuple[str, ...]
    dev_references: tuple[str, ...]
    report: FilterReport  # of the training pairs


def prepare(
    data: DataConfig, text: TextConfig, folder: Path, log: Log, *, keep_tokenizers: bool = False
) -> Prepared:
    """Learn the tokenisers and encode the text into `folder`, unless that is done already.

    `keep_tokenizers` takes those already in `folder`, for weights that were trained with them.

    Raises: DataError for text that cannot be used, before anything is learnt; RunError for a bad `folder`.
    """
    tests = {name: _count(corpus) for name, corpus in data.test.items()}
    if _is_prepared(folder, data, text):
        log(f"{folder}: already prepared from this text")
        return load_prepared(folder)
    sizes = {"train": _count(data.train), "dev": _count(data.dev)}
    log(", ".join(f"{name}: {size:,} pairs" for name, size in (sizes | tests).items()))
    (folder / PREPARED).unlink(missing_ok=True)
    if not keep_tokenizers:
        _train_tokenizers(data.train, text, folder, log)
    source, target = load_tokenizer(folder / "source"), load_tokenizer(folder / "target")
    train = tqdm(read_aligned(data.train), "encode", sizes["train"], unit=" pairs", disable=None)
    sieve = Filter(data.filters)
    _save(sieve.sift(_encoded(train, source, target)), source, target, folder / TRAIN)
    log(f"train: {sieve.report}")
    if not sieve.report.kept:
        raise DataError(
            f"{data.train.files[0]}: no pair is left to learn from: {sieve.report}; see `filters`"
        )
    dev = ((pair, None) for pair in read_pairs(data.dev))
    _save(_encoded(dev, source, target), source, target, folder / DEV)
    made_from, report = _fingerprint(data, text), asdict(sieve.report)
    write_json(folder / PREPARED, {"format": FORMAT, "fingerprint": made_from, "report": report})
    return load_prepared(folder)


def load_prepared(folder: Path) -> Prepared:
    """What `prepare` made, without a look at the text it was made from.

    Raises: RunError when something is missing or damaged.
    """
    content = read_object(folder / PREPARED, "prepare the data first")
    if content.get("format") != FORMAT:
        raise RunError(f"{folder / PREPARED}: expected format {FORMAT}, found {content.get('format')}; {FIX}")
    source, target = load_tokenizer(folder / "source"), load_tokenizer(folder / "target")
    dev = list(read_texts(_texts(folder / DEV)))
    return Prepared(
        source,
        target,
        TrainingData(source, target, Corpus.open(folder / TRAIN), _texts(folder / TRAIN)),
        Corpus.open(folder / DEV),
        tuple(text for text, _ in dev),
        tuple(text for _, text in dev),
        FilterReport(**content["report"]),
    )


def _is_prepared(folder: Path, data: DataConfig, text: TextConfig) -> bool:
    if not (folder / PREPARED).is_file():
        return False
    content = read_object(folder / PREPARED, FIX)
    return content.get("format") == FORMAT and content.get("fingerprint") == _fingerprint(data, text)


def _fingerprint(data: DataConfig, text: TextConfig) -> str:
    return fingerprint((data.train, data.dev), data.filters, text)


def _count(corpus: CorpusConfig) -> int:
    """Reading to the end is also the check."""
    return sum(1 for _ in read_pairs(corpus))


def _train_tokenizers(corpus: CorpusConfig, text: TextConfig, folder: Path, log: Log) -> None:
    def side(column: int) -> Iterator[str]:
        return (pair[column] for pair in read_pairs(corpus))

    def learn(config: TokenizerConfig, lines: Iterable[str], *names: str) -> None:
        tokenizer = config.train(lines)
        for name in names:
            tokenizer.save(folder / name)
        log(f"{' and '.join(names)}: {_described(config, len(tokenizer.vocabulary))}")

    source, target = text.sides
    if text.is_joint:
        learn(source, chain(side(0), side(1)), "source", "target")
    else:
        learn(source, side(0), "source")
        learn(target, side(1), "target")


def _described(config: TokenizerConfig, size: int) -> str:
    asked = config.size if isinstance(config, BPEConfig | UnigramConfig) else size
    fewer = f" ({asked:,} were asked for; the text gives no more)" if size < asked else ""
    return f"{config.kind}, {size:,} entries{fewer}"


def _encoded(
    pairs: Iterable[tuple[tuple[str, str], Alignment | None]], source: Tokenizer, target: Tokenizer
) -> Iterator[Encoded]:
    return (Encoded(text, source.encode(text[0]), target.encode(text[1]), links) for text, links in pairs)


def _save(pairs: Iterable[Encoded], source: Tokenizer, target: Tokenizer, folder: Path) -> None:
    ids = Growing(max(len(source.vocabulary), len(target.vocabulary)))
    words, links, is_guided = Growing(NUMBERS), Growing(NUMBERS), False
    with texts_writer(_texts(folder)) as write:
        for pair in pairs:
            write(pair.text)
            ids.add((pair.source, pair.target))
            if pair.alignment is not None:
                is_guided = True
                of_source = word_numbers(source, pair.text[0], pair.source)
                words.add((of_source, word_numbers(target, pair.text[1], pair.target)))
                sure = sorted(pair.alignment.sure)
                links.add(([link[0] for link in sure], [link[1] for link in sure]))
        ids.corpus(Guide(words.corpus(), links.corpus()) if is_guided else None).save(folder)


def _texts(folder: Path) -> Path:
    return folder.with_suffix(".jsonl")
