"""The work of `seq2attn init`: a config for two text files, with the model that reaches most within a time."""

import json
import math
import os.path
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from textwrap import indent
from typing import Any

import torch
import yaml
from tqdm import tqdm

from seq2attn.config.duration import Duration
from seq2attn.config.load import load_json
from seq2attn.data.filter import FiltersConfig
from seq2attn.data.inspection import MAX_IN_TRAIN_SHARE, MIN_PAIRS
from seq2attn.data.prepared_data import PreparedData
from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.io.files import write_bytes
from seq2attn.io.tables import format_table
from seq2attn.io.terminal import Log, plural
from seq2attn.models.build import build_on_meta_device, count_parameters
from seq2attn.nn.device import resolve_device
from seq2attn.nn.precision import has_bfloat16_products
from seq2attn.options import InitOptions
from seq2attn.starter.candidates import REPEATS, Candidate, Candidates, Estimate
from seq2attn.starter.parallel_text import ParallelText, prepare_sample, split_rows, write_split
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.plan import BUSY, Speed
from seq2attn.training.resolve import auto_batch_tokens
from seq2attn.training.speed import measure_speed

TRIAL_SECONDS = 20.0
MAX_TRIED = 4
BFLOAT16_SPEED = 1.4
"""Speed of training by that in float32, on a processor with instructions for bfloat16 (docs/speedrun.md)."""
DEFAULT_HOURS = {"cpu": 1.0, "cuda": 8.0}
MAX_DEV_PAIRS = 500
"""Number of dev pairs that are validated on, of a larger dev set."""
FILTERS = FiltersConfig(max_length=128, max_length_ratio=3)


@dataclass(frozen=True)
class Starter:
    """A text, with the device and the time of a training on it."""

    options: InitOptions
    candidates: Candidates
    train: ParallelText
    dev: ParallelText
    prepared: PreparedData  # of their samples
    device: torch.device
    duration: Duration

    @property
    def precision(self) -> str:
        """bfloat16 for a processor that multiplies it faster."""
        return "bfloat16" if self.device.type == "cpu" and has_bfloat16_products() else "auto"

    @property
    def tokens_per_epoch(self) -> float:
        """Target tokens of the text, with EOS."""
        sample = self.prepared.train
        return float((sample.corpus.lengths[:, 1] + 1).sum()) / sample.parts[0].report.num_read * self.train.num_pairs

    def experiment(self, candidate: Candidate) -> ExperimentConfig:
        """The config of a candidate."""
        return load_json(yaml.safe_load(self.text(candidate).encode()), self.options.output, ExperimentConfig)

    def text(self, candidate: Candidate, comments: Sequence[str] = ()) -> str:
        """The YAML of the config of a candidate."""
        run_dir = self.options.run_dir or Path("runs", self.options.output.stem)
        template = files("seq2attn.starter").joinpath("template.yaml").read_text(encoding="utf-8")
        style: dict[str, Any] = {"default_flow_style": None, "sort_keys": False, "allow_unicode": True, "width": 1000}
        sections = {key: yaml.safe_dump(value, **style) for key, value in self._sections(candidate).items()}
        return template.format(
            **{key: indent(text.rstrip(), "  ") for key, text in sections.items()},
            starter=self,
            candidate=candidate,
            comments=indent("\n".join(comments), "# "),
            run_dir=json.dumps(str(run_dir), ensure_ascii=False),
        )

    def _sections(self, candidate: Candidate) -> dict[str, dict[str, Any]]:
        paths = [path.expanduser() for path in (*self.train.files, *self.dev.files)]
        folder, model, training = self.options.output.parent, dict(candidate.model), dict(candidate.training)
        names = [str(path) if path.is_absolute() else os.path.relpath(path, folder) for path in paths]
        train, dev = ({"kind": "plain", "source": names[row], "target": names[row + 1]} for row in (0, 2))
        if model["embeddings"].get("tie") == "all" and not self.train.has_one_script:
            model["embeddings"] = {**model["embeddings"], "tie": "output"}
        batch, optimizer = training["batch"], training["optimizer"]
        share = len(self.train.sample) / self.train.num_pairs  # the sample stands for the whole text
        tokens = min(batch["tokens"], 2 * auto_batch_tokens(self.prepared.train.corpus.lengths, share))
        lr = float(f"{optimizer['lr'] * math.sqrt(tokens / batch['tokens']):.2g}")
        training |= {"batch": {**batch, "tokens": tokens}, "optimizer": {**optimizer, "lr": lr}}
        if self.dev.num_pairs > MAX_DEV_PAIRS:
            training["validation"] = {"max_sentences": MAX_DEV_PAIRS}
        data = {"train": train, "dev": dev, "filters": FILTERS.model_dump(exclude_unset=True)}
        tokenizers = self.candidates.tokenizers(self.train)
        return {"data": data, "tokenizer": tokenizers, "model": model, "training": training}

    def by_table(self) -> list[Estimate]:
        """All candidates at the speed of the table, the best first."""
        scale = math.sqrt(torch.get_num_threads() / 2) if self.device.type == "cpu" else 1.0
        scale *= BFLOAT16_SPEED if self.precision == "bfloat16" else 1.0
        speeds = {row.shape: Speed(0, scale * row.speed[self.device.type], 0) for row in self.candidates.rows}
        return self.candidates.estimates(speeds, self.tokens_per_epoch, self.duration.seconds)

    def measured(self, seconds: float) -> list[Estimate]:
        """Those of the first shapes of the table at the speed that is measured in some seconds, the best first."""
        alone, time = DistributedContext(0, 1, self.device), seconds / MAX_TRIED
        rows = {estimate.candidate.shape: estimate.candidate for estimate in self.by_table()}  # the last of each shape
        tried = tqdm([*rows.values()][:MAX_TRIED], "try models", unit=" models", disable=None)
        speeds = {row.shape: measure_speed(self.experiment(row), self.prepared, alone, time) for row in tried}
        return self.candidates.estimates(speeds, self.tokens_per_epoch, self.duration.seconds)

    def table(self, estimates: Sequence[Estimate]) -> str:
        """The estimates as rows."""
        rows = [("model", "parameters", "target tokens/s", "epochs", "BLEU*")]
        vocab_sizes = [len(vocabulary) for vocabulary in self.prepared.tokenizers.vocabularies]
        for one in estimates:
            model = build_on_meta_device(self.experiment(one.candidate).model, *vocab_sizes)
            size, speed = f"{count_parameters(model):,}", f"{one.speed.target_tokens_per_second:,.0f}"
            bleu = "-" if one.bleu is None else f"{one.bleu:.0f}"
            rows.append((one.candidate.name, size, speed, f"{one.epochs:,.1f}", bleu))
        return format_table(rows)

    def reasons(self, estimates: Sequence[Estimate]) -> Iterator[str]:
        """The table of the estimates, the best first, and why that is chosen, and the precision."""
        best = estimates[0]
        yield self.table(estimates)
        corpus, why = self.candidates.corpus, "the best BLEU to expect"
        yield f"* BLEU after as many tokens of {corpus}: to compare models, not an estimate for your text"
        if best.candidate.from_tokens:
            why = "the usual choice for this amount of text and time"
        elif best.bleu is None:
            why = "the fastest: none was measured with so little"
        yield f"chosen: {best.candidate.name}, {why}"
        if self.precision == "bfloat16":
            yield "bfloat16: this processor has instructions for it; without them, remove the key `precision`"
        if best.epochs < 1:
            hours = self.tokens_per_epoch / best.speed.target_tokens_per_second / 3600
            needed = f"{plural(hours, 'hour', ',.2g')} with {best.candidate.shape}"
            yield f"warning: the time is too short for one epoch ({needed}): give more time, or less text"
        if best.epochs > 5 * REPEATS:  # more are worth less than a hundredth
            yield f"warning: the text is so small that it is seen {best.epochs:,.0f} times: give more text or less time"
        if any(estimate.speed.is_busy for estimate in estimates):
            yield BUSY


def init(options: InitOptions, log: Log, trial_seconds: float = TRIAL_SECONDS) -> Estimate:
    """Write a config with the model that suits a text, the machine and the time; the reasons go to `log`, too.

    Raises DataError for text that cannot be used, UserError for a file that exists or has no name.
    """
    split, text_files, rows = _split_folder(options), (options.source, options.target), None
    device = resolve_device(options.device)
    if options.dev_source is not None and options.dev_target is not None:
        dev = ParallelText.read((options.dev_source, options.dev_target))
        text = train = ParallelText.read(text_files, others=dev.sample)
    else:
        text, rows = ParallelText.read(text_files), split_rows(text_files, options.dev_size or 0)
        train, dev = text.split(rows, split)
    log(f"{plural(train.num_pairs, 'training pair')}, {dev.num_pairs:,} in the dev set")
    if train.num_found > max(MIN_PAIRS, MAX_IN_TRAIN_SHARE * len(dev.sample)):
        found = f"{train.num_found:,} of {len(dev.sample):,} pairs are training pairs, so that its scores are too high"
        log(f"warning: dev: {found}; ``dev_size=500`` splits others off the text")
    candidates = Candidates.load()
    tokenizers = TokenizersConfig(**candidates.tokenizers(train))
    prepared = prepare_sample(tokenizers, FILTERS, text, dev.sample[:MAX_DEV_PAIRS])
    duration = Duration(options.hours or DEFAULT_HOURS[device.type], "hours")
    starter = Starter(options, candidates, train, dev, prepared, device, duration)
    if options.trial:
        log(f"trying models on {device} for {plural(trial_seconds, 'second', 'g')}")
    estimates = starter.measured(trial_seconds) if options.trial else starter.by_table()
    how = f"{duration} on {device}, {'measured' if options.trial else 'by a table of speeds'}:"
    comments = [how, *starter.reasons(estimates)]
    log("\n".join(comments))
    if rows is not None:
        write_split(text_files, rows, split)
        log(f"{split}: training text and dev set; {options.source} and {options.target} are unchanged")
    write_bytes(options.output, starter.text(estimates[0].candidate, comments).encode())
    return estimates[0]


def _split_folder(options: InitOptions) -> Path:
    """The folder for a dev set that is split off, and the rest of the text.

    Raises UserError for a config or a split that exists, and for a config without a name.
    """
    output = options.output
    if not output.name:
        raise UserError(f"{output}: is a folder; give the file of the config as ``output``, such as ``output=my.yaml``")
    split = output.with_name(f"{output.stem}-split")
    for path in (output, split) if options.dev_size else (output,):
        if path.exists():
            raise UserError(f"{path}: exists already and is not overwritten; give another ``output``")
    return split
