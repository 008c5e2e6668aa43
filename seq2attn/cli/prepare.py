"""`seq2attn prepare`."""

from __future__ import annotations

import typer

from seq2attn.cli.options import AllowCode, ConfigPath, Overrides


def prepare(config: ConfigPath, overrides: Overrides, allow_code: AllowCode) -> None:
    """Check the text of a config, learn its tokenisers and encode it; `train` does so by itself when it is not done.

    \b
    Examples:
      seq2attn prepare configs/phrasebook.yaml
    """
    from seq2attn.config.load import load
    from seq2attn.config.trust import allow_code as allow
    from seq2attn.data.prepare import prepare as start
    from seq2attn.experiment import Experiment
    from seq2attn.io.lock import locked
    from seq2attn.run_directory import Run
    from seq2attn.training.checkpoints.retention import refuse_trained

    allow(allow_code)
    experiment = load(config, Experiment, overrides)
    run = Run(experiment.run)
    with locked(experiment.run):
        refuse_trained(experiment.run)
        start(experiment.data, experiment.text, experiment.run, lambda line: typer.echo(line, err=True))
        run.save_experiment(experiment)
