"""Synthetic parallel corpora: a text and its translations by a trained model, filtered, to train other models on.

Sequence-level distillation (Kim & Rush 2016) translates the sources of a training corpus; back-translation
(Sennrich et al. 2016) translates text in the target language.

settings.json              hashes of model and text, and the options of the translations
translations/0.jsonl ...   all translations; each file is named after its first line, counted from 0
report.json                numbers of pairs kept, and left out by reason
source.txt target.txt      the corpus; source.txt is written last
scores.txt                 the log-probability per token of each translation, with EOS
"""

import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from seq2attn.data.filter import EncodedPair, FilterReport, FiltersConfig, PairFilter
from seq2attn.data.fingerprint import file_digest
from seq2attn.data.readers import PlainTextConfig, check_regular
from seq2attn.errors import DataError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.input_checks import InputChecker, not_finite_errors
from seq2attn.inference.load import load_translator
from seq2attn.inference.translation import Translation
from seq2attn.inference.translator import Translator
from seq2attn.io.files import (
    FORMAT_VERSION,
    TEMPORARY,
    parse_json,
    read_object,
    remove_temporary,
    validate,
    write_bytes,
    write_json,
)
from seq2attn.io.lock import LOCK_FILE, lock_directory
from seq2attn.io.outputs import text_output
from seq2attn.io.terminal import print_warnings
from seq2attn.io.text_lines import read_lines
from seq2attn.options import TranslationOptions
from seq2attn.tokenizers.base import add_tag
from seq2attn.tokenizers.vocabulary import SPECIAL_TOKENS, UNK

SECTIONS = ("search", "data.filters")
"""Sections of a run's config that a corpus depends on."""
CHUNK = 4096
"""Lines that are translated together: at most so many are translated again after a kill."""
SETTINGS, REPORT, TRANSLATIONS = "settings.json", "report.json", "translations"
SOURCE, TARGET, SCORES = "source.txt", "target.txt", "scores.txt"


@dataclass(frozen=True)
class SyntheticPair:
    """A line and its translation, not yet filtered."""

    source: str
    target: str
    log_prob: float  # of the translation, per token and with EOS
    truncated: bool  # the translation has the maximum length, or is of the beginning of the line alone
    unknown: bool  # the translation has unknown tokens


@dataclass(frozen=True)
class EncodedTranslation(EncodedPair):
    """A pair with the log-probability of its translation."""

    log_prob: float = 0.0


@dataclass(frozen=True)
class SyntheticReport(FilterReport):
    """Numbers of pairs that were kept, and left out by reason."""

    not_finite: int = 0
    truncated: int = 0
    unknown: int = 0
    unlikely: int = 0


@dataclass(frozen=True)
class SyntheticCorpus:
    """The folder of a synthetic corpus and the text that it is made of."""

    folder: Path
    text: Path
    side: Literal["source", "target"]  # of the text
    tag: str | None = None  # of the lines, for a model with tags

    def make(
        self,
        run: RunDirectory,
        experiment: ExperimentConfig,
        options: TranslationOptions,
        min_log_prob: float | None = None,
    ) -> SyntheticReport:
        """Translate the lines that `folder` has no translation of, and write the corpus of all that pass the filters.

        `experiment` is the config of the run with overrides of `SECTIONS`, as `load_experiment` gives it.

        Raises DataError for text that cannot be used, or if no pair is left; UserError for a folder with other
        translations, and for a run that was trained to write this text.
        """
        trained = run.load_config()  # whose filters limit the length of sources
        translator = load_translator(run, trained.model_copy(update={"search": experiment.search}), options)
        translator.source.check_tag(self.tag)
        check_regular(PlainTextConfig.of_files(self.text, self.text))
        self._check_direction(run, experiment)
        num_lines = sum(1 for _ in read_lines(self.text))
        settings = {
            "format": FORMAT_VERSION,
            "side": self.side,
            "model": [file_digest(one.weights_path) for one in (run, *map(RunDirectory, options.ensemble))],
            "text": file_digest(self.text),
            "search": translator.search.model_dump(mode="json"),
            "tag": self.tag,
            "language": options.to,
            "engine": translator.engine.description,
            "chunk": CHUNK,
        }
        with self._open(settings):
            self._translate(translator, num_lines)
            return self._filter(translator, experiment.data.filters, min_log_prob)

    def _check_direction(self, run: RunDirectory, experiment: ExperimentConfig) -> None:
        sources, targets = experiment.data.training_files
        if self.text.resolve() in {file.resolve() for file in targets - sources}:
            message = f"by `data.train`, {run.folder} was trained to translate into this text"
            raise UserError(f"{self.text}: {message}; give a run of the other direction")

    @contextmanager
    def _open(self, settings: dict[str, Any]) -> Iterator[None]:
        """Lock the folder. Raises UserError unless it is new or has translations with the same settings."""
        path, advice = self.folder / SETTINGS, "remove the folder, or give another one"
        names = [one.name for one in self.folder.iterdir()] if self.folder.exists() else []
        if SETTINGS not in names and any(name != LOCK_FILE and not TEMPORARY.search(name) for name in names):
            raise UserError(f"{self.folder}: has other files, and no {SETTINGS}; give another folder")
        with lock_directory(self.folder, advice="give another folder"):
            if not path.exists():
                write_json(path, settings)
            saved = read_object(path, advice)
            if others := [key for key, value in settings.items() if saved.get(key) != value]:
                raise UserError(f"{self.folder}: its translations were made with another {', '.join(others)}; {advice}")
            for folder in (self.folder, self.folder / TRANSLATIONS):
                remove_temporary(folder)
            yield

    def _translate(self, translator: Translator, num_lines: int) -> None:
        """Write the files of translations that are missing."""
        lines, checker = read_lines(self.text), InputChecker(translator.known_characters)
        with tqdm(total=num_lines, unit=" lines", disable=None) as bar:
            for start in range(0, num_lines, CHUNK):
                chunk, path = list(islice(lines, CHUNK)), self._translations(start)
                if path.exists():
                    checker.num_lines += len(chunk)
                else:
                    translations = translator.translate_iterable(
                        [add_tag(line, self.tag) for line in chunk], num_hypotheses=1, checker=checker
                    )
                    pairs = (self._pair(line, one) for line, one in zip(chunk, translations, strict=True))
                    records = [json.dumps(asdict(pair), ensure_ascii=False) + "\n" for pair in pairs]
                    write_bytes(path, "".join(records).encode())
                bar.update(len(chunk))
        print_warnings([*checker.warnings(), *not_finite_errors(checker.not_finite)])

    def _pair(self, line: str, translation: Translation) -> SyntheticPair:
        texts = (line, translation.text) if self.side == "source" else (translation.text, line)
        num_tokens = len(translation.tokens) + max(1, len(translation.segments))
        truncated = translation.truncated or len(translation.segments) == 1  # a line that is split has several
        log_prob = round(translation.log_prob / num_tokens, 4)
        return SyntheticPair(*texts, log_prob, truncated, SPECIAL_TOKENS[UNK] in translation.tokens)

    def _translations(self, start: int) -> Path:
        return self.folder / TRANSLATIONS / f"{start}.jsonl"

    def _filter(self, translator: Translator, filters: FiltersConfig, min_log_prob: float | None) -> SyntheticReport:
        """Write the pairs that pass all filters, and the report. Raises DataError if there are none."""
        if self.side == "target":  # the source of the run is the target of the corpus
            filters = filters.model_copy(update={"max_length": filters.max_lengths[::-1]})
        pair_filter, left_out = PairFilter(filters), Counter[str]()
        tokenizers = translator.tokenizers
        source, target = tokenizers if self.side == "source" else tokenizers[::-1]

        def encoded_pairs() -> Iterator[EncodedTranslation]:
            for pair in self._read_pairs():
                if not math.isfinite(pair.log_prob):
                    left_out["not_finite"] += 1
                elif pair.truncated:
                    left_out["truncated"] += 1
                elif pair.unknown:
                    left_out["unknown"] += 1
                elif min_log_prob is not None and not pair.log_prob >= min_log_prob:
                    left_out["unlikely"] += 1
                else:
                    ids = source.encode(pair.source), target.encode(pair.target)
                    yield EncodedTranslation((pair.source, pair.target), ids, log_prob=pair.log_prob)

        with ExitStack() as stack:
            files = [stack.enter_context(text_output(self.folder / name)) for name in (SOURCE, TARGET, SCORES)]
            for pair in pair_filter.filter(encoded_pairs()):
                for file, value in zip(files, (*pair.text, pair.log_prob), strict=True):
                    file.write(f"{value}\n")
            counts = asdict(pair_filter.report) | left_out
            report = SyntheticReport(**counts | {"num_read": counts["num_read"] + left_out.total()})
            if not report.num_kept:
                options = "`data.filters`" if min_log_prob is None else "``min_log_prob`` and `data.filters`"
                raise DataError(f"{self.text}: no pair is left: {report}; see {options}")
            (self.folder / SOURCE).unlink(missing_ok=True)  # the last of the files to be replaced
            write_json(self.folder / REPORT, asdict(report))
        return report

    def _read_pairs(self) -> Iterator[SyntheticPair]:
        """All lines and their translations. Raises RunError for a corrupt file."""
        for path in takewhile(Path.exists, map(self._translations, count(step=CHUNK))):
            for number, record in enumerate(read_lines(path), start=1):
                place, fix = f"{path}:{number}", "remove the file and start again"
                pair = parse_json(record, place, fix)
                yield validate(SyntheticPair, pair, place, "is not a pair with its log-probability", fix)
