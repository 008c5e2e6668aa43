"""Options of commands and of the functions that do their work, each declared once.

A dataclass is a group of options: the command line has its fields as options, Python passes it to `seq2attn.load` and
the like. Those of commands about finished runs are in `runs.py`. Nothing is imported that is slow, so that `--help` is
fast.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import typer

from seq2attn.errors import UserError


def _allow_code(modules: list[str]) -> list[str]:
    if modules:
        from seq2attn.config.plugin import allow_code

        allow_code(modules)
    return modules


ConfigPath: TypeAlias = Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file.")]

ConfigPaths: TypeAlias = Annotated[list[Path], typer.Argument(metavar="CONFIG", help="One or more YAML files.")]

RunDir: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The run directory of a training.")]

RunDirs: TypeAlias = Annotated[
    list[Path],
    typer.Argument(metavar="RUN_DIR", help="The run directories of one or more trainings."),
]

OutputFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to FILE (-: standard output; .gz and .xz are compressed).",
    ),
]

Overwrite: TypeAlias = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace an output file that another command wrote, or that was changed since."),
]

AllowCode: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--allow-code",
        metavar="NAME",
        callback=_allow_code,
        default_factory=list,
        show_default=False,
        help="Allow a module of custom components that a run names to be imported. Only if you trust it.",
    ),
]
"""The modules are allowed for the whole process before the command runs, which need not read the value."""

Tag: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Put the tag <NAME> before each source, for a model trained with tags."),
]
"""The tag of all sources; checked by `Tokenizer.check_tag`."""

To: TypeAlias = Annotated[
    str | None, typer.Option(metavar="LANG", help="Translate into this language, for an imported model with several.")
]

Device: TypeAlias = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]


def repeatable(name: str, metavar: str, help: str) -> Any:
    """An option that may be given several times, or not at all."""
    help = f"{help} Repeatable."
    return typer.Option(name, metavar=metavar, default_factory=list, show_default=False, help=help)


Overrides: TypeAlias = Annotated[
    list[str], repeatable("--set", "KEY=VALUE", "Set a value of the config, e.g. --set search.beam_size=10.")
]

SweepOverrides: TypeAlias = Annotated[
    list[str], repeatable("--set", "KEY=VALUE", "Set a value of the file, e.g. --set seeds=[1,2,3].")
]

SearchPrecision: TypeAlias = Literal["float32", "bfloat16"]
LongInputs: TypeAlias = Literal["split", "truncate"]
"""Treatment of a source line with too many tokens."""
AttentionKind: TypeAlias = Literal["cross", "encoder", "decoder"]
ColorScale: TypeAlias = Literal["max", "row", "0-1"]


@dataclass(frozen=True)
class InitOptions:
    """Text, time and device of the training that `seq2attn init` writes a config for."""

    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Text in the source language, one sentence per line.")
    ]
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Its translation, line by line.")]
    dev_source: Annotated[Path | None, typer.Option(metavar="FILE", help="Source text of the dev set.")] = None
    dev_target: Annotated[Path | None, typer.Option(metavar="FILE", help="Target text of the dev set.")] = None
    dev_size: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Split a dev set of N pairs off the text instead, in files of its own."),
    ] = None
    hours: Annotated[float | None, typer.Option(metavar="HOURS", help="Time for the training. [1; on a GPU 8]")] = None
    device: Device = "auto"
    trial: Annotated[
        bool, typer.Option("--trial/--no-trial", help="Try models for 20 s, or choose by a table of their speed.")
    ] = True
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The config to write.")] = Path(
        "my.yaml"
    )
    run_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="The run directory. [runs/my for my.yaml]")] = None

    def __post_init__(self) -> None:
        """Check options that exclude each other. Raises UserError."""
        is_missing = self.dev_source is None, self.dev_target is None, self.dev_size is None
        if is_missing not in ((False, False, True), (True, True, False)):
            raise UserError(
                "a dev set is needed, separate from the training text: it selects the best checkpoint. Give"
                " ``dev_source`` and ``dev_target``, or else ``dev_size=500`` to split one off the training text"
            )
        if self.hours is not None and not 0 < self.hours <= 10_000:
            raise UserError(f"``hours={self.hours:g}`` is no time for a training; give up to 10,000, such as 0.5 or 8")


def check_lists(**lists: object) -> None:
    """Raises UserError for one value in place of a list."""
    for name, value in lists.items():
        if isinstance(value, str | Path):
            raise UserError(f"``{name}`` should be a list: {name}=[{str(value)!r}]")


@dataclass(frozen=True)
class TranslationOptions:
    """The search, the inference engine and the device of a translator; what is not given is that of the run."""

    overrides: Overrides = field(default_factory=list)
    allow_code: AllowCode = field(default_factory=list)
    ensemble: Annotated[
        list[Path],
        repeatable(
            "--ensemble",
            "RUN_DIR",
            "Average the probabilities with those of this run, which has the same target vocabulary.",
        ),
    ] = field(default_factory=list)
    rerank: Annotated[
        list[str],
        repeatable(
            "--rerank",
            "RUN_DIR[:WEIGHT]",
            "Rerank the hypotheses of each line by this run of the same direction, too. WEIGHT is 1 by default.",
        ),
    ] = field(default_factory=list)
    rerank_backward: Annotated[
        list[str],
        repeatable("--rerank-backward", "RUN_DIR[:WEIGHT]", "Rerank by a run from target to source."),
    ] = field(default_factory=list)
    to: To = None
    beam: Annotated[int | None, typer.Option(min=1, max=1000, metavar="N", help="Beam search with N beams.")] = None
    greedy: Annotated[bool, typer.Option("--greedy", help="Greedy search: the most likely token at every step.")] = (
        False
    )
    mbr: Annotated[
        int | None,
        typer.Option(min=1, max=1000, metavar="N", help="Minimum Bayes risk decoding: the best of N samples, by chrF."),
    ] = None
    replace_unk: Annotated[
        bool,
        typer.Option(
            "--replace-unk",
            help="Replace unknown words by the source words with the most attention, or their terms in --glossary.",
        ),
    ] = False
    glossary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Terms that translations must have, in beam search: source term, tab, target term, line by line.",
        ),
    ] = None
    long_inputs: Annotated[
        LongInputs | None,
        typer.Option(help="Lines too long for the model: split at sentence boundaries, or truncated. [split]"),
    ] = None
    engine: Annotated[
        str,
        typer.Option(
            metavar="native|ctranslate2|onnx",
            help="The inference engine: PyTorch, or CTranslate2 or ONNX Runtime after `export`.",
        ),
    ] = "native"
    export_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The output directory of `export`. [RUN_DIR/ENGINE]")
    ] = None
    device: Device = "auto"
    precision: Annotated[
        SearchPrecision, typer.Option(help="Precision of the search; bfloat16 is faster on a GPU.")
    ] = "float32"
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Source tokens of a batch, times beams. [8192; on a GPU by its memory, at most 262144]",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check lists, in place of which Python users may give one value, and names. Raises UserError."""
        check_lists(overrides=self.overrides, allow_code=self.allow_code, ensemble=self.ensemble)
        check_lists(rerank=self.rerank, rerank_backward=self.rerank_backward)
        choices = {"precision": (self.precision, SearchPrecision), "long_inputs": (self.long_inputs, LongInputs)}
        for name, (chosen, known) in choices.items():
            if chosen is not None and chosen not in get_args(known):
                raise UserError(f"``{name}={chosen}``: use {' or '.join(get_args(known))}")
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise UserError(f"``batch_tokens={self.batch_tokens}``: a batch has at least one token")


@dataclass(frozen=True)
class TranslateOptions:
    """Input and output of `seq2attn translate`."""

    sentences: Annotated[
        list[str],
        typer.Argument(metavar="SENTENCE", default_factory=list, help="Sentences to translate.", show_default=False),
    ] = field(default_factory=list)
    input_file: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="Translate the lines of FILE (-: standard input).", metavar="FILE"),
    ] = None
    output_file: OutputFile = None
    overwrite: Overwrite = False
    n_best: Annotated[
        int, typer.Option(min=1, metavar="N", help="Print N translations per line: line number, score, text.")
    ] = 1
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="The beginning of each translation.")] = ""
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per line, with scores.")] = False
    attention: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Draw attention: FILE.html for all lines, FILE.png, .svg or .pdf for the first, - in the terminal.",
        ),
    ] = None
    tag: Tag = None


@dataclass(frozen=True)
class AttentionSelection:
    """The attention weights to show. Defaults (None) depend on the output format."""

    kind: Annotated[
        AttentionKind | None,
        typer.Option("--attention-kind", help="Cross-attention, or self-attention of one side. [cross; in HTML all]"),
    ] = None
    layer: Annotated[
        str | int | None,
        typer.Option(metavar="N|top|all", help="The layers to draw; 1 is the lowest. [top; in HTML all]"),
    ] = None
    head: Annotated[
        str | int | None,
        typer.Option(metavar="N|mean|all", help="The heads to draw. [all; in the terminal their mean]"),
    ] = None
    whole_words: Annotated[bool, typer.Option("--whole-words", help="Draw words instead of subwords.")] = False
    color_scale: Annotated[
        ColorScale, typer.Option(help="The weight drawn in full color: the largest, the largest of each row, or 1.")
    ] = "max"  # weights are small in long sentences and means of heads

    def __post_init__(self) -> None:
        """Check the color scale, which Python users may misspell. Raises UserError."""
        if self.color_scale not in get_args(ColorScale):
            raise UserError(f"there is no color scale `{self.color_scale}`; use {', '.join(get_args(ColorScale))}")
