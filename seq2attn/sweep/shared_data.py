"""The prepared text of a sweep: made once for all trials that learn from the same, and linked into their runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from seq2attn.data.inspection.report import REPORT_JSON, REPORT_TEXT
from seq2attn.data.prepare import PREPARED, prepare
from seq2attn.data.train_tokenizers import Log
from seq2attn.sweep.plan import TrialRun
from seq2attn.sweep.record import ExperimentFingerprints

PREPARED_FOLDERS = ("source", "target", "data")


def link_prepared_data(
    trainings: Iterable[TrialRun], identities: ExperimentFingerprints, folder: Path, log: Log
) -> None:
    """Put the prepared text of each training into its run, as `prepare` would.

    Raises: DataError for text that cannot be used, before anything is trained.
    """
    homes: dict[str, Path] = {}
    for training in trainings:
        experiment = training.experiment
        if (training.folder / PREPARED).is_file():
            continue
        fingerprint = identities.text_fingerprint(experiment)
        if fingerprint not in homes:
            homes[fingerprint] = folder / "text" / fingerprint[:16]
            prepare(experiment.data, experiment.tokenizer, homes[fingerprint], log)
        _link(homes[fingerprint], training.folder)


def _link(home: Path, run: Path) -> None:
    """All files of a prepared text, the one last that says that it is whole. None of them is ever written into."""
    for part in PREPARED_FOLDERS:
        shutil.rmtree(run / part, ignore_errors=True)
        shutil.copytree(home / part, run / part, copy_function=_link_or_copy, ignore=_but_last)
    for name in (REPORT_JSON, REPORT_TEXT):
        (run / name).unlink(missing_ok=True)
        if (home / name).is_file():
            _link_or_copy(str(home / name), str(run / name))
    _link_or_copy(str(home / PREPARED), str(run / PREPARED))


def _but_last(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == Path(PREPARED).name]


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)
