"""Commands and code of README and docs run as printed, with small models and few updates, and print what is shown."""

import itertools
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from torch.distributed.run import parse_args

import seq2attn
from seq2attn.diagnostics.run_checks import CHECKS
from seq2attn.visualization.attention_map import KIND_NAMES
from tests.support.commands import ROOT, invoke_in
from tests.support.pages import blocks, commands, run, text

CORPORA = ROOT.parent / "shared" / "corpora"
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "runs", "demo", "multi30k", "__pycache__", ".*_cache")
NUM_UPDATES = {"docs/export.md": 500, "docs/training.md": 60}  # so that sentences do not end by chance, or never
SHORTER = {
    "seq2attn speedrun configs": ["--target=0", "--set=training.validation.every=2 updates"],
    "python scripts/minimal.py": ["--updates=5"], "seq2attn init": ["--no-trial"],
}  # fmt: skip
MODULES = ("my_scores.py", "my_decoders.py", "my_alignments.py", "mine.yaml")
SLOW = (
    "alignment", "attention", "bert", "data", "doctor", "explorer", "export", "extending", "faq", "index", "python",
    "quickstart", "training", "translate",
)  # fmt: skip
"""Pages of docs/ whose commands run in the slow tests only."""


def copy_checkout(folder: Path) -> None:
    """A checkout with small models, short translations and little text."""
    for name in ("configs", "scripts", "data/phrasebook"):
        shutil.copytree(ROOT / name, folder / name)
    for config in (folder / "configs/phrasebook.yaml", *(folder / "configs").glob("*/*.yaml")):
        content = re.sub(r"dim: (128|192|256|384|680|1024)", "dim: 16", config.read_text(encoding="utf-8"))
        content = re.sub(r"vocab_size: (5000|9700)", "vocab_size: 500", content)
        config.write_text(content.replace("lengths: {", "lengths: {max_length: 20, "), encoding="utf-8")
    shorten_text(folder / "data/phrasebook")
    shutil.copytree(folder / "data/phrasebook", folder / "corpus")
    (folder / "docs").mkdir()


def shorten_text(folder: Path) -> None:
    """The beginning of each file."""
    for path in folder.glob("*.*"):
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")[: 600 if path.stem == "train" else 20]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def run_all(listed: list[str], home: Path, updates: int = 4) -> dict[str, str]:
    """The output of each command. Each training has more updates than those before, which it may resume."""
    outputs, counter = {}, itertools.count(updates)
    for command in listed:
        more = next((words for start, words in SHORTER.items() if command.startswith(start)), [])
        if command.startswith(("seq2attn train", "bash scripts/attention.sh")) and "--dry-run" not in command:
            more = [f"--set=training.max_duration=[{next(counter)} updates]"]
        outputs[command] = run(command, home, *more)
    return outputs


def with_other_seeds(listed: list[str]) -> Iterator[str]:
    """The commands, those with a run of another seed after its training as the text of the page describes it."""
    for command in listed:
        for run_dir, name, seed in re.findall(r"(runs/multi30k/([\w-]+)-seed-(\d))$", command):
            yield f"seq2attn train configs/multi30k/{name}.yaml --set training.seed={seed} --set run_dir={run_dir}"
        yield command


@pytest.mark.parametrize(
    "page", ["README.md", *(pytest.param(f"docs/{page}.md", marks=pytest.mark.slow) for page in SLOW)]
)
def test_the_commands_and_code_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_checkout(tmp_path)
    if page == "docs/extending.md":
        for name, block in zip(MODULES, [*blocks(page, "python"), *blocks(page, "yaml")], strict=True):
            (tmp_path / name).write_text(block, encoding="utf-8")
    if page in ("docs/explorer.md", "docs/translate.md"):
        run_all(["seq2attn train configs/phrasebook.yaml"], tmp_path)
    outputs = run_all(commands(page), tmp_path, NUM_UPDATES.get(page, 4))
    assert outputs or page == "docs/python.md"
    if page in ("README.md", "docs/bert.md", "docs/explorer.md", "docs/python.md"):
        code = re.sub(r"max_duration=\[?\d+ \w+\]?", "max_duration=5 updates", "\n".join(blocks(page, "python")))
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        exec(code, {})
        outputs["python"] = capsys.readouterr().out
    if page in OUTPUTS:
        OUTPUTS[page](outputs, tmp_path)


def check_readme(outputs: dict[str, str], home: Path) -> None:
    assert len(outputs["python"].splitlines()) == 1
    assert all((home / name).is_file() for name in ("runs/attention.html", "seq2attn.schema.json"))


def check_alignment(outputs: dict[str, str], home: Path) -> None:
    assert [out.startswith("layer  head") for out in outputs.values()] == [False, False, True, True]
    sources, links = (home / name for name in ("data/phrasebook/test.de", "runs/test.align"))
    assert links.read_bytes().count(b"\n") == sources.read_bytes().count(b"\n") > 0


def check_extending(outputs: dict[str, str], home: Path) -> None:
    assert len((home / "my_scores.py").read_text(encoding="utf-8").splitlines()) <= 30
    kinds = {
        "mine": "my_scores:DistanceScore",
        "my-decoder": "my_decoders:GRUDecoder",
        "my-alignment": "my_alignments:WindowAlignment",
    }
    for name, kind in kinds.items():
        assert kind in (home / f"runs/{name}/config.yaml").read_text(encoding="utf-8")


def check_index(outputs: dict[str, str], home: Path) -> None:
    update, bleu, source, *drawing = next(iter(outputs.values())).splitlines()
    assert update.startswith("update 5: loss ") and bleu.startswith("BLEU ")
    assert source.startswith("Die Mutter") and drawing[-1].startswith("weight:")
    assert "Die Mutter" in (home / "runs/minimal.html").read_text(encoding="utf-8")


def check_python(outputs: dict[str, str], home: Path) -> None:
    assert re.match(r"runs/python\n", outputs["python"])
    assert re.search(r"^\(1, 1, \d+, \d+\)$", outputs["python"], re.MULTILINE)
    assert all((home / "runs" / name).is_file() for name in ("attention.html", "attention.svg"))


def check_attention(outputs: dict[str, str], home: Path) -> None:
    steps = {path.stem for path in (ROOT / "configs/attention").glob("[0-9]*.yaml")}
    assert steps - {path.stem for path in (home / "docs/attention").glob("*.png")} == {"01-without"}


def check_bert(outputs: dict[str, str], home: Path) -> None:
    shown = re.findall(r"^.*: \d+ of \d+ held-out examples right \(100\.0%\)$", text("docs/bert.md"), re.MULTILINE)
    assert len(shown) == 2
    assert [line for line in outputs["python scripts/bert_heads.py"].splitlines() if "held-out" in line] == shown
    assert outputs["python"].startswith("torch.Size([2, ")


def check_doctor(outputs: dict[str, str], home: Path) -> None:
    (table,) = (out for command, out in outputs.items() if command.startswith("seq2attn doctor"))
    printed = [row.split()[:2] for row in text("docs/doctor.md").splitlines()]
    assert all(row.split()[:2] in printed for row in table.split("\n\n")[0].splitlines())
    assert " FAIL " not in table


def check_export(outputs: dict[str, str], home: Path) -> None:
    page = [line.split() for line in text("docs/export.md").splitlines()]
    for out in (out for command, out in outputs.items() if " export " in command and "int8" not in command):
        head, greedy, *_ = out.splitlines()
        assert head.split() in page and greedy.startswith("greedy") and "100.00%" in greedy


OUTPUTS = {
    "README.md": check_readme, "docs/alignment.md": check_alignment, "docs/extending.md": check_extending,
    "docs/index.md": check_index, "docs/python.md": check_python, "docs/attention.md": check_attention,
    "docs/bert.md": check_bert, "docs/doctor.md": check_doctor, "docs/export.md": check_export,
}  # fmt: skip


@pytest.mark.slow
def test_the_demonstration_on_a_fresh_copy(tmp_path: Path) -> None:
    """BLEU of at least 90 on unseen combinations, and pictures."""
    copy = tmp_path / "seq2attn"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    subprocess.run(["bash", "scripts/demo.sh", "here"], cwd=copy, check=True)
    bleu = json.loads((copy / "here/run/evaluation/unseen.json").read_text(encoding="utf-8"))["scores"][0]
    assert bleu["name"] == "BLEU" and bleu["value"] >= 90
    for name in ("attention.png", "bleu-by-length.png"):
        assert (copy / "here" / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.skipif(not CORPORA.is_dir(), reason="needs the corpora beside the checkout: shared/corpora")
@pytest.mark.parametrize(
    ("page", "corpora"),
    [
        ("docs/recipes.md", "multi30k"),
        ("docs/results.md", "multi30k"),
        ("docs/speedrun.md", "multi30k|tatoeba|target-"),
    ],
)
def test_every_command_with_multi30k_runs(page: str, corpora: str, tmp_path: Path) -> None:
    copy_checkout(tmp_path)
    found = dict.fromkeys(command for command in commands(page) if re.search(corpora, command))
    for download in (command for command in found if "download.py" in command):
        run(download, tmp_path, "--mirror", str(CORPORA))
        shorten_text(tmp_path / "data" / download.split()[-1])
    # Sweeps and reproductions would train for days: test_sweeps_and_reproductions_of_all_pages_are_valid checks them.
    listed = [command for command in found if not re.search("download.py| (sweep|reproduce) ", command)]
    run_all([*with_other_seeds(listed)], tmp_path)


def test_the_config_and_the_error_of_the_readme(tmp_path: Path) -> None:
    for name in (f"{part}.{side}" for part in ("train", "dev", "news") for side in ("de", "en")):
        (tmp_path / name).touch()
    (tmp_path / "readme.yaml").write_text("".join(blocks("README.md", "yaml")), encoding="utf-8")
    invoke_in(tmp_path, "config", "check", "readme.yaml")
    wrong = f"extends: {ROOT}/configs/phrasebook.yaml\nmodel:\n  encoder: {{kind: transfomer, layers: 2}}\n"
    (tmp_path / "mine.yaml").write_text(wrong, encoding="utf-8")
    done = invoke_in(tmp_path, "config", "check", "mine.yaml", code=2)
    assert f"```\n{done.err.strip()}\n```" in text("README.md")


@pytest.mark.parametrize(("page", "name"), [("docs/alignment.md", "phrasebook-guided"), ("docs/bert.md", "bert")])
def test_the_config_of_a_page_is_the_one_it_trains(page: str, name: str) -> None:
    (block,) = blocks(page, "yaml")
    config = yaml.safe_load(text(f"configs/{name}.yaml"))
    for key, shown in yaml.safe_load(block).items():
        assert shown == (config[key] if isinstance(shown, str) else {part: config[key][part] for part in shown})


def test_settings_of_training_commands_of_all_pages_are_valid() -> None:
    """Also of those that the quick tests do not run; those of BERT need a folder, and plug-ins their module."""
    pages = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
    listed = {command for page in pages for command in commands(page) if page != "docs/extending.md"}
    trainings = [command for command in listed if re.match(r"seq2attn train configs/(?!bert)", command)]
    assert len(trainings) > 10
    for command in trainings:
        config, *options = shlex.split(command)[2:]
        settings = [option for name, option in itertools.pairwise(options) if name == "--set"]
        invoke_in(ROOT, "config", "show", config, *(f"--set={setting}" for setting in settings))


def test_sweeps_and_reproductions_of_all_pages_are_valid() -> None:
    pages = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
    options = r" --jobs \d+| --mirror \S+| --redo| --dry-run"
    listed = {re.sub(options, "", command) for page in pages for command in commands(page)}
    found = [command for command in listed if re.match("seq2attn (sweep|reproduce) ", command)]
    assert len(found) > 5
    for command in found:
        assert "baseline" in invoke_in(ROOT, *shlex.split(command)[1:], "--dry-run").out


def test_torchrun_and_slurm_blocks_have_valid_syntax_and_options(tmp_path: Path) -> None:
    listed = [block for block in blocks("docs/training.md", r"\w*") if "my.yaml" in block]
    assert ["torchrun" in block for block in listed] == [True, False]
    (tmp_path / "my.yaml").write_text(f"extends: {ROOT}/configs/phrasebook.yaml\n", encoding="utf-8")
    for block in listed:
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)
        (command,) = (line for line in block.splitlines() if "seq2attn train" in line)
        launcher, arguments = command.split("seq2attn ")
        invoke_in(tmp_path, *shlex.split(arguments), "--dry-run")
        if launcher:
            parse_args([*launcher.split()[1:], "seq2attn"])


def test_all_commands_are_in_blocks_that_are_run() -> None:
    """Except those of torchrun and Slurm, and those of `--help` on a page that is made of it."""
    pages = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md") if path.name != "cli.md")]
    plain = [block for page in pages for block in blocks(page, "") if "#SBATCH" not in block]
    assert len(plain) > 20
    assert [line for block in plain for line in block.splitlines() if line.startswith("seq2attn ")] == []


def test_pages_name_all_pages_checks_and_public_names_and_existing_files(request: pytest.FixtureRequest) -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in text("docs/index.md")} == set()
    page = text("docs/doctor.md")
    assert [check for check in CHECKS if f"\n{check} " not in page or f"| {check} |" not in page] == []
    names = {*seq2attn.__all__} - {"Translator"}
    assert [name for name in names if f"`{name}" not in text("docs/python.md")] == []
    assert {name for name in seq2attn.__all__ if f"\n::: seq2attn.{name}\n" not in text("docs/api.md")} == set()
    kinds = " or ".join(f'`"{kind}"`' for kind in KIND_NAMES)
    assert f"`kind` ({kinds})" in text("docs/python.md")
    paths = [path for page in pages for path in re.findall(r"(?:tests|scripts)/[\w./]*\w/?", text(f"docs/{page}"))]
    assert len(paths) > 50 and [path for path in paths if not (ROOT / path).exists()] == []
    markers = re.findall(r"(?:pytest|test\.sh) -m (\w+)", text("docs/development.md"))
    known = [line.split(":")[0] for line in request.config.getini("markers")]
    assert {"slow", "cuda"} == {*markers} <= {*known}


def test_the_sentence_of_the_pictures_is_not_in_training() -> None:
    """It is one of the test set."""
    source, target = (
        re.findall(rf'^{name}="(.*)"$', text("scripts/attention.sh"), re.M)[0] for name in ("sentence", "reference")
    )
    pairs = zip(*(text(f"data/phrasebook/test.{side}").splitlines() for side in ("de", "en")), strict=True)
    assert (source, target) in pairs
    page = text("docs/attention.md")
    assert set(re.findall(r'^seq2attn translate \S+ "(.*?)"', page, re.M)) == {source}
    assert target in page
