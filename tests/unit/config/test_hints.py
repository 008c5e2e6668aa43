"""Hints of config errors, changed kinds on the command line, single values for lists, and missing files."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from seq2attn.cli import app
from seq2attn.config.base import Config
from seq2attn.config.hints import HINTS
from seq2attn.config.load import dump, load
from seq2attn.errors import ConfigError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.optim.lr_schedules import CosineScheduleConfig
from seq2attn.optim.optimizers import SGDConfig
from seq2attn.search.search_config import LengthsConfig

Write = Callable[[str], Path]
WHOLE = """\
run_dir: run
data:
  train: {kind: plain, source: a.de, target: a.en}
  dev: {kind: plain, source: a.de, target: a.en}
tokenizer: {joint: {kind: words}}
model:
  encoder: {kind: gru, dim: 12, layers: 2}
  decoder: {kind: luong, dim: 16, cell: lstm, input_feeding: false}
search: {kind: beam, beam_size: 3, patience: 1.5, lengths: {max_length: 9}}
"""
TOKENS, WARMUP = "batch: {tokens: 0}", "lr_schedule: {kind: inverse-sqrt, warmup_updates: 0}"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        path = tmp_path / "my.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def error_of(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as raised:
        load(path, ExperimentConfig, overrides)
    return str(raised.value)


def members(annotation: Any) -> list[type[Config]]:
    """The config classes in the type of a field, in those of its items and in unions."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return [annotation]
    return [member for part in get_args(annotation) for member in members(part)]


def has_key(names: list[str], models: list[type[Config]]) -> bool:
    """True if one of the models has a dotted key."""
    types = [model.model_fields[names[0]].annotation for model in models if names[0] in model.model_fields]
    inner = [member for annotation in types for member in members(annotation)]
    return bool(types) and (len(names) == 1 or has_key(names[1:], inner))


def every_model(model: type[Config]) -> set[type[Config]]:
    inner = {member for field in model.model_fields.values() for member in members(field.annotation)}
    return {model}.union(*map(every_model, inner))


class TestHints:
    @pytest.mark.parametrize("place", HINTS)
    def test_their_keys_exist(self, place: str) -> None:
        for name in re.findall(r"`([a-z_.]+)`", place):
            models = [ExperimentConfig] if "." in name else list(every_model(ExperimentConfig))
            assert has_key(name.split("."), models), name

    @pytest.mark.parametrize(
        ("key", "ours"),
        [
            ("lr", "training.optimizer.lr"),
            ("training.batch.batch-size", "training.batch.tokens"),
            ("training.max_epochs", "training.max_duration"),
            ("tokenizer.sentencepiece", "tokenizer"),
            ("data.train.src", "source"),
            ("model.encoder.num_layers", "layers"),
        ],
    )
    def test_the_key_of_seq2attn_is_named(self, write: Write, key: str, ours: str) -> None:
        line = error_of(write(WHOLE), f"{key}=3").splitlines()[0]
        assert re.match(rf"<command line>:1:\d+: unknown key `{key}`; seq2attn calls it `{ours}`", line)

    @pytest.mark.parametrize(
        ("override", "hint"),
        [
            ("search.kind=greedy search.beam_size=5", "; known: kind, no_repeat_ngram_size, lengths"),
            ("training.lr_schedule={kind: halving, warmup_updates: 5}", "; known: kind, start_epoch, every_epochs"),
            ("model.encoder.ffn_dim=5", "; did you mean `dim`?"),
            ("search.length_penalty=gnmt", "; did you mean `lengths.length_penalty`?"),
            ("search.max_source_length=9", "; did you mean `lengths.max_source_length`?"),
            ("beam_size=5", "; seq2attn calls it `search.beam_size`"),
            ("name=mine", "; known: run_dir, data, tokenizer, model, training, search, evaluation"),
            ("model.decoder.attention={algn: {kind: global}}", "; did you mean `align`?"),
        ],
    )
    def test_a_key_of_another_kind_or_place(self, write: Write, override: str, hint: str) -> None:
        overrides = override.split() if override.startswith("search.kind") else [override]
        assert error_of(write(WHOLE), *overrides).splitlines()[0].endswith(hint)

    @pytest.mark.parametrize(
        ("override", "kinds"),
        [
            ("model.encoder={kind: gru, heads: 4}", "; the kind `transformer` has it; "),
            ("model.encoder={kind: gru, head: 4}", ""),
            ("search={kind: greedy, num_samples: 4}", "; the kind `sample` has it; "),
        ],
    )
    def test_kinds_that_have_a_key(self, write: Write, override: str, kinds: str) -> None:
        message = error_of(write(WHOLE), override)
        assert message.count(" has it") == bool(kinds) and kinds in message

    def test_a_kind_as_a_plain_word(self, write: Write) -> None:
        assert "; write `{kind: adam}`" in error_of(write(WHOLE + "training: {optimizer: Adam}"))
        assert "; write `{kind: adam}`" in error_of(write(WHOLE + "training: {optimizer: adm}"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.validation.patience=true", "`training.validation.patience` should be a whole number, not true"),
        ("training.r_drop=yes", "`training.r_drop` should be a number, not yes"),
        ("training.batch.tokens=on", "`training.batch.tokens` should be a whole number or 'auto' or 'fit', not on"),
        ("search.patience=.inf", "`search.patience` should be a finite number, not .inf"),
        ("training.optimizer={kind: sgd, lr: .nan}", "`training.optimizer.lr` should be a finite number, not .nan"),
        ("run_dir=''", "`run_dir`: is empty; give a folder, for example runs/my-run"),
    ],
)
def test_values_that_only_look_like_numbers_or_paths(write: Write, override: str, message: str) -> None:
    assert message in error_of(write(WHOLE), override)


class TestAnotherKind:
    def test_common_keys_are_kept_and_others_named(self, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
        config = load(write(WHOLE), ExperimentConfig, ["search.kind=greedy", "model.decoder.kind=bahdanau"])
        decoder = config.model.decoder
        assert (config.search.kind, config.search.lengths.max_length) == ("greedy", 9)
        assert (decoder.kind, decoder.dim, decoder.cell) == ("bahdanau", 16, "lstm")
        assert capsys.readouterr().err.splitlines() == [
            "`model.decoder` of kind `bahdanau` has no `model.decoder.input_feeding`: dropped",
            "`search` of kind `greedy` has no `search.beam_size`, `search.patience`: dropped",
        ]
        encoder = load(write(WHOLE), ExperimentConfig, ["model.encoder.kind=lstm"]).model.encoder
        assert (encoder.kind, encoder.dim, encoder.layers) == ("lstm", 12, 2)
        assert capsys.readouterr().err == ""

    def test_a_kind_that_is_left_out_is_the_default(self, write: Write, tmp_path: Path) -> None:
        base = (
            WHOLE.replace("kind: beam, ", "") + "training: {optimizer: {lr: 0.5}, lr_schedule: {warmup_updates: 7}}\n"
        )
        over = tmp_path / "over.yaml"

        def changed(search: str, optimizer: str, schedule: str) -> ExperimentConfig:
            parts = f"optimizer: {{kind: {optimizer}}}, lr_schedule: {{kind: {schedule}}}"
            text = f"extends: {write(base)}\nsearch: {{kind: {search}}}\ntraining: {{{parts}}}"
            over.write_text(text, encoding="utf-8")
            return load(over, ExperimentConfig)

        same, other = changed("beam", "adam", "inverse-sqrt"), changed("greedy", "sgd", "cosine")
        assert same == load(write(base), ExperimentConfig)
        assert (other.search.lengths, other.training.optimizer.lr) == (LengthsConfig(), SGDConfig().lr)
        assert other.training.lr_schedule == CosineScheduleConfig()

    def test_defaults_in_the_config_of_a_run_are_not_named(
        self, write: Write, capsys: pytest.CaptureFixture[str]
    ) -> None:
        messages = []
        for text in (WHOLE, dump(load(write(WHOLE), ExperimentConfig))):
            load(write(text), ExperimentConfig, ["search.kind=greedy", "model.decoder.kind=bahdanau"])
            messages.append(capsys.readouterr().err)
        assert messages[0] == messages[1]

    @pytest.mark.parametrize("override", ["encoder={kind: lstm}", "decoder={kind: luong, dim: 8}", "encoder={}"])
    def test_a_mapping_means_the_same_as_in_a_file(self, write: Write, override: str, tmp_path: Path) -> None:
        path, (key, value) = write(WHOLE), override.split("=")
        over = tmp_path / "over.yaml"
        over.write_text(f"extends: {path}\nmodel: {{{key}: {value}, embeddings: {{dim: 6}}}}", encoding="utf-8")
        overrides = [f"model.{override}", "model.embeddings.dim=6"]
        for one in (overrides, overrides[::-1]):
            assert load(path, ExperimentConfig, one) == load(over, ExperimentConfig)

    def test_a_key_beside_the_mapping(self, write: Write) -> None:
        overrides = ["model.encoder={kind: lstm}", "model.encoder.dim=8"]
        for one in (overrides, overrides[::-1]):
            encoder = load(write(WHOLE), ExperimentConfig, one).model.encoder
            assert (encoder.kind, encoder.dim, encoder.layers) == ("lstm", 8, 1)

    def test_overrides_are_never_dropped(self, write: Write) -> None:
        path = write(WHOLE)
        assert load(path, ExperimentConfig, ["search.kind=sample", "search.num_samples=7"]).search.num_samples == 7
        assert "unknown key `search.beam_size`" in error_of(path, "search.beam_size=7", "search.kind=greedy")

    def test_a_mistake_in_a_component_of_the_same_kind_is_not_dropped(self, write: Write) -> None:
        path = write(WHOLE.replace("patience", "patienc"))
        assert "unknown key `search.patienc`; did you mean `patience`?" in error_of(path, "search.kind=beam")

    def test_an_unknown_kind_is_the_only_mistake(self, write: Write) -> None:
        text = error_of(write(WHOLE), "search.kind=greedi")
        assert "did you mean `greedy`?" in text and text.endswith("1 mistake on the command line")


def test_no_test_sets_although_an_extended_file_has_some(write: Write, tmp_path: Path) -> None:
    path = write(WHOLE.replace("dev:", "test: {one: {kind: plain, source: a.de, target: a.en}}\n  dev:"))
    over = tmp_path / "over.yaml"
    two = "two: {kind: tsv, path: a.tsv}"
    over.write_text(f"extends: {path}\ndata: {{test: {{one: null, {two}}}}}\n", encoding="utf-8")
    assert [*load(over, ExperimentConfig).data.test] == ["two"]
    over.write_text(f"extends: {path}\ndata: {{test: null}}\n", encoding="utf-8")
    assert [*load(path, ExperimentConfig).data.test] == ["one"]
    assert load(over, ExperimentConfig).data.test == {} == load(path, ExperimentConfig, ["data.test=null"]).data.test


def test_a_test_set_without_a_name(write: Write) -> None:
    path = write(WHOLE.replace("dev:", "test: {kind: tsv, path: a.tsv}\n  dev:"))
    assert (
        "`data.test.kind` should be a mapping, not 'tsv'; `data.test` has names: write `{NAME: {kind: tsv"
        in error_of(path)
    )


class TestOneForAList:
    def test_one_duration(self, write: Write) -> None:
        one, many = (
            load(write(WHOLE + f"training: {{max_duration: {duration}}}"), ExperimentConfig).training.max_duration
            for duration in ("20 epochs", "[20 epochs]")
        )
        assert one == many

    def test_a_time_in_seconds(self, write: Write) -> None:
        limit = load(write(WHOLE + "training: {time_limit: 175 minutes}"), ExperimentConfig).training.time_limit
        assert limit is not None and limit.seconds == 10_500

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ("max_duration: 20", "10:26: `training.max_duration`: a duration is a number and a unit"),
            ("max_duration: {}", "10:26: `training.max_duration`: a duration is a number and a unit"),
            ("max_duration: [1 hour, 0 hours]", "10:35: `training.max_duration.1`: a duration should be longer than 0"),
            ("time_limit: 3 epochs", "10:24: `training.time_limit`: expected a time"),
            # A union: quotes are proposed only where they help.
            (TOKENS, "10:28: `training.batch.tokens` should be greater than 0 or 'auto' or 'fit', not 0\n"),
            (WARMUP, "10:62: `training.lr_schedule.warmup_updates` should be greater than 0 or 'auto', not 0\n"),
        ],
    )
    def test_a_mistake_has_a_place(self, write: Write, value: str, message: str) -> None:
        text = error_of(write(WHOLE + f"training: {{{value}}}"))
        assert text.endswith(f"1 mistake in {write('')}")
        assert f"my.yaml:{message}" in text


def test_missing_files_are_named_with_their_places(write: Write, tmp_path: Path) -> None:
    text = WHOLE + "training: {guided_alignment: {}}\n"
    text = text.replace("target: a.en}", "target: a.en, alignment: no.align}", 1)
    path = write(text.replace("model:", "model:\n  embeddings: {source_vectors: ~/no.vec}"))
    for name in ("a.de", "a.enn"):
        (tmp_path / name).touch()
    changes = [f"--set=data.dev.source={tmp_path}/a.xx", "--set=model.embeddings.tie=output"]
    done = CliRunner().invoke(app, ["config", "check", str(path), *changes])
    assert "`model.embeddings.tie`: embeddings 256 wide cannot" in done.stderr  # with other mistakes
    lines = [line for line in done.stderr.splitlines() if "there is no such file" in line]
    assert [line.split("`")[1] for line in lines] == [
        "data.train.target", "data.train.alignment", "data.dev.target", "model.embeddings.source_vectors",
        "data.dev.source",
    ]  # fmt: skip
    assert lines[0] == (
        f"{path}:3:46: `data.train.target`: there is no such file: {tmp_path / 'a.en'}; did you mean `a.enn`?"
    )
    (tmp_path / "a.en").touch()
    assert CliRunner().invoke(app, ["config", "check", str(write(WHOLE))]).exit_code == 0


def test_a_device_that_does_not_exist(write: Write, tmp_path: Path) -> None:
    path = write(WHOLE + "training: {device: 'cuda:77'}")
    done = CliRunner().invoke(app, ["train", str(path), "--set", f"run_dir={tmp_path / 'run'}"])
    assert done.exit_code == 2 and not (tmp_path / "run").exists()
    assert f"{path}:10:20: `training.device`: there is no device `cuda:77` here; known: auto, cpu" in done.stderr
