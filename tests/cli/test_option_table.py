"""All commands that take a run or a text, and all options that change what these mean: none is left out unnoticed."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import seq2attn
from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import LoadedRun, RunDirectory
from seq2attn.exporters.export_run import export_run
from seq2attn.exporters.onnx_target import OnnxTarget
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.io.terminal import name_options
from seq2attn.options.runs import ExportOptions
from tests.support.commands import Invoke, all_commands, write_lines
from tests.support.untrained_runs import CONFIG, untrained_run

SEARCHES = {"translate", "evaluate", "distill", "back-translate"}
FORCED = {"align", "score"}
CHECKS = {"doctor", "export"}
STORED = {"compare"}  # reads the translations that `evaluate` wrote, with all options of that, which it compares
NO_TEXT = {"average"}
EXPLORER = {"explore"}  # shows the search of the native engine, for one sentence at a time
FROM_CONFIG = {"train", "prepare", "sweep", "reproduce", "speedrun", "config check", "config show"}
COMMANDS = SEARCHES | FORCED | CHECKS | STORED | NO_TEXT | EXPLORER
TABLE: dict[str, set[str]] = {
    "--allow-code": COMMANDS | FROM_CONFIG,
    "--tag": SEARCHES | FORCED | CHECKS | STORED | EXPLORER,
    "--to": SEARCHES | FORCED | EXPLORER,  # a check and an export are of the language of the run; compared are engines
    "--device": SEARCHES | FORCED | {"doctor", "init"} | EXPLORER,  # an export is verified on the CPU
    "--precision": SEARCHES | EXPLORER,  # log-probabilities and links are those of float32
    "--engine": SEARCHES,  # only a search runs elsewhere; `doctor` is about the native one
    "--export-dir": SEARCHES,
    "--ensemble": SEARCHES | EXPLORER,  # log-probabilities and attention are those of one model
    "--batch-tokens": SEARCHES,
    "--set": SEARCHES | FROM_CONFIG | EXPLORER,  # of the search, which the others have not, or of the whole config
    "--beam": SEARCHES | EXPLORER,  # another search of a corpus is `--set search.kind=…`, which its settings record
    "--greedy": {"translate", "evaluate"} | EXPLORER,
    "--mbr": {"translate", "evaluate"},
    "--long-inputs": {"translate", "evaluate"} | EXPLORER,  # a corpus leaves out lines that are too long
    "--replace-unk": {"translate", "evaluate"},  # a corpus leaves out translations with unknown words
    "--glossary": {"translate", "evaluate"} | EXPLORER,
    "--min-log-prob": {"distill", "back-translate"},
    "--rerank": {"translate", "evaluate"},
    "--rerank-backward": {"translate", "evaluate"},
}
NO_MEANING = {"--source", "--target", "--reference", "--input", "--output", "--json", "--dry-run", "--jobs", "--redo",
              "--verify-with", "--overwrite", "--attention", "--best"}  # fmt: skip
"""Names of files, forms of the output, and how the work is divided."""


def options(command: str) -> set[str]:
    params = all_commands()[command].params
    return {name for param in params for name in param.opts if name.startswith("--") and name != "--help"}


def test_the_table_is_that_of_the_commands() -> None:
    others = {"init", "import", "config schema"}  # which make a config, a run or a description
    assert {*all_commands()} == COMMANDS | FROM_CONFIG | others
    for option, commands in TABLE.items():
        expected = commands | ({"export", "import"} if option == "--to" else set())  # there it is a format, a file
        assert {name for name in all_commands() if option in options(name)} == expected, option
    shared = Counter(option for name in COMMANDS | FROM_CONFIG for option in options(name))
    assert {option for option, count in shared.items() if count > 1} <= TABLE.keys() | NO_MEANING


def test_an_argument_in_a_message_becomes_its_option() -> None:
    for command in all_commands().values():
        for param in command.params:
            is_option = param.opts[0].startswith("-")
            assert not is_option or name_options(f"``{param.name}``") in (*param.opts, *param.secondary_opts)
    assert name_options("give ``beam=5``, ``n_best`` or `beam`") == "give --beam 5, --n-best or `beam`"
    for text in ("the tag ```a```", "begin with '``beam``'", "c.yaml:1:1: unknown\n  |\n1 | a: ``beam=5``\n  | ^"):
        assert name_options(text) == text  # of the user


@pytest.fixture
def tagged_run(tmp_path: Path) -> Path:
    train = "{kind: plain, source: lines.txt, target: lines.txt, tag: news}"
    dev = "{kind: plain, source: in, target: out, alignment: gold, tag: news}"
    test = CONFIG[CONFIG.index("  test:") :]
    run = untrained_run(tmp_path, f"run_dir: run\ndata:\n  train: {train}\n  dev: {dev}\n{test}", tags=("<news>",))
    lines = {
        "in": ["a few words", "", "not many words are there"],
        "out": ["words a few", "", "there are not many"],
        "gold": ["0-1 1-2 2-0", "", "0-2 4-0"],
    }
    lines["written"] = [f"<news> {line}" if line else "" for line in lines["in"]]
    for file, content in lines.items():
        write_lines(tmp_path / file, content)
    return run.folder


COMMANDS_WITH_FILES = {
    "translate": ("-i", "IN"),
    "evaluate": ("--reference", "out", "--source", "IN"),
    "score": ("--target", "out", "--source", "IN"),
    "align": ("--target", "out", "--gold", "gold", "--source", "IN"),
    "align --select-head": ("--select-head", "--target", "out", "--gold", "gold", "--source", "IN"),
    "doctor": ("-i", "IN"),
    "distill": ("-o", "corpus-IN", "--source", "IN"),
    "back-translate": ("-o", "corpus-IN", "--target", "IN"),
}


@pytest.mark.parametrize("command", COMMANDS_WITH_FILES)
def test_a_tag_means_the_same_as_one_that_is_written(invoke: Invoke, tagged_run: Path, command: str) -> None:
    outputs = []
    for file, more in (("in", ("--tag", "news")), ("written", ())):
        words = [word.replace("IN", file) for word in COMMANDS_WITH_FILES[command]]
        done, folder = invoke(command.split()[0], tagged_run, *words, *more), tagged_run.parent
        match command:
            case "evaluate":
                (path,) = (tagged_run / "evaluation").glob(f"{file}*.txt")
                outputs.append(path.read_text("utf-8"))
            case "distill" | "back-translate":
                outputs.append((folder / f"corpus-{file}/scores.txt").read_text("utf-8"))
            case "doctor":
                outputs.append(re.findall(r"\d\.\de-\d\d", done.out))
            case _:
                outputs.append(done.out + done.err * command.startswith("align"))
    assert outputs[0] == outputs[1] and outputs[0]


class LinesTarget(OnnxTarget):
    """An export that reports the lines with which it is verified."""

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        pass

    def load(self, run: RunDirectory, folder: Path) -> Engine:
        return NativeEngine(run.load().model)

    def write_program(self, engine: Engine, run: LoadedRun, folder: Path, lines: Sequence[str]) -> str:
        raise UserError(repr(list(lines)))


def test_an_export_is_verified_with_the_tag(tagged_run: Path) -> None:
    with pytest.raises(UserError) as error:
        export_run(
            RunDirectory(tagged_run),
            LinesTarget(),
            tagged_run / "e",
            ExportOptions(verify_with=tagged_run.parent / "in", tag="news"),
        )
    assert str(error.value) == repr((tagged_run.parent / "written").read_text("utf-8").split("\n")[:-1])


@pytest.mark.parametrize("reverse", [False, True])
def test_links_do_not_count_the_tag(invoke: Invoke, tmp_path: Path, tagged_run: Path, reverse: bool) -> None:
    """Each word is linked with the word of most attention; what is on the tag is of no word."""
    if reverse:
        path = tagged_run / "source/tokenizer.json"
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"right_to_left": True}), "utf-8")
    source, target = "not many words are there", "there are not many"
    weights = seq2attn.load(tagged_run).attention_weights(f"<news> {source}", target).cross_attention
    assert weights is not None
    words = weights[0, 0, :-1, 1:-1]
    best = (words[:, ::-1] if reverse else words).argmax(1)
    expected = " ".join(f"{source}-{word}" for word, source in enumerate(best))
    for file, more in (("in", ("--tag", "news")), ("written", ())):
        done = invoke("align", tagged_run, "--source", file, "--target", "out", "--gold", "gold", *more)
        assert done.out.split("\n")[2] == expected
    gold = {(0, 2), (4, 0)}, {*zip(map(int, best), range(4), strict=True)}
    first = done.out.split("\n")[0].split()
    hits = len({"0-1", "1-2", "2-0"} & {*first}) + len(gold[0] & gold[1])
    assert f"recall {hits / 5:.1%}" in done.err


def test_gold_links_of_a_corpus_with_a_tag_are_not_shifted(invoke: Invoke, tagged_run: Path) -> None:
    files = "--source", "in", "--target", "out", "--gold", "gold"
    by_option = invoke("align", tagged_run, "--select-head", *files, "--tag", "news")
    assert invoke("align", tagged_run, "--select-head").out == by_option.out  # of the config's dev set
