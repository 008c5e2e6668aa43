"""Trials of a sweep's file, and the messages about its mistakes."""

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2attn.errors import ConfigError
from seq2attn.sweep.plan import load_plan
from seq2attn.sweep.run_sweep import describe_plan
from seq2attn.sweep.sweep_config import AxisConfig, expand
from tests.support.untrained_runs import CONFIG
from tests.support.untrained_runs import SWEEP as TWO_SIZES

ROOT = Path(__file__).parents[3]
BASE = """\
run_dir: runs/base
data:
  train: {kind: plain, source: train.de, target: train.en}
  dev: {kind: plain, source: dev.de, target: dev.en}
  test:
    first: {kind: plain, source: test.de, target: test.en}
tokenizer:
  joint: {kind: bpe, vocab_size: 300}
model:
  embeddings: {dim: 16}
  encoder: {kind: gru, dim: 16}
  decoder: {kind: luong, dim: 16, attention: {score: {kind: general}}}
"""
SWEEP = """\
base: base.yaml
folder: runs/sweep
changes:
  training: {max_duration: [3 updates]}
axes:
  encoder:
    at: model.encoder
    choices:
      bigru: {kind: gru, dim: 16}
      small: {dim: 8}
  decoder:
    at: model.decoder
    choices:
      fixed: {kind: fixed-context, dim: 16}
      luong: {}
  score:
    at: model.decoder.attention.score
    choices:
      own: {}
      additive: {kind: additive, dim: 8}
trials:
  - {encoder: [bigru, small], decoder: luong, score: [own, additive]}
  - {encoder: [bigru, small], decoder: fixed}
seeds: [1, 2]
baseline: {encoder: bigru, decoder: luong, score: own}
"""
RESERVED = "`run_dir` and `training.seed` are set by the sweep"
OTHER_AXIS = "  other: {choices: {fixed: {}}}\n"
MISTAKES = [
    ("base.yaml", "bas.yaml", "sweep.yaml:1:7: `base`: there is no file "),
    ("runs/sweep", "''", "sweep.yaml:2:9: `folder`: is empty; give a folder"),
    ("[1, 2]", "[1, 1]", "sweep.yaml:24:8: `seeds`: a seed is repeated"),
    (
        "    at: model.decoder\n    choices:\n",
        "    choices:\n      gru: gru\n",
        "choice should be a mapping, the path",
    ),
    ("baseline: {encoder", "baseline: {encodr", "sweep.yaml:25:20: `baseline.encodr`: there is no axis `encodr`; did"),
    ("own}", "oun}", "`baseline.score`: `score` has no choice `oun`; did you mean `own`?"),
    (", score: own}", "}", "`baseline`: is none of the 6 trials: bigru+luong+own, bigru+luong+additive, small+luong"),
    ("small], decoder: f", "smal], decoder: f", "sweep.yaml:23:15: `trials.1.encoder`: `encoder` has no choice `smal`"),
    (
        "trials:\n",
        f"{OTHER_AXIS}trials:\n  - {{encoder: bigru, other: fixed}}\n",
        "two trials have the name bigru+fixed",
    ),
    ("dim: 8}\ntrials", "dim: 8}\n  s: {at: training.seed, choices: {x: 1}}\ntrials", f"`axes.s`: {RESERVED}"),
    ("at: model.decoder\n", "at: run_dir\n", f"`axes.decoder`: {RESERVED}"),
    ("max_duration: [3 updates]", "seed: 3", f"`changes`: {RESERVED}"),
]
labels = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True)
grids = st.lists(st.dictionaries(st.sampled_from("xyz"), labels, min_size=1), min_size=1, max_size=3)


@pytest.fixture
def plan(tmp_path):
    def load(*replacements, base=BASE, overrides=()):
        text = SWEEP
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "base.yaml").write_text(base, encoding="utf-8")
        (tmp_path / "sweep.yaml").write_text(text, encoding="utf-8")
        return load_plan(tmp_path / "sweep.yaml", overrides)

    return load


@pytest.fixture
def error_of(plan, tmp_path):
    """The error message for the sweep after text replacements, without the folder of the file."""

    def load(*replacements, **options):
        with pytest.raises(ConfigError) as error:
            plan(*replacements, **options)
        return str(error.value).replace(f"{tmp_path}/", "")

    return load


def test_a_mistake_in_a_choice_has_its_place(error_of):
    message = error_of(("bigru: {kind: gru, dim: 16}", "bigru: {kind: gru, dim: wide}"))
    assert message.startswith("sweep.yaml:9:31: `model.encoder.dim` should be a whole number, not 'wide' (in the trial")


def test_an_empty_choice_adds_no_key(plan):
    trials = plan(("decoder: fixed}", "decoder: fixed, score: own}")).trials
    assert [trial.experiment.model.decoder.kind for trial in trials if trial.name == "bigru+fixed+own"] == [
        "fixed-context"
    ]


def test_an_empty_list_is_a_choice(plan):
    axis = "axes:\n  frozen: {at: training.frozen, choices: {none: [], decoder: [decoder]}}"
    trials = "trials:\n  - {frozen: [none, decoder], encoder: bigru, decoder: luong}"
    found = plan(("axes:", axis), ("trials:", trials), base=f"{BASE}training: {{frozen: [encoder]}}\n").trials
    frozen = {trial.choices["frozen"]: trial.experiment.training.frozen for trial in found if "frozen" in trial.choices}
    assert frozen == {"none": (), "decoder": ("decoder",)}


@given(grids)
def test_trials_are_the_union_of_the_products_of_all_sub_grids(grids):
    axes = {name: AxisConfig(choices={label: {} for label in "abcd"}) for name in "xyz"}
    expected = [dict(zip(grid, point, strict=True)) for grid in grids for point in itertools.product(*grid.values())]
    trials = expand(axes, grids)
    assert all(trial in expected for trial in trials) and all(trial in trials for trial in expected)
    assert all(list(trial) == sorted(trial) for trial in trials)  # in the order of the axes
    assert len({tuple(trial.items()) for trial in trials}) == len(trials)
    every = [tuple(trial.values()) for trial in expand(axes, None)]
    assert every == list(itertools.product("abcd", repeat=3))


def test_trials_are_the_base_with_their_choices(plan):
    loaded = plan()
    models = {trial.name: trial.experiment.model for trial in loaded.trials}
    assert list(models) == [
        "bigru+luong+own", "bigru+luong+additive", "small+luong+own", "small+luong+additive", "bigru+fixed",
        "small+fixed",
    ]  # fmt: skip
    assert loaded.baseline.name == "bigru+luong+own"
    assert models["small+luong+own"].encoder.dim == 8
    assert models["bigru+luong+own"].decoder.attention.score.kind == "general"
    assert models["bigru+luong+additive"].decoder.attention.score.dim == 8
    assert {str(trial.experiment.training.max_duration[0]) for trial in loaded.trials} == {"3 updates"}
    assert len({run.folder for run in loaded.runs}) == 12
    assert [run.experiment.training.seed for run in loaded.runs] == [1] * 6 + [2] * 6
    first, *_ = plan(overrides=["seeds=[7]", "changes.training.max_duration=[9 updates]"]).runs
    assert (first.seed, str(first.experiment.training.max_duration[0])) == (7, "9 updates")
    assert loaded.runs[6].folder.as_posix() == "runs/sweep/trials/bigru+luong+own/seed-2"
    assert plan(("runs/sweep", "~/sweep")).runs[0].folder.is_relative_to(Path.home() / "sweep")


def test_a_choice_may_change_several_keys(plan):
    at = "  encoder:\n    at: model.encoder"
    large = "{model: {embeddings: {dim: 24}, encoder: {dim: 24}}, training: {label_smoothing: 0}}"
    size = f"  size:\n    choices:\n      large: {large}\n"
    loaded = plan((at, size + at), ("{encoder", "{size: large, encoder"))
    (trial,) = (c for c in loaded.trials if c.name == "large+small+luong+own")
    assert trial.experiment.model.embeddings.dim == 24
    assert trial.experiment.model.encoder.dim == 8  # of the later axis
    assert trial.experiment.training.label_smoothing == 0.0


def test_an_axis_may_have_the_name_of_a_key(plan):
    loaded = plan(
        ("axes:\n", "axes:\n  at: {choices: {large: {model: {embeddings: {dim: 24}}}}}\n"),
        ("{encoder", "{at: large, encoder"),
    )
    assert {trial.experiment.model.embeddings.dim for trial in loaded.trials} == {24}


def test_a_choice_may_be_a_config(plan, error_of, tmp_path, monkeypatch):
    """It is merged into the base before the changes, and the other choices into both."""
    (tmp_path / "sizes").mkdir()
    (tmp_path / "sizes/large.yaml").write_text(
        "extends: small.yaml\nrun_dir: x\nmodel: {embeddings: {dim: 24}}\ntraining: {max_duration: [9 updates]}\n"
    )
    small = tmp_path / "sizes/small.yaml"
    small.write_text("training: {label_smoothing: 0, seed: 9}\nmodel: {encoder: {dim: 24}}\n")
    size = "  size:\n    choices:\n      large: sizes/large.yaml\n      plain: {}\n"
    replacements = ("  encoder:\n", size + "  encoder:\n"), ("{encoder", "{size: large, encoder")
    (trial,) = (one for one in plan(*replacements).trials if one.name == "large+small+luong+own")
    model, training = trial.experiment.model, trial.experiment.training
    assert (model.embeddings.dim, model.encoder.dim, training.label_smoothing) == (24, 8, 0)
    assert str(training.max_duration[0]) == "3 updates" and trial.experiment.run_dir.name == trial.name
    monkeypatch.setenv("HOME", str(tmp_path))
    assert plan(*replacements, ("sizes/large", "~/sizes/large")).trials == plan(*replacements).trials
    small.write_text("training: {label_smoothing: 0, label_smoothing: 1}\n")
    assert error_of(*replacements).startswith("sizes/small.yaml:1:32: the key `label_smoothing` appears twice")
    small.unlink()
    assert "sizes/large.yaml:1:10: `extends`: there is no file sizes/small.yaml" in error_of(*replacements)
    assert "large.yml: there is no file" in error_of(*replacements, ("large.yaml", "large.yml"))


def test_the_shipped_sweep_and_that_of_the_page_are_valid(tmp_path):
    plans = {path.stem: load_plan(path) for path in (ROOT / "configs/sweeps").glob("*.yaml")}
    assert len(plans["phrasebook"].trials) == 39
    trained = {trial.choices["model"]: trial for trial in plans["multi30k"].trials}
    assert {*trained} == {path.stem for path in (ROOT / "configs/multi30k").glob("*.yaml")} - {"base", "tiny"}
    trainings = [trial.experiment.training for trial in plans["multi30k-methods"].trials]
    start = plans["multi30k-methods"].baseline.experiment.run_dir / "seed-1"
    assert [t.init_from.run_dir for t in trainings if t.init_from] == [start, start]
    for method in ("r_drop", "scheduled_sampling", "minimum_risk", "ema_decay"):
        assert sum(bool(getattr(training, method)) for training in trainings) == 1
    kinds = [training.lr_schedule.kind for training in trainings]
    assert all(kind in kinds for kind in ("cosine", "inverse-sqrt", "noam", "halving", "plateau"))
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/sweep.md").read_text("utf-8"), re.DOTALL)
    path = tmp_path / "sweep.yaml"
    path.write_text(block.replace("base: ", f"base: {ROOT}/configs/"), encoding="utf-8")
    assert len(load_plan(path).trials) == 5


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES)
def test_mistakes_of_the_sweep(error_of, old, new, message):
    assert message in error_of((old, new))


def test_mistakes_of_trials_have_their_place_once_and_the_trials(error_of):
    assert error_of(("additive, dim: 8", "additve, dim: 8")) == (
        "sweep.yaml:20:24: `model.decoder.attention.score` has no kind `additve`; did you mean `additive`?"
        " (in the trial bigru+luong+additive and 1 more)\n"
        "   |\n"
        "20 |       additive: {kind: additve, dim: 8}\n"
        "   |                        ^^^^^^^\n\n"
        "1 mistake in sweep.yaml"
    )
    message = error_of(("additive, dim: 8", "additive, dim: x"), ("small: {dim: 8}", "small: {dimm: 8}"))
    assert "sweep.yaml:10:15: unknown key `model.encoder.dimm`; did you mean `dim`?" in message
    assert "sweep.yaml:20:39: `model.decoder.attention.score.dim` should be a whole number, not 'x'" in message
    assert message.endswith("2 mistakes in sweep.yaml")


def test_mistakes_of_the_base_are_in_the_base(error_of):
    message = error_of(base=BASE.replace("vocab_size: 300", "vocab_sise: 300"))
    assert message.startswith("base.yaml:8:22: unknown key `tokenizer.joint.vocab_sise`")
    base = BASE.replace("  test:\n    first: {kind: plain, source: test.de, target: test.en}\n", "")
    assert "the trial bigru+luong+own has no test sets (`data.test`)" in error_of(base=base)


def test_names_of_parts_are_checked_before_the_first_training(error_of):
    lines = error_of(base=BASE + "training: {frozen: [encodr]}\n").splitlines()
    assert len([line for line in lines if "`training.frozen`: the model has no part `encodr`" in line]) == 1
    assert "the trial bigru+luong+own and " in lines[0]


def test_a_plug_in_that_needs_memory_is_built_with_it(tmp_path):
    config = CONFIG.replace("{kind: gru, dim: 8}", "{kind: 'tests.support.faults:Measured'}")
    assert "Measured" in config
    (tmp_path / "own.yaml").write_text(config, encoding="utf-8")
    (tmp_path / "sweep.yaml").write_text(TWO_SIZES.format("own.yaml"), encoding="utf-8")
    assert re.search("^small +[0-9,]+ ", describe_plan(load_plan(tmp_path / "sweep.yaml")), re.MULTILINE)


def test_mistakes_across_components_and_trials(error_of):
    additive = "additive: {kind: additive, dim: 8}"
    message = error_of((additive, "additive: {kind: dot}"))
    assert "`dot` compares the decoder, 16 wide, with an encoder 8 wide" in message
    assert "(in the trial small+luong+additive)" in message
    message = error_of((additive, "additive: {kind: general}"))
    assert "the trials bigru+luong+own and bigru+luong+additive are the same experiment; leave one out" in message
    device = "training: {device: DEVICE, max_duration: [3 updates]}"
    message = error_of((device.replace("device: DEVICE, ", ""), device.replace("DEVICE", "cuda:1")))
    assert "small+fixed: `training.device: cuda:1`, but each training sees one GPU; set `cuda`" in message
