"""Commands and code of short pages run as printed, with few updates."""

from __future__ import annotations

import re
import shlex
import subprocess
from itertools import pairwise

import pytest
from torch.distributed.run import parse_args

from tests.cli.conftest import invoke_in
from tests.cli.test_readme import PYTHON, ROOT, commands, home, run, short

__all__ = ["home"]  # a fixture
YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def trained(home):
    run("seq2attn train configs/phrasebook.yaml", home, *short("seq2attn train"))
    return home


def test_settings_of_training_commands_of_all_pages_are_valid():
    """Also of those that the quick tests do not run; test_bert_docs.py has those of BERT, which need a folder."""
    pages = [str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]]
    all_commands = {command for page in pages for command in commands(page)}
    trainings = [command for command in all_commands if re.match(r"seq2attn train configs/(?!bert)", command)]
    assert len(trainings) > 10
    for command in trainings:
        config, *options = shlex.split(command)[2:]
        settings = [option for name, option in pairwise(options) if name == "--set"]
        invoke_in(ROOT, "config", "show", config, *(f"--set={setting}" for setting in settings))


def test_the_commands_of_the_faq_run(trained):
    updates = 8
    for command in commands("docs/faq.md"):
        more = list[str]()
        if command.startswith("seq2attn train"):
            updates += 2
            other_run = [] if "--resume" in command or "run_dir" in command else ["--set=run_dir=runs/faq"]
            more = [*other_run, f"--set=training.max_duration=[{updates} updates]"]
        run(command, trained, *more)


def test_the_score_of_the_page_on_components_trains_and_translates(home):
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (module,), (config,) = PYTHON.findall(page), YAML.findall(page)
    assert len(module.splitlines()) <= 30
    (home / "my_scores.py").write_text(module, encoding="utf-8")
    (home / "mine.yaml").write_text(config, encoding="utf-8")
    for command in commands("docs/extending.md"):
        run(command, home, *short(command))
    assert "my_scores:DistanceScore" in (home / "runs/mine/config.yaml").read_text(encoding="utf-8")


def test_the_index_has_all_pages_and_its_command_runs(home):
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index} == set()
    (command,) = commands("docs/index.md")
    update, bleu, source, *drawing = run(command, home, "--updates", "5").splitlines()
    assert update.startswith("update 5: loss ") and bleu.startswith("BLEU ")
    assert source.startswith("Die Mutter") and drawing[-1].startswith("weight:")
    assert "<svg" in (home / "runs" / "minimal.svg").read_text(encoding="utf-8")


def test_torchrun_and_slurm_blocks_have_valid_syntax_and_options(tmp_path):
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    blocks = [block for _, block in re.findall(r"^```(\w*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]
    blocks = [block for block in blocks if "my.yaml" in block]
    assert ["torchrun" in block for block in blocks] == [True, False]
    (tmp_path / "my.yaml").write_text(f"extends: {ROOT}/configs/phrasebook.yaml\n", encoding="utf-8")
    for block in blocks:
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)
        (command,) = (line for line in block.splitlines() if "seq2attn train" in line)
        launcher, arguments = command.split("seq2attn ")
        invoke_in(tmp_path, *shlex.split(arguments), "--dry-run")
        if launcher:
            parse_args([*launcher.split()[1:], "seq2attn"])


def test_the_page_on_development_names_existing_files_and_markers(request):
    page = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    paths = re.findall(r"(?:tests|scripts)/[\w./]*\w/?", page)
    assert len(paths) > 5 and [path for path in paths if not (ROOT / path).exists()] == []
    markers = re.findall(r"(?:pytest|test\.sh) -m (\w+)", page)
    known = [line.split(":")[0] for line in request.config.getini("markers")]
    assert {"slow", "cuda"} == {*markers} <= {*known}
    assert "FUZZ_SEED" in page and "FUZZ_SEED" in (ROOT / "tests/conftest.py").read_text(encoding="utf-8")


def test_the_minimal_program_is_short():
    assert len((ROOT / "scripts" / "minimal.py").read_text(encoding="utf-8").splitlines()) <= 150
