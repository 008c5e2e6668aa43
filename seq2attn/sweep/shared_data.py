"""Prepared data of a sweep: made once for all trials with the same text, and hard-linked into their runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from seq2attn.data.prepare import PREPARED, prepare
from seq2attn.data.train_tokenizers import Log
from seq2attn.io.files import atomic_dir
from seq2attn.sweep.plan import TrialRun
from seq2attn.sweep.record import ExperimentFingerprints


def link_prepared_data(runs: Iterable[TrialRun], fingerprints: ExperimentFingerprints, folder: Path, log: Log) -> None:
    """The prepared data of each run, in the form of `prepare`.

    Raises: DataError for text that cannot be used, before the first training.
    """
    shared: dict[str, Path] = {}
    for run in runs:
        if (run.folder / PREPARED).is_file():
            continue
        experiment = run.experiment
        fingerprint = fingerprints.text_fingerprint(experiment)
        if fingerprint not in shared:
            shared[fingerprint] = folder / "prepared" / fingerprint[:16]
            prepare(experiment.data, experiment.tokenizer, shared[fingerprint], log)
        with atomic_dir(run.folder) as partial:
            shutil.copytree(shared[fingerprint], partial, copy_function=_link_or_copy, dirs_exist_ok=True)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)
