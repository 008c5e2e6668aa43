"""`seq2attn init` writes a config that is accepted and suits text, machine and time, and overwrites nothing."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

from seq2attn.config.load import load
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.models.build import build_on_meta_device, count_parameters
from seq2attn.options import InitOptions
from seq2attn.starter.init import init
from seq2attn.tokenizers.tokenizer_config import load_tokenizer, load_tokenizers
from seq2attn.training.plan import Speed
from tests.support.commands import ENVIRONMENT, ROOT, command, write_lines, write_toy

FILES = ("text/train.de", "text/train.en")
TEXT = (*FILES, "--dev-source", "text/dev.de", "--dev-target", "text/dev.en", "--no-trial", "--device", "cpu")
PHRASEBOOK = ROOT / "data/phrasebook"


def config_of(folder: Path) -> ExperimentConfig:
    return load(folder / "my.yaml", ExperimentConfig, check_files=True)


def test_its_paths_are_those_of_the_command_line(tmp_path, invoke):
    write_toy(tmp_path)
    invoke("init", *TEXT, "-o", "configs/mine.yaml")
    config = load(tmp_path / "configs/mine.yaml", ExperimentConfig)
    assert config.data.train[0].files == (tmp_path / "text/train.de", tmp_path / "text/train.en")
    assert config.data.dev.files == (tmp_path / "text/dev.de", tmp_path / "text/dev.en")
    assert config.run_dir == Path("runs/mine")
    done = invoke("init", *TEXT, "-o", "my configs/mine.yaml")
    assert done.out.endswith("; next: seq2attn train 'my configs/mine.yaml'\n")


def test_a_path_in_the_home_folder(tmp_path, invoke, monkeypatch):
    write_toy(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "text"))
    home = [part.replace("text/", "~/") for part in TEXT]
    invoke("init", *home, "-o", "configs/mine.yaml")
    files = load(tmp_path / "configs/mine.yaml", ExperimentConfig, check_files=True).data.train[0].files
    assert files == (tmp_path / "text/train.de", tmp_path / "text/train.en")


def test_a_text_of_many_characters_has_a_larger_vocabulary(tmp_path, invoke):
    """As Chinese: by the number of pairs the vocabulary would have fewer entries than the text has characters."""
    write_toy(tmp_path)
    characters = [chr(0x4E00 + number) for number in range(2500)]
    lines = ["".join(characters[start : start + 25]) for start in range(0, 2500, 25)]
    write_lines(tmp_path / "text/train.de", lines)
    write_lines(tmp_path / "text/train.en", ["a b"] * len(lines))
    invoke("init", *TEXT)
    invoke("prepare", "my.yaml")
    assert set(characters) < {*"".join(load_tokenizer(tmp_path / "runs/my/source").vocabulary.tokens)}


def test_a_trial_on_this_machine(tmp_path, invoke):
    """Of a moment only: then the config is checked, its model is built, and the table is that of the comments."""
    write_toy(tmp_path)
    lines = list[str]()
    paths = [tmp_path / f"text/{name}" for name in ("train.de", "train.en", "dev.de", "dev.en")]
    options = InitOptions(*paths, hours=0.5, device="cpu", output=tmp_path / "my.yaml")
    estimate = init(options, lines.append, trial_seconds=0.1)
    text = (tmp_path / "my.yaml").read_text(encoding="utf-8")
    assert "my.yaml: ok" in invoke("config", "check", "my.yaml").out
    assert " parameters, " in invoke("train", "my.yaml", "--dry-run").out
    shown = [f"# {line}" for line in "\n".join(lines).split("\n") if line in text]
    assert text.count("\n# model ") == 1 and "\n".join(shown[shown.index("# 0.5 hours on cpu, measured:") :]) in text
    assert [line for line in shown if line.startswith(f"# {estimate.candidate.name} ")]
    config = config_of(tmp_path)
    assert config.training.device == "cpu"
    assert {path.name for path in tmp_path.iterdir()} == {"my.yaml", "text", "toy.yaml"}
    invoke("prepare", "my.yaml")
    sizes = map(len, load_tokenizers(tmp_path / "runs/my").vocabularies)
    assert f"  {count_parameters(build_on_meta_device(config.model, *sizes)):,}  " in text


@pytest.mark.parametrize(
    ("capabilities", "precision"),
    [
        ({"avx2": True}, "auto"),
        ({"amx_bf16": True}, "bfloat16"),
        ({"avx512_bf16": True, "amx_bf16": False}, "bfloat16"),
    ],
)
def test_bfloat16_where_the_processor_multiplies_it(tmp_path, invoke, monkeypatch, capabilities, precision):
    write_toy(tmp_path)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    done = invoke("init", *TEXT, "-o", "my.yaml")
    assert config_of(tmp_path).training.precision == precision
    is_said = "bfloat16: this processor has instructions for it" in (tmp_path / "my.yaml").read_text(encoding="utf-8")
    assert is_said == ("bfloat16: this" in done.out + done.err) == (precision == "bfloat16")


@pytest.mark.slow
def test_the_phrasebook_in_an_hour(tmp_path, invoke):
    """The trial of twenty seconds, for which the dev set is split off; its training begins."""
    done = invoke("init", PHRASEBOOK / "train.de", PHRASEBOOK / "train.en", "--dev-size", 500, "--hours", 0.02)
    assert "trying models on" in done.out and "BLEU*" in done.out
    invoke("config", "check", "my.yaml")
    invoke("train", "my.yaml", "--set", "training.max_duration=[4 updates]")
    assert len((tmp_path / "my-split/dev.source").read_text(encoding="utf-8").splitlines()) == 500


@pytest.mark.slow
def test_a_trial_that_is_killed_leaves_nothing(tmp_path):
    write_toy(tmp_path)
    (tmp_path / "tmp").mkdir()
    words = command("init", *FILES, "--dev-size", 10)
    environment = {**ENVIRONMENT, "TMPDIR": str(tmp_path / "tmp"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("trying models" in line for line in process.stdout)
        process.kill()
    assert {path.name for path in tmp_path.iterdir()} == {"text", "toy.yaml", "tmp"}
    assert [path for path in (tmp_path / "tmp").rglob("*") if path.is_file()] == []


def test_a_dev_set_of_its_own(tmp_path, invoke):
    write_toy(tmp_path)
    before = [(tmp_path / name).read_bytes() for name in FILES]
    done = invoke("init", *FILES, "--dev-size", 10, "--no-trial")
    assert "my-split: training text and dev set" in done.out
    assert [(tmp_path / name).read_bytes() for name in FILES] == before
    config = config_of(tmp_path)
    (train,) = config.data.train
    assert {file.parent.name for file in (*train.files, *config.data.dev.files)} == {"my-split"}
    pairs = [pair.text for corpus in (train, config.data.dev) for pair in corpus.pairs()]
    assert len([*config.data.dev.pairs()]) == 10
    assert sorted(pairs) == sorted(zip(*((tmp_path / name).read_text().splitlines() for name in FILES), strict=True))
    assert "my-split: exists already" in invoke("init", *FILES, "--dev-size", 10, "-o", "my.yml", code=2).err


def test_a_large_dev_set_is_validated_on_a_part(tmp_path, invoke):
    write_toy(tmp_path)
    invoke("init", *TEXT)
    assert config_of(tmp_path).training.validation.max_sentences is None
    for side in ("de", "en"):
        write_lines(tmp_path / f"text/dev.{side}", [f"{number} {side}" for number in range(501)])
    invoke("init", *TEXT, "-o", "large.yaml")
    assert load(tmp_path / "large.yaml", ExperimentConfig).training.validation.max_sentences == 500


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "inf", "1e9"])
def test_hours_that_are_no_time(tmp_path, invoke, hours):
    write_toy(tmp_path)
    assert f"--hours {float(hours):g}" in invoke("init", *TEXT, "--hours", hours, code=2).err
    assert not (tmp_path / "my.yaml").exists()


def test_a_time_that_is_too_short(tmp_path, invoke):
    write_toy(tmp_path)
    done = invoke("init", *TEXT, "--hours", "0.00001")
    assert re.search(r"too short for one epoch \(\S+ hours with convolutional, 3 \+ 3 layers", done.out)
    assert "too short" not in invoke("init", *TEXT, "--hours", 1, "-o", "long.yaml").out


def test_a_time_that_is_too_short_names_models_that_were_tried(tmp_path, monkeypatch):
    """On a machine that is slower than the table, whose other models seem faster."""
    write_toy(tmp_path)
    monkeypatch.setattr("seq2attn.starter.init.measure_speed", lambda *_: Speed(1.0, 0.1, 1.0))
    lines, paths = list[str](), [tmp_path / f"text/{name}" for name in ("train.de", "train.en", "dev.de", "dev.en")]
    init(InitOptions(*paths, hours=0.001, device="cpu", output=tmp_path / "my.yaml"), lines.append)
    (named,) = re.findall(r"too short for one epoch \((.*)\): give", "\n".join(lines))
    assert named.count("hours with") == 1


def test_a_dev_set_that_is_training_text(tmp_path, invoke):
    write_toy(tmp_path)
    write_lines(tmp_path / "text/dev.de", [f"neu {number}" for number in range(12)])
    assert "pairs are training pairs" not in invoke("init", *TEXT, "--no-trial").out
    done = invoke("init", *FILES, "--dev-source", FILES[0], "--dev-target", FILES[1], "--no-trial", "-o", "same.yaml")
    assert re.search(r"warning: dev: (\d+) of 120 pairs are training pairs.*--dev-size 500 splits", done.out)


def test_a_text_that_is_too_small_for_the_time(tmp_path, invoke):
    write_toy(tmp_path)
    warning = r"warning: the text is so small that it is seen [\d,]+ times: give more text or less time"
    assert re.search(warning, invoke("init", *TEXT, "--hours", 1).out)
    assert not re.search(warning, invoke("init", *TEXT, "--hours", 0.001, "-o", "short.yaml").out)


def test_nothing_is_overwritten(tmp_path, invoke):
    write_toy(tmp_path)
    (tmp_path / "my.yaml").write_text("mine", encoding="utf-8")
    done = invoke("init", *[word for word in TEXT if word != "--no-trial"], code=2)
    assert "my.yaml: exists already" in done.err and done.out == ""  # before the trial
    assert (tmp_path / "my.yaml").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("arguments", "lines", "message"),
    [
        (TEXT[:4], ["a"], "--dev-source and --dev-target, or else --dev-size 500"),
        ((*TEXT, "--dev-size", "3"), ["a"], "--dev-source and --dev-target, or else"),
        (("text/train.de", "text/train.en", "--dev-size", "61", "--no-trial"), ["a"], "at most half of the 120 pairs"),
        (TEXT, ["a"], "1 line and text/dev.en has 12 lines"),
        (TEXT, [], "text/dev.de: is empty"),
    ],
)
def test_a_dev_set_that_is_missing_or_not_parallel_is_refused(tmp_path, invoke, arguments, lines, message):
    write_toy(tmp_path)
    write_lines(tmp_path / "text/dev.de", lines)
    assert message in invoke("init", *arguments, code=2).err.replace(f"{tmp_path}/", "")
    assert not (tmp_path / "my.yaml").exists()


@pytest.mark.parametrize("file", ["train.de", "dev.en"])
def test_a_text_of_blank_lines_is_refused(tmp_path, invoke, file):
    write_toy(tmp_path)
    path = tmp_path / "text" / file
    write_lines(path, [""] * len(path.read_text(encoding="utf-8").splitlines()))
    assert invoke("init", *TEXT, code=2).err == f"error: text/{file}: has no text: its lines are blank\n"
    if file == "train.de":  # before a dev set is split off
        assert "its lines are blank" in invoke("init", *FILES, "--dev-size", 10, code=2).err


def test_a_text_of_which_no_pair_is_left_is_named_as_it_was_given(tmp_path, invoke):
    """And not by the name that it would get without the dev set that is split off."""
    write_toy(tmp_path)
    write_lines(tmp_path / "text/train.de", [f"a b c d e f {number}" for number in range(120)])
    write_lines(tmp_path / "text/train.en", [chr(0x4E00 + number) for number in range(120)])
    error = invoke("init", *FILES, "--dev-size", 10, "--no-trial", code=2).err
    reason = "no pair is left to train on: kept 0 of 120 pairs; left out: 120 unbalanced"
    assert error.startswith(f"error: {tmp_path}/text/train.de: {reason}")


@pytest.mark.parametrize("output", ["", ".", "/"])
def test_a_folder_is_no_config(tmp_path, invoke, output):
    write_toy(tmp_path)
    error = invoke("init", *TEXT, "-o", output, code=2).err
    advice = "give the file of the config as --output, such as --output my.yaml"
    assert error == f"error: {Path(output)}: is a folder; {advice}\n"


@pytest.mark.parametrize("options", [["--dev-size=5"], [*TEXT[2:]]])
def test_a_pipe_is_no_text(tmp_path, invoke, options):
    """No config can name it, and it can be read once."""
    write_toy(tmp_path)
    read, write = os.pipe()
    os.write(write, (tmp_path / TEXT[0]).read_bytes()[:4096])
    os.close(write)
    error = invoke("init", f"/dev/fd/{read}", TEXT[1], *options, "-o", "my.yaml", code=2).err
    os.close(read)
    advice = "write text from a pipe or a device to a file first"
    assert error == f"error: /dev/fd/{read}: is not a regular file; {advice}\n"
    assert not (tmp_path / "my.yaml").exists()


def test_a_name_that_is_not_utf8_leaves_no_config(tmp_path, invoke):
    write_toy(tmp_path)
    name = os.fsdecode(b"tr\xe4in.de")
    (tmp_path / "text/train.de").rename(tmp_path / name)
    assert "is not UTF-8" in invoke("init", name, *TEXT[1:], code=2).err
    assert not (tmp_path / "my.yaml").exists()
