"""`seq2attn prepare`."""

from __future__ import annotations

from functools import partial

import typer

from seq2attn.cli.options import AllowCode, ConfigPath, Overrides


def prepare(config: ConfigPath, overrides: Overrides, allow_code: AllowCode) -> None:
    """Check the text of a config, train its tokenizers and encode it. `train` does this if it was not done before.

    \b
    Examples:
      seq2attn prepare configs/phrasebook.yaml
    """
    from seq2attn.data import prepare as preparation
    from seq2attn.experiment import load_config
    from seq2attn.io.lock import lock_directory
    from seq2attn.run_directory import RunDirectory
    from seq2attn.training.checkpoints.retention import refuse_existing_training

    experiment = load_config(config, overrides)
    folder = experiment.run_dir
    with lock_directory(folder):
        refuse_existing_training(folder)
        preparation.prepare(experiment.data, experiment.tokenizer, folder, partial(typer.echo, err=True))
        RunDirectory(folder).save_config(experiment)
