"""Preparation of text, made once: trained tokenizers and memory-mapped token ids, in the files of `prepared_data`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from tqdm import tqdm

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
from seq2attn.data.prepared_data import (
    DEV,
    PREPARE_HINT,
    PREPARED,
    TRAIN,
    PreparedData,
    dev_text_paths,
    load_prepared,
    text_path,
)
from seq2attn.data.readers import CorpusConfig, PlainTextConfig, check_regular, read_pairs, read_references
from seq2attn.data.train_tokenizers import check_tags, make_tokenizers
from seq2attn.data.training_set import TrainingPart
from seq2attn.data.word_alignment import pair_word_ids
from seq2attn.errors import DataError
from seq2attn.io.files import FORMAT_VERSION, read_object, remove_temporary, write_json, write_manifest
from seq2attn.io.terminal import Log
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig, load_tokenizer, load_tokenizers


def prepare(
    data: DataConfig, text: TokenizersConfig, folder: Path, log: Log, *, keep_tokenizers: bool = False
) -> PreparedData:
    """Train the tokenizers, or copy those of a run, and encode the text into `folder`, unless it is prepared already.

    `keep_tokenizers` uses those in `folder`, for weights that were trained with them. Raises DataError for text
    that cannot be used, before anything is trained; RunError for a corrupt `folder`.
    """
    _check_corpora(data, log)
    if keep_tokenizers:
        check_tags(data, load_tokenizer(folder / "source"), folder)
    test_sizes = [(name, _count_pairs(corpus)) for name, corpus in data.test.items()]
    if _is_prepared(folder, data, text, keep_tokenizers=keep_tokenizers):
        log(f"{folder}: already prepared from this text")
        _inspect_changed_tests(data, text, folder, log)
        return load_prepared(folder)
    names = [f"train {number}" for number in range(1, len(data.train) + 1)] if len(data.train) > 1 else ["train"]
    sizes = dict(zip([*names, "dev"], map(_count_pairs, (*data.train, data.dev)), strict=True))
    log(", ".join(f"{name}: {size:,} pairs" for name, size in (*sizes.items(), *test_sizes)))
    tokenizers = _begin(data, text, folder, log, keep_tokenizers=keep_tokenizers)
    train, hashes, parts = _save_train(data, tokenizers, sizes, folder)
    dev = _save_dev(data, tokenizers, sizes["dev"], folder, log)
    for name, part in zip(names, parts, strict=True):
        log(part.describe(name, parts))
    save_hashes(hashes, folder)
    if run := folder if keep_tokenizers else text.run_dir:
        train = train.with_earlier(run)
    _report(train, dev.report(hashes), hashes, data.test, folder, log)
    content = {
        "format": FORMAT_VERSION,
        "fingerprint": _fingerprint(data, text),
        "tests": _test_fingerprints(data, text),
        "corpora": [asdict(part) for part in parts],
        "references": _save_references(data.dev, folder),
        "kept_tokenizers": keep_tokenizers,
    }
    write_json(folder / PREPARED, content)
    return load_prepared(folder)


def _save_train(
    data: DataConfig, tokenizers: TokenizerPair, sizes: Mapping[str, int], folder: Path
) -> tuple[CorpusReport, Hashes, list[TrainingPart]]:
    """Write the filtered training text; `sizes` are the pairs of each corpus by its name."""
    inspector, pair_filter = CorpusInspector(*tokenizers), PairFilter(data.filters)
    parts = list[TrainingPart]()

    def training_pairs() -> Iterator[EncodedPair]:
        for corpus, name in zip(data.train, sizes, strict=False):  # then comes the dev set
            yield from pair_filter.filter(inspector.inspect(_encode(corpus, tokenizers, name, sizes[name])))
            parts.append(TrainingPart.of_corpus(corpus, pair_filter.report))

    _save(training_pairs(), tokenizers, folder / TRAIN, with_alignments=data.has_alignments)
    return inspector.report(), pair_filter.hashes, parts


def _save_dev(data: DataConfig, tokenizers: TokenizerPair, size: int, folder: Path, log: Log) -> CorpusInspector:
    """Write the dev set; logs its longest pair if that is too long for training."""
    inspector = CorpusInspector(*tokenizers)
    _save(inspector.inspect(_encode(data.dev, tokenizers, "dev", size)), tokenizers, folder / DEV)
    if warning := data.filters.describe_long(Corpus.load(folder / DEV).lengths, data.dev.files[0]):
        log(f"warning: dev: {warning}; validation takes them in parts")
    return inspector


def _begin(data: DataConfig, text: TokenizersConfig, folder: Path, log: Log, *, keep_tokenizers: bool) -> TokenizerPair:
    """Make the folder a run directory with tokenizers, whose text is not prepared."""
    write_manifest(folder)  # first: a folder with `source` or `data` and no manifest is not of a run
    remove_temporary((folder / PREPARED).parent)
    (folder / PREPARED).unlink(missing_ok=True)
    if not keep_tokenizers:
        make_tokenizers(data, text, folder, log)
    return load_tokenizers(folder)


def _check_corpora(data: DataConfig, log: Log) -> None:
    """Raises DataError for a file that is not regular; logs a warning for a source that is also the target."""
    for corpus in (*data.train, data.dev, *data.test.values()):
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
    inspected = {
        name: inspect_pairs((pair.text for pair in read_pairs(corpus)), *tokenizers, hashes)
        for name, corpus in tests.items()
    }
    report = DataReport(train, dev, inspected)
    log(f"statistics of the text: {report.save(folder)}")
    for warning in report.warnings():
        log(f"warning: {warning}")


def _is_prepared(folder: Path, data: DataConfig, text: TokenizersConfig, *, keep_tokenizers: bool) -> bool:
    run = None if keep_tokenizers else text.run_dir
    if run is not None and not run.is_dir():
        needs = "`tokenizer.run_dir` needs it, also to compare the vocabularies of text that is prepared already"
        raise DataError(f"{run}: there is no such run; {needs}")
    if not (folder / PREPARED).is_file():
        return False
    if run is not None and load_tokenizers(folder).vocabularies != load_tokenizers(run).vocabularies:
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
        return len(read_references(corpus, [target for (_, target), _ in read_pairs(corpus)])[0])
    return sum(1 for _ in read_pairs(corpus))


def _encode(corpus: CorpusConfig, tokenizers: TokenizerPair, name: str, size: int) -> Iterator[EncodedPair]:
    source, target = tokenizers
    pairs = tqdm(read_pairs(corpus), f"encode {name}", size, unit=" pairs", disable=None)
    return (EncodedPair(text, (source.encode(text[0]), target.encode(text[1])), links) for text, links in pairs)


def _save(
    pairs: Iterable[EncodedPair], tokenizers: TokenizerPair, folder: Path, *, with_alignments: bool = False
) -> None:
    """Write the text and ids of pairs, and their alignments: empty ones for pairs that have none."""
    ids = CorpusBuilder(tokenizers.max_vocab_size)
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
    pairs = list(read_text_pairs(text_path(folder / DEV)))
    streams = read_references(dev, [target for _, target in pairs])
    for path, stream in islice(zip(dev_text_paths(folder, len(streams)), streams, strict=True), 1, None):
        with text_pair_writer(path) as write:
            for (source, _), reference in zip(pairs, stream, strict=True):
                write((source, reference))
    return len(streams)
