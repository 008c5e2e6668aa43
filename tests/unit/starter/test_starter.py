"""The configs of all candidates are valid, whatever the names of files and the scripts of the text."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from seq2attn.config.duration import Duration
from seq2attn.data.filter import FiltersConfig
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.options import InitOptions
from seq2attn.starter.candidates import Candidates
from seq2attn.starter.init import Starter
from seq2attn.starter.parallel_text import ParallelText, prepare_sample
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig

CANDIDATES = Candidates.load()
ENGLISH, GERMAN, RUSSIAN = "the old house, 1984.", "das alte Haus, 1984.", "старый дом и iPad, 1984."


def make_starter(folder: Path, *, name: str = "text", source: str = GERMAN, target: str = ENGLISH) -> Starter:
    files = folder / name, folder / f"{name}.2"
    text = ParallelText(files, 9_000_000, [(source, target)], 0)
    options = InitOptions(*files, dev_size=1, output=folder / "my.yaml", run_dir=Path(name))
    tokenizers = TokenizersConfig(**CANDIDATES.tokenizers(text))
    prepared = prepare_sample(tokenizers, FiltersConfig(), text, text.sample)
    return Starter(options, CANDIDATES, text, text, prepared, torch.device("cpu"), Duration(1, "hours"))


@pytest.mark.parametrize("source", [GERMAN, RUSSIAN], ids=["de", "ru"])
@pytest.mark.parametrize("row", CANDIDATES.rows, ids=lambda row: row.name)
def test_each_candidate_has_a_valid_config(row, source, tmp_path):
    config = make_starter(tmp_path, source=source).experiment(row)
    tie, is_joint = row.model["embeddings"].get("tie", "none"), source is GERMAN
    assert config.tokenizer.is_joint is is_joint
    assert config.model.embeddings.tie == (tie if is_joint or tie != "all" else "output")
    assert config.model.encoder.kind == row.model["encoder"]["kind"]
    assert config.training.optimizer.lr == row.training["optimizer"]["lr"]
    assert config.training.batch.tokens == row.training["batch"]["tokens"]
    assert [*config.training.max_duration] == [Duration(1, "hours")]


def test_smaller_batches_have_a_lower_learning_rate(tmp_path):
    row, text = CANDIDATES.rows[0], make_starter(tmp_path)
    usual = text.experiment(row).training
    small = replace(text, train=replace(text.train, num_pairs=9)).experiment(row).training
    share = small.batch.require_tokens() / usual.batch.require_tokens()
    assert share < 0.5 and small.optimizer.lr == pytest.approx(usual.optimizer.lr * share**0.5, rel=0.05)


@pytest.mark.parametrize("name", ["1.0", "no", "null", "1_0", "0x_", "a b: [c]", "# 1", "{pairs}"])
def test_names_that_yaml_takes_for_other_than_text(name, tmp_path):
    config = make_starter(tmp_path, name=name).experiment(CANDIDATES.rows[0])
    assert config.run_dir == Path(name)
    assert config.data.dev.files == config.data.train[0].files == (tmp_path / name, tmp_path / f"{name}.2")


def test_what_is_commented_out_is_right_as_well(tmp_path):
    text = make_starter(tmp_path).text(CANDIDATES.rows[0], ["several\nlines"])
    assert "\n# several\n# lines\n" in text
    text = text.replace("  # test:", "  test:").replace("  #   news", "    news").replace("  # lengths", "  lengths")
    config = ExperimentConfig.model_validate(yaml.safe_load(text))
    assert "news" in config.data.test and config.search.lengths.source_language == "de"


@pytest.mark.parametrize(
    ("source", "target", "is_shared"),
    [
        (GERMAN, ENGLISH, True),
        (RUSSIAN, ENGLISH, False),
        (RUSSIAN, "стари дом и Београд", True),
        ("古い家, 1984.", ENGLISH, False),
        ("1984", "1984", False),
    ],
)
def test_one_script_is_that_of_the_letters(source, target, is_shared, tmp_path):
    assert ParallelText((tmp_path, tmp_path), 1, [(source, target)], 0).has_one_script is is_shared
