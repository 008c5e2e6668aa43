"""Text to tokenizers and memory-mapped ids, once.

source/ target/          the tokenizers; the same one twice where it is joint
data/train/ data/dev/    the ids, and beside them the text as data/train.jsonl, data/dev.jsonl
data/dev-1.jsonl ...     the dev set with further references as targets, where it has some
data/train/word_ids/, alignments/    the word of each token and the links between words, where known
data/hashes.npy          hashes of the training pairs, to find them in test sets
data-report.*            counts over all corpora
data/prepared.json       written last: what all of it was made from
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter
from tqdm import tqdm

from seq2attn.data.config import DataConfig
from seq2attn.data.corpus import Corpus, CorpusAlignments, CorpusBuilder
from seq2attn.data.filter import EncodedPair, FilterReport, PairFilter
from seq2attn.data.fingerprint import fingerprint
from seq2attn.data.inspection.overlap import load_hashes, save_hashes
from seq2attn.data.inspection.report import REPORT_TEXT, DataReport, TrainingCorpusReport
from seq2attn.data.inspection.statistics import CorpusInspector, inspect_pairs
from seq2attn.data.readers import (
    CorpusConfig,
    PlainTextConfig,
    read_pairs,
    read_pairs_with_alignments,
    read_references,
)
from seq2attn.data.text_store import read_text_pairs, text_pair_writer
from seq2attn.data.train_tokenizers import Log, train_tokenizers
from seq2attn.data.training_set import MAX_WORD_ID, TrainingPart, TrainingSet
from seq2attn.data.word_alignment import WordAlignment
from seq2attn.data.word_ids import number_pair
from seq2attn.errors import DataError, RunError
from seq2attn.io.files import read_object, write_json
from seq2attn.io.format_version import FORMAT_VERSION, check_format
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.config import TokenizersConfig
from seq2attn.tokenizers.load import load_tokenizer

PREPARED, TRAIN, DEV = "data/prepared.json", "data/train", "data/dev"
PREPARE_HINT = "remove the folder it is in, and prepare the data again"


@dataclass(frozen=True)
class PreparedData:
    """All that training asks of the text."""

    source: Tokenizer
    target: Tokenizer
    train: TrainingSet
    dev: Corpus
    dev_sources: tuple[str, ...]
    dev_references: tuple[tuple[str, ...], ...]  # streams, as scores take them
    report: FilterReport  # of the training pairs


def prepare(
    data: DataConfig, text: TokenizersConfig, folder: Path, log: Log, *, keep_tokenizers: bool = False
) -> PreparedData:
    """Learn the tokenizers and encode the text into `folder`, unless that is done already.

    `keep_tokenizers` takes those already in `folder`, for weights that were trained with them.

    Raises: DataError for text that cannot be used, before anything is learnt; RunError for a bad `folder`.
    """
    _check_files(data)
    tests = {name: _count(corpus) for name, corpus in data.test.items()}
    if _is_prepared(folder, data, text):
        log(f"{folder}: already prepared from this text")
        _log_report(_with_these_tests(DataReport.load(folder), data, text, folder), folder, log)
        return load_prepared(folder)
    trained = {name: _count(corpus) for name, corpus in zip(_names(data), data.train, strict=True)}
    sizes = trained | {"dev": _count(data.dev)} | tests
    log(", ".join(f"{name}: {size:,} pairs" for name, size in sizes.items()))
    (folder / PREPARED).unlink(missing_ok=True)
    if not keep_tokenizers:
        train_tokenizers(data, text, folder, log)
    source, target = load_tokenizer(folder / "source"), load_tokenizer(folder / "target")
    inspector, corpora = CorpusInspector(source, target), list[TrainingCorpusReport]()
    pairs = _training_pairs(data, (source, target), inspector, trained, corpora)
    is_guided = any(isinstance(one, PlainTextConfig) and one.alignment is not None for one in data.train)
    _save(pairs, source, target, folder / TRAIN, is_guided=is_guided)
    of_dev = CorpusInspector(source, target)
    dev = _encoded(((pair, None) for pair in read_pairs(data.dev)), source, target)
    _save(of_dev.inspect(dev), source, target, folder / DEV)
    hashes = inspector.hashes
    save_hashes(hashes, folder)
    reports = inspector.report(), of_dev.report(hashes)
    counted = DataReport(tuple(corpora), *reports, tests={}, tests_fingerprint="")
    for line in counted.corpus_lines():
        log(line)
    _log_report(_with_these_tests(counted, data, text, folder), folder, log)
    prepared = {
        "corpora": [asdict(one.part) for one in corpora],
        "references": _save_references(data.dev, folder),
    }
    made_from = _fingerprint(data, text)
    write_json(folder / PREPARED, {"format": FORMAT_VERSION, "fingerprint": made_from, **prepared})
    return load_prepared(folder)


def load_prepared(folder: Path) -> PreparedData:
    """What `prepare` made, without a look at the text it was made from.

    Raises: RunError when something is missing or corrupt.
    """
    content = read_object(folder / PREPARED, "prepare the data first")
    check_format(content, folder / PREPARED, PREPARE_HINT)
    try:
        parts = TypeAdapter(tuple[TrainingPart, ...]).validate_python(content.get("corpora"))
    except ValueError:
        raise RunError(f"{folder / PREPARED}: does not say what was left out; {PREPARE_HINT}") from None
    source, target = load_tokenizer(folder / "source"), load_tokenizer(folder / "target")
    train, dev = (_opened(folder / name, (source, target)) for name in (TRAIN, DEV))
    if sum(part.report.num_kept for part in parts) != len(train):
        raise RunError(
            f"{folder / PREPARED}: its corpora do not add up to the pairs of {folder / TRAIN}; {PREPARE_HINT}"
        )
    texts = [list(read_text_pairs(path)) for path in _dev_texts(folder, content.get("references", 1))]
    return PreparedData(
        source,
        target,
        TrainingSet(source, target, train, _texts(folder / TRAIN), parts),
        dev,
        tuple(source for source, _ in texts[0]),
        tuple(tuple(target for _, target in stream) for stream in texts),
        FilterReport.total(part.report for part in parts),
    )


def _with_these_tests(
    report: DataReport | None, data: DataConfig, text: TokenizersConfig, folder: Path
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
    corpus = Corpus.load(folder)
    if len(corpus.ids) and corpus.ids.max() >= max(len(side.vocabulary) for side in sides):
        raise RunError(f"{folder}: the prepared ids are not of these tokenizers; {PREPARE_HINT}")
    return corpus


def _is_prepared(folder: Path, data: DataConfig, text: TokenizersConfig) -> bool:
    if not (folder / PREPARED).is_file():
        return False
    content = read_object(folder / PREPARED, PREPARE_HINT)
    return content.get("format") == FORMAT_VERSION and content.get("fingerprint") == _fingerprint(data, text)


def _fingerprint(data: DataConfig, text: TokenizersConfig) -> str:
    return fingerprint((*data.train, data.dev), data.filters, text)


def _check_files(data: DataConfig) -> None:
    """Raises DataError for a pipe, which can be read only once, or a device, which may have no end."""
    for path in (path for one in (*data.train, data.dev, *data.test.values()) for path in one.files):
        if path.exists() and not path.is_file() and not path.is_dir():  # of a folder reading says more
            raise DataError(f"{path}: is no regular file, and text is read several times; write it to a file")


def _count(corpus: CorpusConfig) -> int:
    """Reading to the end is also the check."""
    if isinstance(corpus, PlainTextConfig) and corpus.references:
        return len(_read_references(corpus)[0])
    return sum(1 for _ in read_pairs(corpus))


def _read_references(corpus: CorpusConfig) -> list[Sequence[str]]:
    return read_references(corpus, [target for _, target in read_pairs(corpus)])


def _names(data: DataConfig) -> list[str]:
    """Names for people: `train`, or `train 1`, `train 2` ..."""
    several = len(data.train) > 1
    return [f"train {number}" if several else "train" for number in range(1, len(data.train) + 1)]


def _training_pairs(
    data: DataConfig,
    sides: tuple[Tokenizer, Tokenizer],
    inspector: CorpusInspector,
    sizes: Mapping[str, int],
    reports: list[TrainingCorpusReport],
) -> Iterator[EncodedPair]:
    """The pairs of all training corpora that filters keep; each corpus adds its report at its end.

    Raises: DataError for a corpus of which an epoch would have no pair.
    """
    sieve = PairFilter(data.filters)
    for corpus, (name, size) in zip(data.train, sizes.items(), strict=True):
        texts = tqdm(read_pairs_with_alignments(corpus), f"encode {name}", size, unit=" pairs", disable=None)
        yield from sieve.filter(inspector.inspect(_encoded(texts, *sides)))
        part = TrainingPart(sieve.report, corpus.repeat)
        if not part.report.num_kept:
            raise DataError(f"{corpus.files[0]}: no pair is left to learn from: {part.report}; see `filters`")
        if not part.num_pairs_per_epoch:
            raise DataError(
                f"{corpus.files[0]}: {part.report}, and `repeat: {corpus.repeat:g}` of these is less than a pair"
            )
        files = tuple(file.name for file in corpus.files)
        reports.append(TrainingCorpusReport(name, files, corpus.tag, part))


def _encoded(
    pairs: Iterable[tuple[tuple[str, str], WordAlignment | None]], source: Tokenizer, target: Tokenizer
) -> Iterator[EncodedPair]:
    return (EncodedPair(text, source.encode(text[0]), target.encode(text[1]), links) for text, links in pairs)


def _save(
    pairs: Iterable[EncodedPair],
    source: Tokenizer,
    target: Tokenizer,
    folder: Path,
    *,
    is_guided: bool = False,
) -> None:
    """Write pairs; with their links where they are to guide attention, of which some pairs may have none."""
    ids = CorpusBuilder(max(len(source.vocabulary), len(target.vocabulary)))
    words, links = CorpusBuilder(MAX_WORD_ID), CorpusBuilder(MAX_WORD_ID)
    with text_pair_writer(_texts(folder)) as write:
        for pair in pairs:
            write(pair.text)
            ids.add((pair.source_ids, pair.target_ids))
            sure = sorted(pair.alignment.sure) if pair.alignment else []
            if is_guided:
                numbered = (
                    number_pair((source, target), pair.text, (pair.source_ids, pair.target_ids)) if sure else ([], [])
                )
                words.add(numbered)
                links.add(([link[0] for link in sure], [link[1] for link in sure]))
        ids.build(CorpusAlignments(words.build(), links.build()) if is_guided else None).save(folder)


def _texts(folder: Path) -> Path:
    return folder.with_suffix(".jsonl")


def _save_references(dev: CorpusConfig, folder: Path) -> int:
    """Write the dev set with each further reference as target; the number of references."""
    streams = _read_references(dev)
    sources = [source for source, _ in read_pairs(dev)]
    for path, stream in zip(_dev_texts(folder, len(streams))[1:], streams[1:], strict=True):
        with text_pair_writer(path) as write:
            for pair in zip(sources, stream, strict=True):
                write(pair)
    return len(streams)


def _dev_texts(folder: Path, references: int) -> list[Path]:
    return [_texts(folder / DEV), *(_texts(folder / f"{DEV}-{number}") for number in range(1, references))]
