"""Preparation of text: trained tokenizers and memory-mapped token ids, made once.

run.json                 written first: the manifest of a run directory
source/ target/          the tokenizers; the same one twice if it is joint
data/train/ data/dev/    the ids, and beside them the text as data/train.jsonl, data/dev.jsonl
data/dev-1.jsonl ...     the dev set with further references as targets, if any
data/train/word_ids/, alignments/    the word of each token and the links between words, if known
data/hashes.npy          hashes of the training pairs, to find them in test sets
data-report.json         statistics of all corpora
data/prepared.json       written last: fingerprint of the text and config that all of it was made from
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import NotRequired

from pydantic import PositiveInt, TypeAdapter
from tqdm import tqdm
from typing_extensions import TypedDict

from seq2attn.data.corpus import Corpus, CorpusAlignments, CorpusBuilder, read_text_pairs, text_pair_writer
from seq2attn.data.data_config import DataConfig
from seq2attn.data.filter import EncodedPair, PairFilter
from seq2attn.data.fingerprint import fingerprint
from seq2attn.data.inspection import (
    CorpusInspector,
    CorpusReport,
    DataReport,
    Hashes,
    inspect_pairs,
    load_hashes,
    save_hashes,
)
from seq2attn.data.readers import (
    CorpusConfig,
    PlainTextConfig,
    check_regular,
    read_pairs,
    read_pairs_with_alignments,
    read_references,
)
from seq2attn.data.train_tokenizers import check_tags, make_tokenizers
from seq2attn.data.training_set import TrainingPart, TrainingSet
from seq2attn.data.word_alignment import pair_word_ids
from seq2attn.errors import DataError, RunError
from seq2attn.io.files import (
    FORMAT_VERSION,
    check_format,
    read_object,
    remove_temporary,
    validate,
    write_json,
    write_manifest,
)
from seq2attn.io.terminal import Log
from seq2attn.tokenizers.base import Tokenizer, TokenizerPair
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig, load_tokenizer, load_tokenizers

PREPARED, TRAIN, DEV = "data/prepared.json", "data/train", "data/dev"
PREPARE_HINT = "remove the folder it is in, and prepare the data again"


class _Counts(TypedDict):
    """Content of `data/prepared.json`, besides fingerprints."""

    corpora: tuple[TrainingPart, ...]
    references: NotRequired[PositiveInt]


_COUNTS = TypeAdapter(_Counts)


@dataclass(frozen=True)
class PreparedData:
    """The prepared text of a training."""

    source: Tokenizer
    target: Tokenizer
    train: TrainingSet
    dev: Corpus
    dev_sources: tuple[str, ...]
    dev_references: tuple[tuple[str, ...], ...]  # one stream per reference, as in sacreBLEU

    @property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers of source and target."""
        return TokenizerPair(self.source, self.target)


def prepare(
    data: DataConfig, text: TokenizersConfig, folder: Path, log: Log, *, keep_tokenizers: bool = False
) -> PreparedData:
    """Train the tokenizers, or copy those of a run, and encode the text into `folder`, unless it is prepared already.

    `keep_tokenizers` uses those in `folder`, for weights that were trained with them.

    Raises: DataError for text that cannot be used, before anything is trained; RunError for a corrupt `folder`.
    """
    for corpus in (*data.train, data.dev, *data.test.values()):
        _check_corpus(corpus, log)
    if keep_tokenizers:
        check_tags(data, load_tokenizer(folder / "source"), folder)
    test_sizes = [(name, _count_pairs(corpus)) for name, corpus in data.test.items()]
    if _is_prepared(folder, data, text, keep_tokenizers=keep_tokenizers):
        log(f"{folder}: already prepared from this text")
        _inspect_changed_tests(data, text, folder, log)
        return load_prepared(folder)
    names = [f"train {number}" for number in range(1, len(data.train) + 1)] if len(data.train) > 1 else ["train"]
    train_sizes, dev_size = [_count_pairs(corpus) for corpus in data.train], _count_pairs(data.dev)
    sizes = *zip(names, train_sizes, strict=True), ("dev", dev_size), *test_sizes
    log(", ".join(f"{name}: {size:,} pairs" for name, size in sizes))
    _begin(folder)
    if not keep_tokenizers:
        make_tokenizers(data, text, folder, log)
    tokenizers = load_tokenizers(folder)

    inspector, pair_filter = CorpusInspector(*tokenizers), PairFilter(data.filters)
    parts = list[TrainingPart]()

    def training_pairs() -> Iterator[EncodedPair]:
        for corpus, name, size in zip(data.train, names, train_sizes, strict=True):
            yield from pair_filter.filter(inspector.inspect(_encode(corpus, tokenizers, name, size)))
            parts.append(TrainingPart.of_corpus(corpus, pair_filter.report))

    _save(training_pairs(), tokenizers, folder / TRAIN, with_alignments=data.has_alignments)
    dev_inspector = _save_dev(data, tokenizers, dev_size, folder, log)
    for name, part in zip(names, parts, strict=True):
        log(part.describe(name, parts))
    save_hashes(pair_filter.hashes, folder)
    train = _with_earlier(inspector.report(), folder if keep_tokenizers else text.run_dir)
    _report(train, dev_inspector.report(pair_filter.hashes), pair_filter.hashes, data.test, folder, log)
    prepared = {
        "fingerprint": _fingerprint(data, text),
        "tests": _test_fingerprints(data, text),
        "corpora": [asdict(part) for part in parts],
        "references": _save_references(data.dev, folder),
        "kept_tokenizers": keep_tokenizers,
    }
    write_json(folder / PREPARED, {"format": FORMAT_VERSION, **prepared})
    return load_prepared(folder)


def _save_dev(data: DataConfig, tokenizers: TokenizerPair, size: int, folder: Path, log: Log) -> CorpusInspector:
    """Write the dev set; logs its longest pair if that is too long for training."""
    inspector = CorpusInspector(*tokenizers)
    _save(inspector.inspect(_encode(data.dev, tokenizers, "dev", size)), tokenizers, folder / DEV)
    if warning := data.filters.describe_long(Corpus.load(folder / DEV).lengths, data.dev.files[0]):
        log(f"warning: dev: {warning}; validation takes them in parts")
    return inspector


def _begin(folder: Path) -> None:
    """Mark the folder as a run directory whose text is not prepared."""
    write_manifest(folder)  # first: a folder with `source` or `data` and no manifest is not of a run
    remove_temporary((folder / PREPARED).parent)
    (folder / PREPARED).unlink(missing_ok=True)


def _check_corpus(corpus: CorpusConfig, log: Log) -> None:
    """Raises DataError for a file that is not regular; logs a warning for a source that is also the target."""
    check_regular(corpus)
    if corpus.source == corpus.target:
        log(f"warning: {corpus.files[0]}: source and target are the same")


def _test_fingerprints(data: DataConfig, text: TokenizersConfig) -> dict[str, str]:
    return {name: fingerprint((corpus,), data.filters, text) for name, corpus in data.test.items()}


def _inspect_changed_tests(data: DataConfig, text: TokenizersConfig, folder: Path, log: Log) -> None:
    """Write the report again if prepared text is used with other test sets."""
    content, tests = read_object(folder / PREPARED, PREPARE_HINT), _test_fingerprints(data, text)
    if content.get("tests") != tests:
        report, hashes = DataReport.load(folder), load_hashes(folder)
        if report is not None and hashes is not None:
            _report(report.train, report.dev, hashes, data.test, folder, log)
        write_json(folder / PREPARED, {**content, "tests": tests})


def _report(
    train: CorpusReport, dev: CorpusReport, hashes: Hashes, tests: Mapping[str, CorpusConfig], folder: Path, log: Log
) -> None:
    """Inspect the test sets, save the statistics of all text, and log warnings about it."""
    tokenizers = load_tokenizers(folder)
    inspected = {name: inspect_pairs(read_pairs(one), *tokenizers, hashes) for name, one in tests.items()}
    report = DataReport(train, dev, inspected)
    log(f"statistics of the text: {report.save(folder)}")
    for warning in report.warnings():
        log(f"warning: {warning}")


def _with_earlier(report: CorpusReport, run: Path | None) -> CorpusReport:
    """The report of training text, with the characters of earlier text if the tokenizers are those of a run."""
    if run is None:
        return report
    earlier = DataReport.load(run)
    return report.with_earlier(earlier.train if earlier else None)


def load_prepared(folder: Path) -> PreparedData:
    """The output of `prepare`, without reading the original text.

    Raises: RunError when a file is missing or corrupt.
    """
    content = read_object(folder / PREPARED, "prepare the data first")
    check_format(content, folder / PREPARED, PREPARE_HINT)
    prepared = validate(_COUNTS, content, folder / PREPARED, "has no counts of the training corpora", PREPARE_HINT)
    parts, num_references = prepared["corpora"], prepared.get("references", 1)
    tokenizers = load_tokenizers(folder)
    train, dev = (_load_corpus(folder / name, tokenizers) for name in (TRAIN, DEV))
    if sum(part.report.num_kept for part in parts) != len(train):
        raise RunError(
            f"{folder / PREPARED}: its corpora do not add up to the pairs of {folder / TRAIN}; {PREPARE_HINT}"
        )
    streams = [list(read_text_pairs(path)) for path in _dev_text_paths(folder, num_references)]
    return PreparedData(
        *tokenizers,
        TrainingSet(*tokenizers, train, text_path(folder / TRAIN), parts),
        dev,
        tuple(source for source, _ in streams[0]),
        tuple(tuple(target for _, target in stream) for stream in streams),
    )


def _load_corpus(folder: Path, tokenizers: TokenizerPair) -> Corpus:
    corpus = Corpus.load(folder)
    if len(corpus.ids) and corpus.ids.max() >= _vocab_size(tokenizers):
        raise RunError(f"{folder}: the prepared ids are not of these tokenizers; {PREPARE_HINT}")
    return corpus


def _vocab_size(tokenizers: TokenizerPair) -> int:
    return max(len(tokenizer.vocabulary) for tokenizer in tokenizers)


def _is_prepared(folder: Path, data: DataConfig, text: TokenizersConfig, *, keep_tokenizers: bool) -> bool:
    if text.run_dir is not None and not keep_tokenizers and not text.run_dir.is_dir():
        needs = "`tokenizer.run_dir` needs it, also to compare the vocabularies of text that is prepared already"
        raise DataError(f"{text.run_dir}: there is no such run; {needs}")
    if not (folder / PREPARED).is_file():
        return False
    if text.run_dir is not None and not keep_tokenizers:
        pairs = zip(load_tokenizers(folder), load_tokenizers(text.run_dir), strict=True)
        if any(one.vocabulary != other.vocabulary for one, other in pairs):
            return False
    content = read_object(folder / PREPARED, PREPARE_HINT)
    has_tokenizers = keep_tokenizers or not content.get("kept_tokenizers")  # else they are of another text
    is_same = content.get("format") == FORMAT_VERSION and content.get("fingerprint") == _fingerprint(data, text)
    return is_same and has_tokenizers


def _fingerprint(data: DataConfig, text: TokenizersConfig) -> str:
    return fingerprint((*data.train, data.dev), data.filters, text)


def _count_pairs(corpus: CorpusConfig) -> int:
    """The number of pairs. Raises DataError for text that cannot be used: all of it is read."""
    if isinstance(corpus, PlainTextConfig) and corpus.references:
        return len(read_references(corpus, [target for _, target in read_pairs(corpus)])[0])
    return sum(1 for _ in read_pairs(corpus))


def _encode(corpus: CorpusConfig, tokenizers: TokenizerPair, name: str, size: int) -> Iterator[EncodedPair]:
    source, target = tokenizers
    pairs = tqdm(read_pairs_with_alignments(corpus), f"encode {name}", size, unit=" pairs", disable=None)
    return (EncodedPair(pair, (source.encode(pair[0]), target.encode(pair[1])), links) for pair, links in pairs)


def _save(
    pairs: Iterable[EncodedPair], tokenizers: TokenizerPair, folder: Path, *, with_alignments: bool = False
) -> None:
    """Write the text and ids of pairs, and their alignments: empty ones for pairs that have none."""
    ids = CorpusBuilder(_vocab_size(tokenizers))
    word_ids, links = CorpusBuilder(), CorpusBuilder()
    with text_pair_writer(text_path(folder)) as write:
        for pair in pairs:
            write(pair.text)
            ids.add(pair.ids)
            if with_alignments:
                sure = sorted(pair.alignment.sure) if pair.alignment else []
                word_ids.add(pair_word_ids(tokenizers, pair.text, pair.ids) if sure else ([], []))
                links.add(([link[0] for link in sure], [link[1] for link in sure]))
        ids.build(CorpusAlignments(word_ids.build(), links.build()) if with_alignments else None).save(folder)


def _save_references(dev: CorpusConfig, folder: Path) -> int:
    """Write the dev set with each further reference as target; returns the number of references."""
    pairs = list(read_pairs(dev))
    streams = read_references(dev, [target for _, target in pairs])
    for path, stream in islice(zip(_dev_text_paths(folder, len(streams)), streams, strict=True), 1, None):
        with text_pair_writer(path) as write:
            for (source, _), reference in zip(pairs, stream, strict=True):
                write((source, reference))
    return len(streams)


def text_path(folder: Path) -> Path:
    """The file with the text of a prepared corpus."""
    return folder.with_suffix(".jsonl")


def _dev_text_paths(folder: Path, num_references: int) -> Iterator[Path]:
    return (text_path(folder / (f"{DEV}-{n}" if n else DEV)) for n in range(num_references))
