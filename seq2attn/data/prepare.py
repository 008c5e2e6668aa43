"""Text to tokenisers and memory-mapped ids, once.

source/ target/          the tokenisers; the same one twice where it is joint
data/train/ data/dev/    the ids, and beside them the text as data/train.jsonl, data/dev.jsonl
data/dev-1.jsonl ...     the dev set with further references as targets, where it has some
data/train/words/, links/    the word of each id and the links between words, where they are known
data/hashes.npy          hashes of the training pairs, to find them in test sets
data-report.*            counts over all corpora
data/prepared.json       written last: what all of it was made from
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path

from pydantic import Field, TypeAdapter
from tqdm import tqdm

from seq2attn import formats
from seq2attn.config.base import Config, Mistake
from seq2attn.data.corpus import Corpus, Growing, Guide
from seq2attn.data.filter import Encoded, Filter, FilterReport, FiltersConfig
from seq2attn.data.fingerprint import fingerprint
from seq2attn.data.inspection.overlap import load_hashes, save_hashes
from seq2attn.data.inspection.report import REPORT_TEXT, DataReport
from seq2attn.data.inspection.statistics import CorpusInspector, inspect_pairs
from seq2attn.data.links import Alignment
from seq2attn.data.read import AlignedConfig, CorpusConfig, read_aligned, read_pairs, read_references
from seq2attn.data.texts import read_texts, texts_writer
from seq2attn.data.training import NUMBERS, TrainingData
from seq2attn.data.word_numbers import word_numbers
from seq2attn.errors import DataError, RunError
from seq2attn.text.config import TextConfig, TokenizerConfig
from seq2attn.text.files import read_object, write_json
from seq2attn.text.subwords import BPEConfig, UnigramConfig
from seq2attn.text.tokenizer import Tokenizer, load_tokenizer

PREPARED, TRAIN, DEV = "data/prepared.json", "data/train", "data/dev"
FIX = "remove the folder it is in, and prepare the data again"

Log = Callable[[str], None]


def _names_of_files(test: Mapping[str, CorpusConfig]) -> list[Mistake]:
    message = "is the name of files with translations too: take letters, digits, `_`, `-` and `.`"
    return [Mistake(f"test.{name}", message) for name in test if not re.fullmatch(r"\w[\w.-]*", name)]


def _references_are_for_scores(train: CorpusConfig) -> list[Mistake]:
    if not isinstance(train, AlignedConfig) or not train.references:
        return []
    return [Mistake("train.references", "are for `dev` and `test`: training takes one target a source")]


class DataConfig(Config):
    """The text to learn from and to be measured on."""

    rules = (_names_of_files, _references_are_for_scores)

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
    dev_references: tuple[tuple[str, ...], ...]  # streams, as scores take them
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
        _log_report(_with_these_tests(DataReport.load(folder), data, text, folder), folder, log)
        return load_prepared(folder)
    sizes = {"train": _count(data.train), "dev": _count(data.dev)}
    log(", ".join(f"{name}: {size:,} pairs" for name, size in (sizes | tests).items()))
    (folder / PREPARED).unlink(missing_ok=True)
    if not keep_tokenizers:
        _train_tokenizers(data.train, text, folder, log)
    source, target = load_tokenizer(folder / "source"), load_tokenizer(folder / "target")
    inspectors = CorpusInspector(source, target), CorpusInspector(source, target)
    sieve = Filter(data.filters)
    train = tqdm(read_aligned(data.train), "encode", sizes["train"], unit=" pairs", disable=None)
    kept = sieve.sift(inspectors[0].inspect(_encoded(train, source, target)))
    _save(kept, source, target, folder / TRAIN)
    log(f"train: {sieve.report}")
    if not sieve.report.kept:
        raise DataError(
            f"{data.train.files[0]}: no pair is left to learn from: {sieve.report}; see `filters`"
        )
    dev = ((pair, None) for pair in read_pairs(data.dev))
    _save(inspectors[1].inspect(_encoded(dev, source, target)), source, target, folder / DEV)
    hashes = inspectors[0].hashes
    save_hashes(hashes, folder)
    reports = inspectors[0].report(), inspectors[1].report(hashes)
    counted = DataReport(sieve.report, *reports, tests={}, tests_fingerprint="")
    _log_report(_with_these_tests(counted, data, text, folder), folder, log)
    prepared = {"report": asdict(sieve.report), "references": _save_references(data.dev, folder)}
    made_from = _fingerprint(data, text)
    write_json(folder / PREPARED, {"format": formats.PREPARED, "fingerprint": made_from, **prepared})
    return load_prepared(folder)


def load_prepared(folder: Path) -> Prepared:
    """What `prepare` made, without a look at the text it was made from.

    Raises: RunError when something is missing or damaged.
    """
    content = read_object(folder / PREPARED, "prepare the data first")
    formats.format_of(content, formats.PREPARED, folder / PREPARED, FIX)
    try:
        report = TypeAdapter(FilterReport).validate_python(content.get("report"))
    except ValueError:
        raise RunError(f"{folder / PREPARED}: does not say what was left out; {FIX}") from None
    source, target = load_tokenizer(folder / "source"), load_tokenizer(folder / "target")
    train, dev = (_opened(folder / name, (source, target)) for name in (TRAIN, DEV))
    texts = [list(read_texts(path)) for path in _dev_texts(folder, content.get("references", 1))]
    return Prepared(
        source,
        target,
        TrainingData(source, target, train, _texts(folder / TRAIN)),
        dev,
        tuple(source for source, _ in texts[0]),
        tuple(tuple(target for _, target in stream) for stream in texts),
        report,
    )


def _with_these_tests(
    report: DataReport | None, data: DataConfig, text: TextConfig, folder: Path
) -> DataReport | None:
    """The report with the test sets as they are now; None where there was none."""
    if report is None:
        return None
    made_from = fingerprint(tuple(data.test.values()), data.filters, text)
    if report.tests_fingerprint == made_from and [*report.tests] == [*data.test]:
        return report
    source, target = load_tokenizer(folder / "source"), load_tokenizer(folder / "target")
    hashes = load_hashes(folder)
    tests = {name: inspect_pairs(read_pairs(one), source, target, hashes) for name, one in data.test.items()}
    report = replace(report, tests=tests, tests_fingerprint=made_from)
    report.save(folder)
    return report


def _log_report(report: DataReport | None, folder: Path, log: Log) -> None:
    if report is not None:
        log(f"{report.summary}; all of it: {folder / REPORT_TEXT}")
        for line in report.warnings():
            log(f"warning: {line}")


def _opened(folder: Path, sides: tuple[Tokenizer, Tokenizer]) -> Corpus:
    """The ids in `folder`, each of which is of a token."""
    corpus = Corpus.open(folder)
    if len(corpus.ids) and corpus.ids.max() >= max(len(side.vocabulary) for side in sides):
        raise RunError(f"{folder}: the prepared ids are not of these tokenisers; {FIX}")
    return corpus


def _is_prepared(folder: Path, data: DataConfig, text: TextConfig) -> bool:
    if not (folder / PREPARED).is_file():
        return False
    content = read_object(folder / PREPARED, FIX)
    return content.get("format") == formats.PREPARED and content.get("fingerprint") == _fingerprint(
        data, text
    )


def _fingerprint(data: DataConfig, text: TextConfig) -> str:
    return fingerprint((data.train, data.dev), data.filters, text)


def _count(corpus: CorpusConfig) -> int:
    """Reading to the end is also the check."""
    if isinstance(corpus, AlignedConfig) and corpus.references:
        return len(_read_references(corpus)[0])
    return sum(1 for _ in read_pairs(corpus))


def _read_references(corpus: CorpusConfig) -> list[Sequence[str]]:
    return read_references(corpus, [target for _, target in read_pairs(corpus)])


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


def _save_references(dev: CorpusConfig, folder: Path) -> int:
    """Write the dev set with each further reference as target; the number of references."""
    streams = _read_references(dev)
    sources = [source for source, _ in read_pairs(dev)]
    for path, stream in zip(_dev_texts(folder, len(streams))[1:], streams[1:], strict=True):
        with texts_writer(path) as write:
            for pair in zip(sources, stream, strict=True):
                write(pair)
    return len(streams)


def _dev_texts(folder: Path, references: int) -> list[Path]:
    return [_texts(folder / DEV), *(_texts(folder / f"{DEV}-{number}") for number in range(1, references))]
