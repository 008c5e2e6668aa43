"""Recipes: sweeps with the published numbers that their trainings are compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat

from seq2attn.config.base import FieldError
from seq2attn.config.hints import suggest_or_list
from seq2attn.data.corpora import CORPORA
from seq2attn.data.readers import PlainTextConfig
from seq2attn.errors import ConfigError, UserError
from seq2attn.sweep.plan import SweepPlan, Trial, TrialRun, load_plan
from seq2attn.sweep.sweep_config import Axes, Choices, SubGrid, SweepConfig, expand, trial_name

FOLDER = Path("configs/reproduce")
"""Folder of the recipes, relative to the working directory."""
Figure = Literal["bleu-by-length", "alignments"]


def _check_published(axes: Axes, published: Mapping[str, Mapping[str, float]]) -> list[FieldError]:
    choices = {name: axis.choices for name, axis in axes.items()}
    subsets = (subset for size in range(len(axes)) for subset in combinations(axes, size + 1))
    grids = [{name: choices[name] for name in subset} for subset in subsets]
    names = [trial_name(trial) for trial in expand(axes, grids)]  # `trials` may leave some out
    unknown = [name for name in published if name not in names]
    return [FieldError("published", f"there is no trial `{name}`{suggest_or_list(name, names)}") for name in unknown]


def _check_teacher(axes: Axes, trials: Sequence[SubGrid] | None, teacher: Choices | None) -> list[FieldError]:
    expanded = expand(axes, trials)
    if teacher is None or teacher in expanded:
        return []
    hint = suggest_or_list(trial_name(teacher), map(trial_name, expanded))
    return [FieldError("teacher", f"is none of the trials{hint}")]


def _check_corpus(corpus: str | None) -> list[FieldError]:
    if corpus is None or corpus in CORPORA:
        return []
    return [FieldError("corpus", f"there is no corpus `{corpus}`{suggest_or_list(corpus, CORPORA)}")]


class RecipeConfig(SweepConfig):
    """A sweep with the published numbers that it reproduces."""

    rules = (*SweepConfig.rules, _check_published, _check_teacher, _check_corpus)
    command = "reproduce"

    title: str
    """Heading of the report."""
    paper: str
    """Citation of the paper, with its address."""
    corpus: str | None = None
    """Corpus that is fetched to the folder of the training text; none: the text is there."""
    metric: Literal["bleu", "paper_bleu"] = "bleu"
    """Metric of the published scores."""
    published: dict[str, Annotated[dict[str, PositiveFloat], Field(min_length=1)]] = Field(min_length=1)
    """Published scores by trial and test set, in the order of the report."""
    published_in: str
    """Table or figure of the paper that has the scores."""
    is_ladder: bool = False
    """Each trial adds something to the one above: the report has the differences."""
    deviations: Annotated[tuple[str, ...], Field(min_length=1)]
    """Known differences from the paper, a sentence each."""
    teacher: Choices | None = None
    """The trial whose models, an ensemble of all seeds, translate its training text. The translations are `distilled/`
    in the folder of the recipe, for the trials that have them in `data.train` (Kim & Rush 2016)."""
    figures: tuple[Figure, ...] = ()
    """bleu-by-length: BLEU of all trials by source length, on each test set; alignments: attention weights of the
    baseline for the first four sentences of the test sets with 10 to 20 words."""


@dataclass(frozen=True)
class Recipe:
    """A valid recipe and its trials."""

    config: RecipeConfig
    plan: SweepPlan
    overrides: tuple[str, ...]  # of the command line

    @property
    def corpus_folder(self) -> Path:
        """The folder of the training text."""
        return self.plan.baseline.experiment.data.train[0].files[0].parent

    @property
    def distilled_folder(self) -> Path:
        """The folder of the teacher's translations."""
        return self.config.folder / "distilled"

    @property
    def teachers(self) -> list[TrialRun]:
        """The runs of the teacher, one per seed; none without a teacher."""
        return [run for run in self.plan.runs if run.trial.choices == self.config.teacher]

    @property
    def students(self) -> tuple[Trial, ...]:
        """The trials that train on the teacher's translations."""
        folder = self.distilled_folder.resolve()

        def is_student(trial: Trial) -> bool:
            files = (file for corpus in trial.experiment.data.train for file in corpus.files)
            return any(folder in file.resolve().parents for file in files)

        return tuple(filter(is_student, self.plan.trials))


def load_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in the file `name` if it ends in .yaml, else in that of this name in the folder of recipes.

    Raises UserError if there is none, and ConfigError with all mistakes at once, each with its place.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        recipes = sorted(file.stem for file in FOLDER.glob("*.yaml"))
        advice = f"; {FOLDER} is a folder of the repository: work in a clone of it, or give the path of a file"
        raise UserError(f"{path}: there is no such recipe{suggest_or_list(path.stem, recipes) or advice}")
    plan = load_plan(path, overrides, RecipeConfig)
    assert isinstance(plan.sweep, RecipeConfig), "the given class"
    recipe = Recipe(plan.sweep, plan, tuple(overrides))
    if mistakes := _mistakes(recipe):
        raise ConfigError("\n".join(f"{path}: {mistake}" for mistake in mistakes))
    return recipe


def _mistakes(recipe: Recipe) -> list[str]:
    """Settings of the recipe that the experiments of its trials do not have."""
    config = recipe.config
    experiment = recipe.plan.baseline.experiment
    tests = experiment.data.test
    unknown = dict.fromkeys(test for scores in config.published.values() for test in scores if test not in tests)
    mistakes = [f"`published`: there is no test set `{name}`{suggest_or_list(name, tests)}" for name in unknown]
    evaluation = experiment.evaluation
    has_paper_bleu = evaluation.paper_bleu and "paper_bleu" in (evaluation.metrics or ["paper_bleu"])
    if config.metric == "paper_bleu" and not has_paper_bleu:
        mistakes.append("`metric: paper_bleu` needs `evaluation.paper_bleu` in the base or in `changes`")
    if "alignments" in config.figures and experiment.model.attention_shape == (0, 0):
        mistakes.append("`figures: [alignments]` needs a baseline with attention")
    return mistakes + _teacher_mistakes(recipe)


def _teacher_mistakes(recipe: Recipe) -> list[str]:
    if not recipe.teachers:
        return []
    mistakes = []
    teacher = recipe.teachers[0].trial
    corpora = teacher.experiment.data.train
    if not (len(corpora) == 1 and isinstance(corpora[0], PlainTextConfig)):
        mistakes.append(f"`teacher`: {teacher.name} should have one `data.train` of kind `plain`, which it translates")
    if not recipe.students:
        problem = f"no trial has its translations, {recipe.distilled_folder / 'source.txt'}, in `data.train`"
        mistakes.append(f"`teacher`: {problem}; add them, or set `teacher` to null")
    elif teacher in recipe.students:
        mistakes.append(f"`teacher`: {teacher.name} has its own translations in `data.train`")
    return mistakes
