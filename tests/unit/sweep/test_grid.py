"""Which trials a sweep has, and what its file is told when it is wrong."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2attn.errors import ConfigError
from seq2attn.sweep.grid import AxisConfig, expand, matches
from seq2attn.sweep.plan import load_plan

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
    exclude_when: {decoder: fixed}
    choices:
      own: {}
      additive: {kind: additive, dim: 8}
seeds: [1, 2]
baseline: {encoder: bigru, score: own}
"""


WRONG = [
    ("base.yaml", "bas.yaml", "sweep.yaml:1:7: `base`: there is no file "),
    ("[1, 2]", "[1, 1]", "sweep.yaml:22:8: `seeds`: a seed is here twice"),
    ("seeds:", "sedes:", "unknown key `sedes`; did you mean `seeds`?"),
    (
        "    at: model.decoder\n    choices:\n",
        "    choices:\n      gru: gru\n",
        "`axes.decoder.choices`: a choice should be a mapping, or the axis should say `at` which key it stands",
    ),
    (
        "baseline: {encoder",
        "baseline: {encodr",
        "sweep.yaml:23:20: `baseline.encodr`: there is no axis `encodr`; did you mean `encoder`?",
    ),
    ("own}", "oun}", "sweep.yaml:23:35: `baseline.score`: `score` has no choice `oun`; did you mean `own`?"),
    (
        ", score: own}",
        "}",
        "`baseline`: means 3 trials (bigru+fixed, bigru+luong+own, bigru+luong+additive ...); it should be one",
    ),
    (
        "exclude_when: {decoder: fixed}",
        "exclude_when: {scor: own}",
        "`axes.score.exclude_when.scor`: there is no axis `scor` above it",
    ),
    (
        "seeds:",
        "exclude: [{encoder: [bigru, smal]}]\nseeds:",
        "sweep.yaml:22:21: `exclude.0.encoder`: `encoder` has no choice `smal`; did you mean `small`?",
    ),
    ("seeds:", "include: []\nseeds:", "`axes`: no trial is left; see `include` and `exclude`"),
    (
        "dim: 8}\nseeds",
        "dim: 8}\n  seed: {at: training.seed, choices: {x: 1}}\nseeds",
        "`axes.seed`: `run_dir` and `training.seed` are for the sweep to set",
    ),
    (
        "max_duration: [3 updates]",
        "seed: 3",
        "`changes`: `run_dir` and `training.seed` are for the sweep to set",
    ),
]


@pytest.fixture
def plan(tmp_path):
    """The plan of a sweep's file, in which some text is replaced."""

    def load(*changes, base=BASE, overrides=()):
        text = SWEEP
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "base.yaml").write_text(base, encoding="utf-8")
        (tmp_path / "sweep.yaml").write_text(text, encoding="utf-8")
        return load_plan(tmp_path / "sweep.yaml", overrides)

    return load


@pytest.fixture
def mistake(plan, tmp_path):
    """What is said of a file in which some text is replaced, without the folder of the file."""

    def say(*changes, **options):
        with pytest.raises(ConfigError) as error:
            plan(*changes, **options)
        return str(error.value).replace(f"{tmp_path}/", "")

    return say


def axis(*labels, **more):
    return AxisConfig(choices={label: {} for label in labels}, **more)


labels = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True)


class TestExpand:
    @given(st.lists(labels, min_size=1, max_size=3))
    def test_a_grid_is_a_product(self, grid):
        axes = {f"axis{i}": axis(*some) for i, some in enumerate(grid)}
        assert [tuple(trial.values()) for trial in expand(axes)] == list(itertools.product(*grid))

    @given(labels, labels, st.data())
    def test_patterns_choose(self, one, two, data):
        axes = {"one": axis(*one), "two": axis(*two)}
        some = st.lists(st.fixed_dictionaries({}, optional={"one": labels, "two": labels}), max_size=3)
        only, without = data.draw(some), data.draw(some)
        every = [{"one": a, "two": b} for a in one for b in two]

        def meant(patterns, trial):
            return any(all(trial[name] in labels for name, labels in p.items()) for p in patterns)

        expected = [trial for trial in every if meant(only, trial) and not meant(without, trial)]
        assert expand(axes, only, without) == expected

    def test_an_axis_that_does_not_apply_is_not_there_and_nothing_is_there_twice(self):
        axes = {
            "decoder": axis("fixed", "luong"),
            "score": axis("x", "y", exclude_when={"decoder": ["fixed"]}),
        }
        assert expand(axes) == [
            {"decoder": "fixed"},
            {"decoder": "luong", "score": "x"},
            {"decoder": "luong", "score": "y"},
        ]
        assert not matches({"score": ["x"]}, {"decoder": "fixed"})


class TestPlan:
    def test_cells_are_the_base_with_their_choices(self, plan):
        found = plan()
        assert [trial.name for trial in found.trials] == [
            "bigru+fixed", "bigru+luong+own", "bigru+luong+additive",
            "small+fixed", "small+luong+own", "small+luong+additive",
        ]  # fmt: skip
        assert found.baseline.name == "bigru+luong+own"
        models = {trial.name: trial.experiment.model for trial in found.trials}
        assert models["small+luong+own"].encoder.dim == 8
        assert models["bigru+luong+own"].decoder.attention.score.kind == "general"
        assert models["bigru+luong+additive"].decoder.attention.score.dim == 8
        assert {str(trial.experiment.training.max_duration[0]) for trial in found.trials} == {"3 updates"}

    def test_every_training_has_its_own_seed_and_folder(self, plan):
        trainings = plan().runs
        assert len({training.folder for training in trainings}) == len(trainings) == 12
        assert [training.experiment.training.seed for training in trainings] == [1] * 6 + [2] * 6
        assert trainings[6].folder.as_posix() == "runs/sweep/trials/bigru+fixed/seed-2"

    def test_a_choice_may_change_several_places(self, plan):
        at = "  encoder:\n    at: model.encoder"
        large = "{model: {embeddings: {dim: 24}, encoder: {dim: 24}}, training: {label_smoothing: 0}}"
        size = f"  size:\n    choices:\n      normal: {{}}\n      large: {large}\n"
        found = plan((at, size + at), ("baseline: {", "baseline: {size: normal, "))
        (trial,) = (c for c in found.trials if c.name == "large+small+luong+own")
        assert trial.experiment.model.embeddings.dim == 24
        assert trial.experiment.model.encoder.dim == 8  # of the axis below
        assert trial.experiment.training.label_smoothing == 0.0

    def test_values_are_set_from_the_command_line(self, plan):
        found = plan(overrides=["seeds=[7]", "changes.training.max_duration=[9 updates]"])
        (first, *_) = found.runs
        assert (first.seed, str(first.experiment.training.max_duration[0])) == (7, "9 updates")


class TestShown:
    def test_the_sweeps_that_come_along_are_right(self):
        for path in (ROOT / "configs" / "sweeps").glob("*.yaml"):
            assert load_plan(path).trials

    def test_the_sweep_of_the_docs_is_right(self, tmp_path):
        (shown,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/sweep.md").read_text("utf-8"), re.DOTALL)
        path = tmp_path / "sweep.yaml"
        path.write_text(shown.replace("base: ", f"base: {ROOT}/configs/"), encoding="utf-8")
        trials = [trial.name for trial in load_plan(path).trials]
        assert sorted(trials) == [
            "bigru+fixed+small",
            "bigru+luong+own+large",
            "bigru+luong+own+small",
            "transformer+fixed+small",
            "transformer+luong+own+small",
        ]


class TestMistakes:
    def test_of_a_cell_are_said_once_with_their_place_and_the_cells(self, mistake):
        said = mistake(("additive, dim: 8", "additve, dim: 8"))
        assert said == (
            "sweep.yaml:21:24: `model.decoder.attention.score` has no kind `additve`; did you mean `additive`?"
            " (in the trial bigru+luong+additive and 1 more)\n"
            "   |\n"
            "21 |       additive: {kind: additve, dim: 8}\n"
            "   |                        ^^^^^^^\n\n"
            "1 mistake in sweep.yaml"
        )

    def test_of_several_cells_are_said_together(self, mistake):
        said = mistake(("additive, dim: 8", "additive, dim: x"), ("small: {dim: 8}", "small: {dimm: 8}"))
        assert "sweep.yaml:10:15: unknown key `model.encoder.dimm`; did you mean `dim`?" in said
        assert "sweep.yaml:21:39: `model.decoder.attention.score.dim` should be a whole number, not 'x'" in said
        assert said.endswith("2 mistakes in sweep.yaml")

    def test_of_the_base_are_in_the_base(self, mistake):
        said = mistake(base=BASE.replace("vocab_size: 300", "vocab_sise: 300"))
        assert said.startswith("base.yaml:8:22: unknown key `tokenizer.joint.vocab_sise`")

    def test_parts_that_refuse_each_other(self, mistake):
        said = mistake(("additive: {kind: additive, dim: 8}", "dot: {kind: dot}"))
        assert "`model.decoder.attention.score`: `dot` compares the decoder, 16 wide, with an encoder 8 wide" in said
        assert "(in the trial small+luong+dot)" in said

    def test_cells_alike(self, mistake):
        said = mistake(("additive: {kind: additive, dim: 8}", "general: {kind: general}"))
        assert "the trials bigru+luong+own and bigru+luong+general are the same experiment" in said

    @pytest.mark.parametrize(("old", "new", "said"), WRONG)
    def test_of_the_sweep_itself(self, mistake, old, new, said):
        assert said in mistake((old, new))

    def test_nothing_to_be_measured_on(self, mistake):
        base = BASE.replace("  test:\n    first: {kind: plain, source: test.de, target: test.en}\n", "")
        assert "the trial bigru+fixed has no `data.test` to be measured on" in mistake(base=base)
