"""The work of `seq2attn init`: a config for two text files, with the model that reaches most within a time."""

from __future__ import annotations

import json
import math
import os.path
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from textwrap import indent
from typing import Any

import torch
import yaml

from seq2attn.config.duration import Duration
from seq2attn.config.load import load_json
from seq2attn.data.inspection import MAX_IN_TRAIN_SHARE, MIN_PAIRS
from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.io.files import write_bytes
from seq2attn.io.terminal import Log
from seq2attn.nn.device import resolve_device
from seq2attn.nn.precision import has_bfloat16_products
from seq2attn.options import InitOptions
from seq2attn.starter.candidates import REPEATS, Candidate, Candidates, CandidateTrial, Estimate, prepare_sample
from seq2attn.starter.parallel_text import ParallelText, split_rows, write_split
from seq2attn.training.resolve import auto_batch_tokens

TRIAL_SECONDS = 20.0
DEFAULT_HOURS = {"cpu": 1.0, "cuda": 8.0}
MAX_DEV_PAIRS = 500
"""Number of dev pairs that are validated on, of a larger dev set."""
ENTRIES_PER_CHARACTER, OTHER_ENTRIES = 2, 500
"""Minimum size of a vocabulary: each character of the text is an entry, and subwords need as many again."""


@dataclass(frozen=True)
class Starter:
    """Text, time and device, which the configs of all candidates have in common."""

    options: InitOptions
    train: ParallelText
    dev: ParallelText
    vocab_size: int
    duration: Duration
    device: torch.device
    max_batch_tokens: int = 2**31  # for enough updates in an epoch

    @property
    def precision(self) -> str | None:
        """bfloat16 for a processor that multiplies it faster; None for the default."""
        return "bfloat16" if self.device.type == "cpu" and has_bfloat16_products() else None

    def experiment(self, candidate: Candidate) -> ExperimentConfig:
        """The config of a candidate."""
        return load_json(yaml.safe_load(self.text(candidate).encode()), self.options.output, ExperimentConfig)

    def text(self, candidate: Candidate, comments: Sequence[str] = ()) -> str:
        """The YAML of the config of a candidate."""
        output, run_dir = self.options.output, self.options.run_dir or Path("runs", self.options.output.stem)
        template = files("seq2attn.starter").joinpath("template.yaml").read_text(encoding="utf-8")
        style: dict[str, Any] = {"default_flow_style": None, "sort_keys": False, "allow_unicode": True, "width": 1000}
        sections = {key: yaml.safe_dump(value, **style) for key, value in self._sections(candidate).items()}
        return template.format(
            **{key: indent(text.rstrip(), "  ") for key, text in sections.items()},
            pairs=self.train.num_pairs,
            name=output.name,
            comments=indent("\n".join(comments), "# "),
            run_dir=json.dumps(str(run_dir), ensure_ascii=False),
            about=candidate.about,
        )

    def _sections(self, candidate: Candidate) -> dict[str, dict[str, Any]]:
        paths = [path.expanduser() for path in (*self.train.files, *self.dev.files)]
        folder, model, training = self.options.output.parent, dict(candidate.model), dict(candidate.training)
        names = [str(path) if path.is_absolute() else os.path.relpath(path, folder) for path in paths]
        train, dev = ({"kind": "plain", "source": names[row], "target": names[row + 1]} for row in (0, 2))
        (source, target), tokenizers = self.train.characters, dict[str, Any]()
        sides = {"joint": source | target}
        if not self.train.has_one_script:
            sides = {"source": source, "target": target}
            if model["embeddings"].get("tie") == "all":
                model["embeddings"] = {**model["embeddings"], "tie": "output"}
        for side, characters in sides.items():
            size = max(self.vocab_size, ENTRIES_PER_CHARACTER * len(characters) + OTHER_ENTRIES)
            tokenizers[side] = {"kind": "bpe", "vocab_size": size}
        batch, optimizer = training["batch"], training["optimizer"]
        tokens = min(batch["tokens"], self.max_batch_tokens)
        lr = float(f"{optimizer['lr'] * math.sqrt(tokens / batch['tokens']):.2g}")
        training |= {"batch": {**batch, "tokens": tokens}, "optimizer": {**optimizer, "lr": lr}}
        if self.dev.num_pairs > MAX_DEV_PAIRS:
            training["validation"] = {"max_sentences": MAX_DEV_PAIRS}
        if self.options.device != "auto":
            training["device"] = self.options.device
        if self.precision is not None:
            training["precision"] = self.precision
        return {
            "data": {"train": train, "dev": dev, "filters": {"max_length": 128, "max_length_ratio": 3}},
            "tokenizer": tokenizers,
            "model": model,
            "training": {"max_duration": [str(self.duration)], "lr_schedule": {"kind": "cosine"}, **training},
        }


def init(options: InitOptions, log: Log, trial_seconds: float = TRIAL_SECONDS) -> Estimate:
    """Write a config with the model that suits a text, the machine and the time; the reasons go to `log`, too.

    Raises DataError for text that cannot be used, UserError for a file that exists or has no name.
    """
    split, text_files, rows = _split_folder(options), (options.source, options.target), None
    device = resolve_device(options.device)
    if options.dev_source is not None and options.dev_target is not None:
        dev = ParallelText.read((options.dev_source, options.dev_target))
        train = ParallelText.read(text_files, others=dev.sample)
    else:
        rows = split_rows(text_files, options.dev_size or 0)
        train, dev = ParallelText.read(text_files).split(rows, split)
    log(f"{train.num_pairs:,} training pairs, {dev.num_pairs:,} in the dev set")
    if train.num_found > max(MIN_PAIRS, MAX_IN_TRAIN_SHARE * len(dev.sample)):
        found = f"{train.num_found:,} of {len(dev.sample):,} pairs are training pairs, so that its scores are too high"
        log(f"warning: dev: {found}; ``dev_size=500`` splits others off the text")
    candidates, duration = Candidates.load(), Duration(options.hours or DEFAULT_HOURS[device.type], "hours")
    vocab_size = next(size for limit, size in candidates.vocabulary.items() if train.num_pairs <= limit)
    starter = Starter(options, train, dev, vocab_size, duration, device)
    prepared = prepare_sample(starter.experiment(candidates.rows[0]), train.sample, dev.sample[:MAX_DEV_PAIRS])
    share = len(train.sample) / train.num_pairs  # the sample stands for the whole text
    starter = replace(starter, max_batch_tokens=2 * auto_batch_tokens(prepared.train.corpus.lengths, share))
    trial = CandidateTrial(candidates, starter.experiment, prepared, train.num_pairs, device, duration.seconds)
    if options.trial:
        log(f"trying models on {device} for {trial_seconds:g} seconds")
    estimates = trial.measured(trial_seconds) if options.trial else trial.by_table()
    how = f"{duration} on {device}, {'measured' if options.trial else 'by a table of speeds'}:"
    comments = [how, *_reasons(trial, estimates, starter.precision)]
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


def _reasons(trial: CandidateTrial, estimates: Sequence[Estimate], precision: str | None) -> Iterator[str]:
    """The table of the estimates, the best first, and why that is chosen, and the precision."""
    best = estimates[0]
    yield trial.table(estimates)
    yield f"* BLEU after as many tokens of {trial.candidates.corpus}: to compare models, not an estimate for your text"
    usual = "the usual choice for this amount of text and time"
    reason = usual if best.candidate.from_tokens else "the best BLEU to expect"
    is_known = best.bleu or best.candidate.from_tokens
    yield f"chosen: {best.candidate.name}, {reason if is_known else 'the fastest: none was measured with so little'}"
    if precision is not None:
        yield f"{precision}: this processor has instructions for it; without them, remove the key `precision`"
    if best.epochs < 1:
        speeds = {one.candidate.shape: one.speed for one in estimates}
        shapes = dict.fromkeys([best.candidate.shape, max(speeds, key=lambda shape: speeds[shape])])
        hours = [f"{trial.tokens_per_epoch / speeds[shape] / 3600:,.2g} hours with {shape}" for shape in shapes]
        yield f"warning: the time is too short for one epoch ({' and '.join(hours)}): give more time, or less text"
    if best.epochs > 5 * REPEATS:  # more are worth less than a hundredth
        yield f"warning: the text is so small that it is seen {best.epochs:,.0f} times: give more text, or less time"
    if any(estimate.is_busy for estimate in estimates):
        yield "warning: the machine was busy with something else: alone, training is faster"
