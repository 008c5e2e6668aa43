"""`seq2attn init` writes a config that is accepted, and overwrites nothing."""

import os
from pathlib import Path

import pytest
import yaml

from seq2attn.cli.starter import STARTER_MODELS, starter_config, starter_model
from seq2attn.config.load import load
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.models.build import assumed_vocab_sizes, build_on_meta_device
from seq2attn.tokenizers.tokenizer_config import load_tokenizer
from tests.support.commands import write_lines, write_toy

TEXT = ("text/train.de", "text/train.en", "--dev-source", "text/dev.de", "--dev-target", "text/dev.en")


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


@pytest.mark.parametrize("model", STARTER_MODELS, ids=lambda model: str(model.vocab_size))
def test_each_size_has_a_model(model, tmp_path):
    pairs = int(min(model.max_pairs, 10**7))
    assert starter_model(pairs) is model
    paths = (tmp_path / "a b: [c].de", tmp_path / "1.0")  # which YAML would take for other than text
    output = tmp_path / "my.yaml"
    text = starter_config(output, train=paths, dev=paths, run_dir=Path("runs/# 1"), num_pairs=pairs, num_characters=99)
    output.write_text(text, encoding="utf-8")
    config = load(output, ExperimentConfig)
    assert config.data.train[0].files == paths and config.run_dir == Path("runs/# 1")
    assert {*assumed_vocab_sizes(config.tokenizer)} == {model.vocab_size}
    build_on_meta_device(config.model, model.vocab_size, model.vocab_size)
    assert f"{model.dropout}  {model.reason}" in next(line for line in text.splitlines() if line.startswith("# > "))


@pytest.mark.parametrize("name", ["1.0", "no", "null", "1_0", "0x_", "a b: [c]", "# 1"])
def test_names_that_yaml_takes_for_other_than_text(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, output = Path(name), Path("my.yaml")
    text = starter_config(output, train=(path, path), dev=(path, path), run_dir=path, num_pairs=9, num_characters=9)
    output.write_text(text, encoding="utf-8")
    config = load(output, ExperimentConfig)
    assert config.run_dir == path and config.data.dev.files == (tmp_path / name, tmp_path / name)


def test_what_is_commented_out_is_right_as_well(tmp_path):
    path = tmp_path / "train.txt"
    text = starter_config(
        tmp_path / "my.yaml", train=(path, path), dev=(path, path), run_dir=path, num_pairs=9, num_characters=9
    )
    text = text.replace("  # test:", "  test:").replace("  #   news", "    news")
    commented = text.partition("  # An RNN")[2].splitlines()[1:4]
    lines = [line.replace("  # ", "  ", 1) for line in commented]
    rnn = yaml.safe_load("model:\n" + "\n".join(lines))
    assert [*rnn["model"]] == ["embeddings", "encoder", "decoder"]
    assert "news" in ExperimentConfig.model_validate(yaml.safe_load(text) | rnn).data.test


def test_nothing_is_overwritten(tmp_path, invoke):
    write_toy(tmp_path)
    (tmp_path / "my.yaml").write_text("mine", encoding="utf-8")
    assert "my.yaml: exists already" in invoke("init", *TEXT, code=2).err
    assert (tmp_path / "my.yaml").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("arguments", "lines", "message"),
    [
        (TEXT[:4], ["a"], "--dev-source and --dev-target"),
        (TEXT, ["a"], "1 line and text/dev.en has 12 lines"),
        (TEXT, [], "text/dev.de: is empty"),
    ],
)
def test_a_dev_set_that_is_missing_or_not_parallel_is_refused(tmp_path, invoke, arguments, lines, message):
    write_toy(tmp_path)
    write_lines(tmp_path / "text/dev.de", lines)
    assert message in invoke("init", *arguments, code=2).err.replace(f"{tmp_path}/", "")
    assert not (tmp_path / "my.yaml").exists()


def test_a_name_that_is_not_utf8_leaves_no_config(tmp_path, invoke):
    write_toy(tmp_path)
    name = os.fsdecode(b"tr\xe4in.de")
    (tmp_path / "text/train.de").rename(tmp_path / name)
    assert "is not UTF-8" in invoke("init", name, *TEXT[1:], code=2).err
    assert not (tmp_path / "my.yaml").exists()
