"""Any arguments to any command: exit code 0, 1 or 2, and no traceback."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.support.commands import all_commands
from tests.support.family_runs import FAMILIES, make_run
from tests.support.fuzzing import command, fuzz
from tests.support.untrained_runs import CONFIG, SWEEP

COMMANDS = all_commands()
NAMES = [*COMMANDS, "", "config", "confgi"]
OPTIONS = [
    *sorted({name for one in COMMANDS.values() for option in one.params for name in option.opts if name[0] == "-"}),
    *("--help", "-h", "--version", "--no-such-option", "--", "-", "-x", "--beam=3"),
]
VALUES = (
    "config.yaml", "sweep.yaml", "run", "lines", "odd", "empty", "folder", "nowhere", "run/config.yaml", "new.txt",
    "picture.svg", "page.html", "picture.xyz", "0", "1", "2", "-1", "1e3", "nan", "99999999999999999999", "cpu", "cuda",
    "cuda:7", "native", "int8", "ctranslate2", "float32", "float16", "split", "auto", "all", "top", "mean", "cross",
    "encoder", "search.beam_size=2", "search.kind=greedy", "model.decoder.dim=3", "run_dir=other",
    "search={kind: sample}", "data.dev=", "=", "ba be", "", " ", "\n", "2h", "3 updates",
)  # fmt: skip

text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8).filter(
    lambda word: not word.startswith(("/", "~")) and ".." not in word
)
word = st.one_of(*[st.sampled_from(OPTIONS)] * 3, *[st.sampled_from(VALUES)] * 4, text)
line = st.tuples(st.sampled_from(NAMES), st.lists(word, max_size=7))
likely = st.tuples(
    st.sampled_from([("translate", "run"), ("evaluate", "run"), ("align", "run"), ("export", "run"), ("average", "run"),
                     ("doctor", "run", "--sentences", "1"), ("train", "config.yaml"), ("prepare", "config.yaml"),
                     ("sweep", "sweep.yaml"), ("config", "check", "config.yaml"), ("config", "show", "config.yaml"),
                     ("translate", "run", "-i", "odd"), ("translate", "run", "-i", "lines", "-o", "new.txt"),
                     ("evaluate", "run", "--source", "lines", "--reference", "lines"),
                     ("align", "run", "--source", "lines", "--target", "lines"),
                     ("distill", "run", "--source", "lines", "-o", "new"), ("back-translate", "run", "--target", "odd"),
                     ("translate", "run", "ba be", "--attention"), ("export", "run", "--to", "ctranslate2")]),
    st.lists(st.one_of(st.tuples(st.sampled_from(OPTIONS), st.sampled_from(VALUES)), st.tuples(word)), max_size=3),
).map(lambda both: (both[0][0], [*both[0][1:], *(word for pair in both[1] for word in pair)]))  # fmt: skip
"""Command lines that are valid, or nearly so."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a run, text and configs, to be copied for every command."""
    folder = tmp_path_factory.mktemp("commands")
    template = folder / "template"
    template.mkdir()
    run = make_run(tmp_path_factory.mktemp("run"), *FAMILIES["luong without feeding"])
    shutil.copytree(run.folder, template / "run")
    (template / "config.yaml").write_text(CONFIG)  # its text is missing
    (template / "sweep.yaml").write_text(SWEEP.format("config.yaml"))
    (template / "lines").write_text("ba be\nbi\n")
    (template / "odd").write_bytes(b"ba \xff\x00\n\n\xe2\x80\xa8\r\nbe")
    (template / "empty").write_bytes(b"")
    (template / "folder").mkdir()
    return folder


@fuzz(st.one_of(line, likely), quick=50, slow=3000)
def test_any_words_run_or_are_refused(home, case):
    name, words = case
    here = Path.cwd()
    shutil.rmtree(home / "used", ignore_errors=True)
    shutil.copytree(home / "template", home / "used")
    os.chdir(home / "used")
    first, *rest = [*name.split(), *words] or [""]
    try:
        done = command(first, *rest, stdin=b"be ba\nbi")
    finally:
        os.chdir(here)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in ((0, 1, 2) if first in ("doctor", "sweep", "speedrun") else (0, 2)), done.stderr
    assert "Traceback" not in done.output
    if done.exit_code == 2:
        assert done.stderr.strip()
