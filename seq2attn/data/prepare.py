"""Preparation of text, made once: trained tokenizers and memory-mapped token ids, in the files of `prepared_data`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from seq2attn.data.corpus import Corpus, CorpusAlignments, CorpusBuilder, read_text_pairs, text_pair_writer
from seq2attn.data.data_config import DataConfig
from seq2attn.data.filter import EncodedPair, PairFilter
from seq2attn.data.fingerprint import fingerprint
from seq2attn.data.inspection import CorpusInspector, DataReport, Hashes, inspect_pairs, load_hashes, save_hashes
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
from seq2attn.io.terminal import Log, plural
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig, load_tokenizer, load_tokenizers


def prepare(
    data: DataConfig, text: TokenizersConfig, folder: Path, log: Log, *, keep_tokenizers: bool = False
) -> PreparedData:
    """Train the tokenizers, or copy those of a run, and encode the text into `folder`, unless it is prepared already.

    `keep_tokenizers` uses those in `folder`, for weights that were trained with them. Raises DataError for text
    that cannot be used, before anything is trained; RunError for a corrupt `folder`.
    """
    for corpus in (*data.train, data.dev, *data.test.values()):
        check_regular(corpus)
        if corpus.source == corpus.target:
            log(f"warning: {corpus.files[0]}: source and target are the same")
    if keep_tokenizers:
        check_tags(data, load_tokenizer(folder / "source"), folder)
    preparation = _Preparation(data, text, folder, log, keep_tokenizers)
    test_sizes = {name: _count_pairs(corpus) for name, corpus in data.test.items()}
    if preparation.is_done():
        log(f"{folder}: already prepared from this text")
        preparation.inspect_changed_tests()
    else:
        preparation.run(test_sizes)
    return load_prepared(folder)


def is_prepared(data: DataConfig, text: TokenizersConfig, folder: Path, *, keep_tokenizers: bool) -> bool:
    """True if `prepare` has nothing to do. Raises DataError for text that is not there."""
    return _Preparation(data, text, folder, lambda line: None, keep_tokenizers).is_done()


@dataclass(frozen=True)
class _Preparation:
    """Preparation of text in a folder."""

    data: DataConfig
    text: TokenizersConfig
    folder: Path
    log: Log
    keep_tokenizers: bool

    def is_done(self) -> bool:
        """True if the folder has this text, of these tokenizers."""
        run = None if self.keep_tokenizers else self.text.run_dir
        if run is not None and not run.is_dir():
            needs = "`tokenizer.run_dir` needs it, also to compare the vocabularies of text that is prepared already"
            raise DataError(f"{run}: there is no such run; {needs}")
        if not (self.folder / PREPARED).is_file():
            return False
        if run is not None and load_tokenizers(self.folder).vocabularies != load_tokenizers(run).vocabularies:
            return False
        content = read_object(self.folder / PREPARED, PREPARE_HINT)
        if content.get("kept_tokenizers") and not self.keep_tokenizers:  # they are of another text
            return False
        return content.get("format") == FORMAT_VERSION and content.get("fingerprint") == self.fingerprint

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the training text and the dev set."""
        return self._fingerprint(*self.data.train, self.data.dev)

    def _fingerprint(self, *corpora: CorpusConfig) -> str:
        return fingerprint(corpora, self.data.filters, self.text)

    def _test_fingerprints(self) -> dict[str, str]:
        return {name: self._fingerprint(corpus) for name, corpus in self.data.test.items()}

    def inspect_changed_tests(self) -> None:
        """Write the report again if prepared text is used with other test sets."""
        content, tests = read_object(self.folder / PREPARED, PREPARE_HINT), self._test_fingerprints()
        if content.get("tests") != tests:
            report, hashes = DataReport.load(self.folder), load_hashes(self.folder)
            if report is not None and hashes is not None:
                self._report(report, hashes, load_tokenizers(self.folder))
            write_json(self.folder / PREPARED, {**content, "tests": tests})

    def run(self, test_sizes: Mapping[str, int]) -> None:
        """Write all files; `test_sizes` are the pairs of each test set."""
        data, several = self.data, len(self.data.train) > 1
        train = {f"train {number}" if several else "train": corpus for number, corpus in enumerate(data.train, 1)}
        sizes = {name: _count_pairs(corpus) for name, corpus in {**train, "dev": data.dev}.items()}
        all_sizes = (*sizes.items(), *test_sizes.items())
        self.log(", ".join(f"{name}: {plural(size, 'pair')}" for name, size in all_sizes))
        tokenizers = self._begin()
        inspector, pair_filter, parts = CorpusInspector(*tokenizers), PairFilter(data.filters), list[TrainingPart]()

        def training_pairs() -> Iterator[EncodedPair]:
            for name, corpus in train.items():
                pairs = _encode(corpus, tokenizers, name, sizes[name])
                yield from pair_filter.filter(inspector.inspect(pairs))
                parts.append(TrainingPart.of_corpus(corpus, pair_filter.report))

        _save(training_pairs(), tokenizers, self.folder / TRAIN, with_alignments=data.has_alignments)
        dev = self._save_dev(tokenizers, sizes["dev"])
        for name, part in zip(train, parts, strict=True):
            self.log(part.describe(name, parts))
        report, hashes = inspector.report(), pair_filter.hashes
        save_hashes(hashes, self.folder)
        if run := self.folder if self.keep_tokenizers else self.text.run_dir:
            report = report.with_earlier(run, self.fingerprint)
        self._report(DataReport(report, dev.report(hashes), {}), hashes, tokenizers)
        content = {
            "format": FORMAT_VERSION,
            "fingerprint": self.fingerprint,
            "tests": self._test_fingerprints(),
            "corpora": [asdict(part) for part in parts],
            "references": self._save_references(),
            "kept_tokenizers": self.keep_tokenizers,
        }
        write_json(self.folder / PREPARED, content)

    def _begin(self) -> TokenizerPair:
        """Make the folder a run directory with tokenizers, whose text is not prepared."""
        write_manifest(self.folder)  # first: a folder with `source` or `data` and no manifest is not of a run
        remove_temporary((self.folder / PREPARED).parent)
        (self.folder / PREPARED).unlink(missing_ok=True)
        if not self.keep_tokenizers:
            make_tokenizers(self.data, self.text, self.log).save(self.folder)
        return load_tokenizers(self.folder)

    def _save_dev(self, tokenizers: TokenizerPair, size: int) -> CorpusInspector:
        """Write the dev set; logs its longest pair if that is too long for training."""
        dev, folder, inspector = self.data.dev, self.folder / DEV, CorpusInspector(*tokenizers)
        _save(inspector.inspect(_encode(dev, tokenizers, "dev", size)), tokenizers, folder)
        if warning := self.data.filters.describe_long(Corpus.load(folder).lengths, dev.files[0]):
            self.log(f"warning: dev: {warning}; validation computes their loss in parts")
        return inspector

    def _save_references(self) -> int:
        """Write the dev set with each further reference as target; returns the number of references."""
        pairs = list(read_text_pairs(text_path(self.folder / DEV)))
        streams = read_references(self.data.dev, [target for _, target in pairs])
        paths = dev_text_paths(self.folder, len(streams))
        for path, stream in islice(zip(paths, streams, strict=True), 1, None):
            with text_pair_writer(path) as write:
                for (source, _), reference in zip(pairs, stream, strict=True):
                    write((source, reference))
        return len(streams)

    def _report(self, report: DataReport, hashes: Hashes, tokenizers: TokenizerPair) -> None:
        """Inspect the test sets, save the statistics of all text, and log warnings about it."""
        inspected = {
            name: inspect_pairs((pair.text for pair in read_pairs(corpus)), *tokenizers, hashes)
            for name, corpus in self.data.test.items()
        }
        report = replace(report, tests=inspected, fingerprint=self.fingerprint)
        self.log(f"statistics of the text: {report.save(self.folder)}")
        for warning in report.warnings():
            self.log(f"warning: {warning}")


def _count_pairs(corpus: CorpusConfig) -> int:
    """The number of pairs. Raises DataError for text that cannot be used: all of it is read."""
    if isinstance(corpus, PlainTextConfig) and corpus.references:
        return len(read_references(corpus, [target for (_, target), _ in read_pairs(corpus)])[0])
    return sum(1 for _ in read_pairs(corpus))


def _encode(corpus: CorpusConfig, tokenizers: TokenizerPair, name: str, size: int) -> Iterator[EncodedPair]:
    pairs = tqdm(read_pairs(corpus), f"encode {name}", size, unit=" pairs", disable=None)
    return (EncodedPair(text, tokenizers.encode(text), links) for text, links in pairs)


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
