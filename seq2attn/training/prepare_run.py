"""The text and the resolved config of a run that is trained later."""

import sys

from seq2attn.data.prepare import prepare as prepare_data
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.lock import lock_directory
from seq2attn.io.terminal import Log
from seq2attn.training.checkpoints.retention import refuse_existing_files
from seq2attn.training.resolve import resolve_length_ratio


def _print(message: str) -> None:
    print(message, file=sys.stderr)


def prepare(experiment: ExperimentConfig, log: Log = _print) -> RunDirectory:
    """The run directory of an experiment, with its text checked and encoded, and its tokenizers trained.

    Raises DataError for text that cannot be used, RunError for a run directory with other files.
    """
    run = RunDirectory(experiment.run_dir)
    with lock_directory(run.folder):
        refuse_existing_files(run.folder)
        prepared = prepare_data(experiment.data, experiment.tokenizer, run.folder, log)
        search, notes = resolve_length_ratio(experiment.search, prepared.train.corpus.lengths)
        for note in notes:
            log(note)
        run.save_config(experiment.model_copy(update={"search": search}))
    return run
