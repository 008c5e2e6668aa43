"""The error messages of commands, byte by byte: `error_messages.txt` has each call and its output.

After a change that is meant: `python -m tests.cli.test_error_messages`, and read the difference.
"""

import shlex
import tempfile
from pathlib import Path

import pytest
import torch

from tests.support.commands import invoke_in, write_lines
from tests.support.untrained_runs import CONFIG, RECIPE, SWEEP, TRANSFORMER_CONFIG, untrained_run

MESSAGES = Path(__file__).parent / "error_messages.txt"
PROMPT = "$ seq2attn "
NO_ATTENTION = CONFIG.replace("{kind: luong, dim: 8}", "{kind: fixed-context, dim: 8}")


def make_runs(folder: Path) -> None:
    """Runs `run`, `tags/run`, `plain/run` without attention, `left/run` from right to left, `large/run`, and files."""
    untrained_run(folder)
    untrained_run(folder / "tags", tags=("<news>",))
    untrained_run(folder / "plain", NO_ATTENTION)
    untrained_run(
        folder / "large", TRANSFORMER_CONFIG.replace("beam_size: 3, lengths: {max_length: 9}", "beam_size: 999")
    )
    untrained_run(folder / "groups", CONFIG.replace("beam_size: 3", "beam_size: 4, num_beam_groups: 2"))
    untrained_run(folder / "other", words=("other", "words"))
    left = untrained_run(folder / "left", TRANSFORMER_CONFIG)
    left.load_tokenizers().target.with_direction(right_to_left=True).save(left.folder / "target")
    no_test = CONFIG[: CONFIG.index("  test:")] + CONFIG[CONFIG.index("tokenizer:") :]
    untrained_run(folder / "untested", no_test)
    write_lines(folder / "in", ["a few words"])
    write_lines(folder / "blank", ["", " "])
    write_lines(folder / "empty", [])
    write_lines(folder / "terms", ["few\tnot"])
    write_lines(folder / "links", ["0-0 3-1"])
    (folder / "loop").symlink_to("loop")
    for name, content in {"sweep": SWEEP, "recipe": RECIPE}.items():
        (folder / f"{name}.yaml").write_text(content.format("own.yaml"), encoding="utf-8")


def calls() -> list[str]:
    return [
        line.removeprefix(PROMPT).removesuffix("\n")
        for line in MESSAGES.open(encoding="utf-8")
        if line.startswith(PROMPT)
    ]


def output(folder: Path, call: str) -> str:
    """The call, its exit code and its standard error."""
    done = invoke_in(folder, *shlex.split(call), given=b"a few words\n", code=2)
    return f"{PROMPT}{call}\n{done.err.replace(str(folder), 'FOLDER')}\n"


def files(folder: Path) -> dict[Path, int]:
    """All files and their times, but those of a synthetic corpus, which is resumed, and locks."""
    every = (path for path in folder.rglob("*") if not {"corpus", "run.lock"} & {*path.parts})
    return {path: path.lstat().st_mtime_ns for path in every if not path.is_dir()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    made = tmp_path_factory.mktemp("messages")
    make_runs(made)
    return made


@pytest.mark.parametrize("call", calls())
def test_the_message_is_that_of_the_file(folder: Path, call: str) -> None:
    before = files(folder)
    assert output(folder, call) in MESSAGES.read_text(encoding="utf-8")
    assert files(folder) == before


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        make_runs(Path(temporary))
        MESSAGES.write_text("".join(output(Path(temporary), call) for call in calls()), encoding="utf-8")
