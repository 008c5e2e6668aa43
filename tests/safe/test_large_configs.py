"""Configs and searches that are too large are refused at once."""

from pathlib import Path

import pytest

from seq2attn.config.load import load
from seq2attn.errors import ConfigError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.inference.search_options import check_size
from seq2attn.options import TranslationOptions
from seq2attn.search.search_config import MAX_LENGTH, BeamConfig, GreedyConfig, LengthsConfig
from tests.support.commands import Invoke
from tests.support.untrained_runs import CONFIG, untrained_run

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
LARGE = {
    "aliases": (BOMB, "too large for a config"),
    "merged": (BOMB.replace("[x, x, x, x, x, x, x, x, x, x]", "{x: y}"), "too large for a config"),
    "merge keys": (
        "a0: &a0 {x: y}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 9)),
        "too large for a config",
    ),
    "itself, merged": ("a: &a {<<: *a}", "contains itself"),
    "deep lists": ("a: " + "[" * 1500, "nested too deep"),
    "deep mappings": ("{a: " * 5000, "nested too deep"),
    "deep blocks": ("".join(" " * n + "a:\n" for n in range(300)), "nested too deep"),
    "aliases in a row": (
        "a0: &a0 {x: y}\n" + "".join(f"a{n}: &a{n} {{x: *a{n - 1}}}\n" for n in range(1, 300)),
        "nested too deep",
    ),
    "bytes": ("# " + "x" * 2**18, "more than 262,144 bytes"),
    "digits": ("run_dir: " + "1" * 5000, "is not a YAML int"),
    "hexadecimal digits": ("run_dir: 0x" + "f" * 5000, "this number is too large"),
    "base 60": ("run_dir: 1" + ":1" * 5000, "this number is too large"),
    "base 60, with a point": ("run_dir: 1" + ":1" * 5000 + ".5", "is not a YAML float"),
    "itself": ("a: &a [*a]", "contains itself"),
    "half a character": ('run: "\\ud800"', "text may not contain NUL"),
    "a NUL": ('run: "a\\0b"', "text may not contain NUL"),
    "a NUL in a key": ('"a\\0b": 1', "text may not contain NUL"),
    "unknown home": ("data: {train: {kind: tsv, path: ~nobody-here/x}}", "is not a valid path"),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_configs_are_refused(tmp_path: Path, name: str) -> None:
    content, message = LARGE[name]
    (tmp_path / "it.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load(tmp_path / "it.yaml", ExperimentConfig)


@pytest.mark.parametrize("keys", [20, 4000])
def test_at_most_twenty_mistakes_are_shown(tmp_path: Path, keys: int) -> None:
    """Suggestions for thousands of them would take minutes."""
    text = "run_dir: run\n" + "".join(f"modell{number}: 1\n" for number in range(keys)) + "\n" * (2**18 - 80_000)
    (tmp_path / "it.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "it.yaml", ExperimentConfig)
    count = str(error.value).count("unknown key") + str(error.value).count("is missing")
    *_, more, total = str(error.value).split("\n\n")
    missing = sum(field.is_required() for field in ExperimentConfig.model_fields.values()) - 1
    assert count == 20 and total == f"{keys + missing:,} mistakes in {tmp_path / 'it.yaml'}"
    assert more == f"... and {keys + missing - 20:,} more"


def test_mistakes_of_all_kinds_are_counted(tmp_path: Path) -> None:
    (tmp_path / "it.yaml").write_text("run_dir: run\n" * 31, encoding="utf-8")
    with pytest.raises(ConfigError, match="first in line 1") as error:
        load(tmp_path / "it.yaml", ExperimentConfig)
    message = str(error.value)
    assert message.count("it.yaml:") == 20 and "... and 13 more\n\n33 mistakes in" in message


@pytest.mark.parametrize(
    ("command", "search", "key"),
    [
        (("translate", "a"), "{kind: beam, beam_size: 1000, lengths: {max_length: 66}}", "beam_size"),
        (("evaluate",), "{kind: sample, num_samples: 2, lengths: {max_length: 32769}}", "num_samples"),
    ],
)
def test_only_the_user_may_set_a_large_search(
    tmp_path: Path, invoke: Invoke, command: tuple[str, ...], search: str, key: str
) -> None:
    before, _, after = CONFIG.partition("search: ")
    run = untrained_run(tmp_path, f"{before}search: {search}{after.partition(chr(10))[2]}\n")
    name, *arguments = command
    error = invoke(name, run.folder, *arguments, code=2).err
    assert f"{run.config_path}: its `search` follows" in error and f"--set search.{key}=5" in error
    for options in (["--beam", "2"], ["--greedy"], ["--set", f"search.{key}=3"]):
        invoke(name, run.folder, *arguments, *options, "--set", "search.lengths.max_length=5")


def test_the_largest_search_of_a_config() -> None:
    lengths = LengthsConfig(max_length=64)
    for search, overrides in (
        (BeamConfig(beam_size=1000, lengths=lengths), list[str]()),
        (GreedyConfig(lengths=LengthsConfig(max_length=MAX_LENGTH)), []),
        (BeamConfig(beam_size=1000), ["search.beam_size=1000"]),
    ):
        check_size(search, TranslationOptions(overrides=overrides), Path("it"))
    with pytest.raises(UserError, match="1,000 hypotheses of up to 256 tokens"):
        check_size(BeamConfig(beam_size=1000), TranslationOptions(overrides=["data.test={}"]), Path("it"))
