"""All configs of the repository are valid, their models can be built, and their text can be fetched."""

import re
from pathlib import Path

import pytest

from seq2attn.config.load import load
from seq2attn.data.corpora import CORPORA
from seq2attn.experiment import ExperimentConfig
from seq2attn.models.build import assumed_vocab_sizes, build_on_meta_device, count_parameters, dry_run_summary

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "configs"
PATHS = [path for path in sorted(CONFIGS.rglob("*.yaml")) if path.name != "base.yaml"]
ELSEWHERE = ("sweeps", "reproduce", "bert.yaml")  # their own tests, and tests/cli/test_pages.py
BUILT = [path for path in PATHS if not {path.name, path.parent.name} & {*ELSEWHERE}]
RECIPES = [path for path in PATHS if path.parent.name in ("wmt14", "iwslt14", "iwslt15", "tatoeba")]
PUBLISHED_SIZES = {
    "wmt14/vaswani2017-base": 65e6,
    "wmt14/vaswani2017-big": 213e6,
    "iwslt14/lstm": 22.05e6,
    "iwslt14/small-transformer": 19.18e6,
    "multi30k/tiny": 2.6e6,
}


def name(path: Path) -> str:
    return path.relative_to(CONFIGS).with_suffix("").as_posix()


@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in BUILT])
def test_it_builds(path: Path) -> None:
    experiment = load(path, ExperimentConfig)
    assert "all parts" in dry_run_summary(experiment.model, experiment.tokenizer)
    assert experiment.run_dir == Path("runs") / name(path)


@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in BUILT if path.parent != CONFIGS])
def test_its_text_is_that_of_a_corpus(path: Path) -> None:
    data = load(path, ExperimentConfig).data
    training = {corpus.source.stem for corpus in data.train}
    for corpus in (*data.train, data.dev, *data.test.values()):
        assert corpus.source.stem == corpus.target.stem and corpus.source != corpus.target
        for file in (corpus.source, corpus.target):
            folder = file.parent.name
            texts = {text.name for text in CORPORA[folder].texts} if folder in CORPORA else set()
            assert (ROOT / "data" / folder).resolve() == file.parent.resolve()
            assert file.name in texts or (folder == "phrasebook" and file.is_file())
    held_out = [data.dev.source.stem, *{corpus.source.stem for corpus in data.test.values()}]
    assert not training & {*held_out} and len(held_out) == len({*held_out})


@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in RECIPES])
def test_its_models_read_one_direction_and_have_their_schedule(path: Path) -> None:
    experiment = load(path, ExperimentConfig)
    (first, *_), dev = experiment.data.train, experiment.data.dev
    assert (first.source.suffix, first.target.suffix, first.tag) == (dev.source.suffix, dev.target.suffix, dev.tag)
    schedule = experiment.training.lr_schedule
    assert getattr(schedule, "dim", experiment.model.embeddings.dim) == experiment.model.embeddings.dim


def num_parameters(path: Path) -> int:
    experiment = load(path, ExperimentConfig)
    return count_parameters(build_on_meta_device(experiment.model, *assumed_vocab_sizes(experiment.tokenizer)))


@pytest.mark.parametrize("recipe", PUBLISHED_SIZES)
def test_the_number_of_parameters_is_the_published_one(recipe: str) -> None:
    assert num_parameters(CONFIGS / f"{recipe}.yaml") == pytest.approx(PUBLISHED_SIZES[recipe], rel=0.04)


def test_the_models_of_a_table_are_of_similar_size() -> None:
    sizes = [num_parameters(path) for path in BUILT if path.parent.name == "multi30k" and path.stem != "tiny"]
    assert max(sizes) < 1.5 * min(sizes)


def test_every_recipe_is_on_its_page_with_its_corpus() -> None:
    page = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w/-]+)` \| [^|]* \| `([\w-]+)` \|", page, re.MULTILINE))
    recipes = [*RECIPES, CONFIGS / "multi30k/tiny.yaml"]
    assert rows == {name(path): load(path, ExperimentConfig).data.dev.source.parent.name for path in recipes}
    assert {*re.findall(r"scripts/download\.py ([a-z][\w-]+)", page)} == {*CORPORA}
