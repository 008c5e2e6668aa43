"""`seq2attn init`."""

import shlex

import typer

from seq2attn.cli.flatten import takes
from seq2attn.options import InitOptions


@takes("source target dev_source dev_target dev_size hours device trial output run_dir")
def init(options: InitOptions) -> None:
    """Write a commented config for two text files, with the model that should be best within some hours here.

    Up to four models are tried on the text, and the best one is written, with a table of what to expect of each.

    \b
    Examples:
      seq2attn init train.de train.en --dev-source dev.de --dev-target dev.en
      seq2attn init train.de train.en --dev-size 500 --hours 0.5
      seq2attn init train.de train.en --dev-source dev.de --dev-target dev.en -o configs/news.yaml --no-trial
    """
    from seq2attn.io.terminal import name_options
    from seq2attn.starter.init import init as write_config

    write_config(options, lambda line: typer.echo(name_options(line)))
    typer.echo(f"{options.output}: written; next: {shlex.join(['seq2attn', 'train', str(options.output)])}")
