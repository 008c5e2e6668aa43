"""Options of commands about finished runs: evaluate, compare, score, align, export and import."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from seq2attn.errors import UserError
from seq2attn.options import Device, OutputFile, Overwrite, Tag, To, check_lists, repeatable

References: TypeAlias = Annotated[list[Path], repeatable("--reference", "FILE", "Reference translations of --source.")]


@dataclass(frozen=True)
class EvaluateOptions:
    """Test set and metrics of `seq2attn evaluate`, in place of those of the config."""

    source: Annotated[
        Path | None, typer.Option(help="Evaluate on this file instead of the config's test sets.", metavar="FILE")
    ] = None
    references: References = field(default_factory=list)
    metrics: Annotated[
        list[str],
        repeatable("--metric", "NAME", "bleu, chrf, chrf++, ter, exact, token-error-rate or paper_bleu."),
    ] = field(default_factory=list)
    tokenize: Annotated[
        str | None,
        typer.Option(
            help="sacreBLEU's tokenizer for BLEU: 13a, intl, char, zh, ja-mecab, ko-mecab or flores200. [chosen by the"
            " script of the references]",
            metavar="NAME",
        ),
    ] = None
    tag: Tag = None
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of tables, with tokens and log-probabilities.")
    ] = False
    attention: Annotated[
        bool, typer.Option("--attention", help="With --json: add the cross-attention of each translation.")
    ] = False

    def __post_init__(self) -> None:
        """Check options that need others, and lists, in place of which Python users may give one. Raises UserError."""
        check_lists(references=self.references, metrics=self.metrics)
        if self.attention and not self.as_json:
            raise UserError("``attention`` needs ``as_json``")


@dataclass(frozen=True)
class CompareOptions:
    """Test set and significance test of `seq2attn compare`."""

    source: Annotated[
        Path | None,
        typer.Option(help="Compare the translations of this file, made by `evaluate --source`.", metavar="FILE"),
    ] = None
    references: References = field(default_factory=list)
    tag: Tag = None
    test: Annotated[
        Literal["bootstrap", "randomization"],
        typer.Option(help="Significance test: paired bootstrap, or paired approximate randomization."),
    ] = "bootstrap"
    examples: Annotated[
        int, typer.Option(min=0, help="Number of sentences whose translations differ most.", metavar="N")
    ] = 5

    def __post_init__(self) -> None:
        """Check lists and names, in place of which Python users may give others. Raises UserError."""
        check_lists(references=self.references)
        if self.test not in ("bootstrap", "randomization"):
            raise UserError(f"``test={self.test}``: use bootstrap or randomization")


@dataclass(frozen=True)
class ExploreOptions:
    """Runs, text and output of `seq2attn explore`."""

    arguments: Annotated[
        list[str],
        typer.Argument(metavar="RUN_DIR", help="One or more run directories, then sentences."),
    ]
    input_file: Annotated[
        Path | None, typer.Option("--input", "-i", help="Show the lines of FILE in a table.", metavar="FILE")
    ] = None
    references: Annotated[list[Path], repeatable("--reference", "FILE", "Reference translations of --input.")] = field(
        default_factory=list
    )
    test_set: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show a test set of the config in a table, with its scores.")
    ] = None
    worst: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the N lines with the lowest chrF.")] = None
    best: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the N lines with the highest chrF.")] = None
    output_file: OutputFile = None
    overwrite: Overwrite = False
    all_heads: Annotated[
        bool, typer.Option("--all-heads", help="With --output: all attention heads of long sentences, too.")
    ] = False
    port: Annotated[int | None, typer.Option(min=1, max=65535, metavar="N", help="Port of the page. [a free one]")] = (
        None
    )
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Show the kept checkpoints of a run, with a slider.")
    ] = False
    tag: Tag = None

    def __post_init__(self) -> None:
        """Check options that exclude each other, or need others. Raises UserError."""
        if self.test_set is not None and self.input_file is not None:
            raise UserError("give ``test_set`` or ``input_file``, not both")
        if self.test_set is not None and self.tag is not None:
            raise UserError("``test_set`` excludes ``tag``: a test set of the config has its own, `data.test.NAME.tag`")
        if self.references and self.input_file is None:
            raise UserError("``references`` needs ``input_file``")
        if self.worst and self.best:
            raise UserError("give ``worst`` or ``best``, not both")
        if (self.worst or self.best) and self.test_set is None and not self.references:
            raise UserError("``worst`` and ``best`` need ``test_set``, or ``input_file`` and ``references``")


@dataclass(frozen=True)
class ScoreOptions:
    """Text and model of `seq2attn score`."""

    source: Annotated[Path, typer.Option(help="Text in the source language.", metavar="FILE")]
    target: Annotated[Path, typer.Option(help="Its translation, line by line.", metavar="FILE")]
    tag: Tag = None
    to: To = None
    device: Device = "auto"


@dataclass(frozen=True)
class AlignOptions:
    """Text and model of `seq2attn align`."""

    source: Annotated[Path | None, typer.Option(help="Text in the source language.", metavar="FILE")] = None
    target: Annotated[Path | None, typer.Option(help="Its translation, line by line.", metavar="FILE")] = None
    gold: Annotated[
        Path | None, typer.Option(help="Gold alignments (`0-0 1-2`, possible `1?2`) to compare with.", metavar="FILE")
    ] = None
    tag: Tag = None
    to: To = None
    device: Device = "auto"


@dataclass(frozen=True)
class ExportOptions:
    """Weights and verification of `seq2attn export`."""

    quantization: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="Data type of the weights: float32, int8; float16 for ctranslate2. [float32]"
        ),
    ] = None
    verify_with: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Lines to verify with. [the first 200 sources of the dev set]")
    ] = None
    tag: Tag = None


@dataclass(frozen=True)
class ImportOptions:
    """Languages and conventions of a model for `seq2attn import`."""

    positions: Annotated[
        Literal["tensor2tensor", "transformers"],
        typer.Option(help="Sinusoidal positions of Marian's training, or the other ones of transformers."),
    ] = "tensor2tensor"
    punctuation: Annotated[
        bool,
        typer.Option(help="Normalize punctuation as Moses does, for older models of OPUS-MT; needs sacremoses."),
    ] = True
    source_language: Annotated[
        str | None,
        typer.Option("--from", metavar="LANG", help="The language of the sources, for a model with several."),
    ] = None
    target_language: Annotated[
        str | None,
        typer.Option("--to", metavar="LANG", help="The language to translate into, for a model with several."),
    ] = None
    source_prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Text before each source line, for T5. [the text of its task for --to LANG]"),
    ] = None
