"""`seq2attn init`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

NO_DEV_SET = """\
a dev set is needed, separate from the training text: it selects the best checkpoint and ends training.
Give --dev-source and --dev-target. Without such files, split some hundred pairs off the training text, for example:
  tail -n 500 train.de > dev.de; head -n -500 train.de > rest.de    # and the same with the target language"""


def init(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Text in the source language, one sentence per line.")
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Its translation, line by line.")],
    dev_source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Source text of the dev set.", show_default=False)
    ] = None,
    dev_target: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Target text of the dev set.", show_default=False)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The config to write.")] = Path(
        "my.yaml"
    ),
    run_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run directory. [runs/my for my.yaml]", show_default=False)
    ] = None,
) -> None:
    """Write a commented config for two text files, with model and vocabulary of a suitable size.

    \b
    Examples:
      seq2attn init train.de train.en --dev-source dev.de --dev-target dev.en
      seq2attn init train.de train.en --dev-source dev.de --dev-target dev.en -o configs/news.yaml
    """
    from seq2attn.cli.starter import starter_config
    from seq2attn.config.load import load
    from seq2attn.errors import UserError
    from seq2attn.experiment.experiment_config import ExperimentConfig

    if dev_source is None or dev_target is None:
        raise UserError(NO_DEV_SET)
    num_pairs, num_characters = _count(source, target)
    _count(dev_source, dev_target)
    text = starter_config(
        output,
        train=(source, target),
        dev=(dev_source, dev_target),
        run_dir=run_dir or Path("runs", output.stem),
        num_pairs=num_pairs,
        num_characters=num_characters,
    )
    content = text.encode()
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = output.open("xb")
    except FileExistsError:
        raise UserError(f"{output}: exists already and is not overwritten; give another --output") from None
    with file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            output.unlink()
            raise
    load(output, ExperimentConfig, check_files=True)
    command = shlex.join(["seq2attn", "train", str(output)])
    typer.echo(f"{output}: a config for {num_pairs:,} pairs; next: {command}")


def _count(source: Path, target: Path) -> tuple[int, int]:
    """Pairs and distinct characters of two files. Raises DataError when they cannot be read, or are not parallel."""
    from seq2attn.data.readers import PlainTextConfig

    num_pairs, characters = 0, set[str]()
    for pair in PlainTextConfig.of_files(source, target).pairs():
        num_pairs += 1
        characters.update(*pair.text)
    return num_pairs, len(characters)
