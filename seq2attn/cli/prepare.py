"""`seq2attn prepare`."""

from __future__ import annotations

import typer

from seq2attn.cli.options import AllowCode, ConfigPath, Overrides


def prepare(config: ConfigPath, overrides: Overrides, allow_code: AllowCode) -> None:
    """Check the text of a config, learn its tokenizers and encode it; `train` does so by itself when it is not done.

    \b
    Examples:
      seq2attn prepare configs/phrasebook.yaml
    """
    from seq2attn.config.load import load
    from seq2attn.config.trust import allow_code as allow
    from seq2attn.data.prepare import prepare as start
    from seq2attn.experiment import ExperimentConfig
    from seq2attn.io.lock import lock_directory
    from seq2attn.run_directory import RunDirectory
    from seq2attn.training.checkpoints.retention import refuse_existing_training

    allow(allow_code)
    experiment = load(config, ExperimentConfig, overrides)
    run = RunDirectory(experiment.run_dir)
    with lock_directory(experiment.run_dir):
        refuse_existing_training(experiment.run_dir)
        start(experiment.data, experiment.tokenizer, experiment.run_dir, lambda line: typer.echo(line, err=True))
        run.save_config(experiment)
