"""The shipped recipes, and the rule of the outcome."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2attn.experiment.experiment_config import load_config
from seq2attn.sweep.recipe import load_recipe
from seq2attn.sweep.report import reproduction_outcome

ROOT = Path(__file__).parents[3]
RECIPES = sorted((ROOT / "configs/reproduce").glob("*.yaml"))


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in RECIPES])
def test_a_recipe_trains_what_it_names_on_its_corpus(path: Path) -> None:
    """All models are built without memory."""
    recipe = load_recipe(str(path))
    config, trials = recipe.config, {trial.name: trial.experiment for trial in recipe.plan.trials}
    assert [*trials] == [*config.published]
    assert config.folder == Path("runs/reproduce") / path.stem
    assert config.corpus is not None
    data = recipe.plan.baseline.experiment.data
    assert recipe.corpus_folder.resolve() == (ROOT / "data" / config.corpus).resolve()
    assert {file.parent for one in (*data.train, data.dev, *data.test.values()) for file in one.files} == {
        recipe.corpus_folder
    }
    for trial in recipe.plan.trials:
        for file in config.configs(trial.choices):
            alone = load_config(file)
            assert (alone.model, alone.training, alone.data) == (
                trial.experiment.model, trial.experiment.training, trial.experiment.data,
            )  # fmt: skip


def test_recipes_are_on_their_page() -> None:
    page = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w-]+)` \| [^|]*\d[^|]* \|$", page, re.MULTILINE) == [path.stem for path in RECIPES]


scores = st.floats(0.1, 100)


@given(scores, scores, st.floats(0, 10))
def test_the_outcome(published: float, ours: float, interval: float) -> None:
    found = reproduction_outcome(published, ours, interval)
    assert (found == "reached") == (ours >= published)
    assert (found == "not reached") == (ours + interval < published)
    assert reproduction_outcome(published, published, 0) == reproduction_outcome(published, 100, interval) == "reached"
    assert reproduction_outcome(ours + interval, ours, interval) != "not reached"
