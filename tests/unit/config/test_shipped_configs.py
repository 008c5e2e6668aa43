"""All configs of the repository are valid, their models can be built, and their text can be fetched."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from seq2attn.config.load import dump, load
from seq2attn.data.corpora import CORPORA
from seq2attn.data.fingerprint import text_options
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.models.build import assumed_vocab_sizes, build_on_meta_device, count_parameters
from seq2attn.optim.optimizers import AdadeltaConfig, OptimizerConfig, SGDConfig

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
SENTENCE_LENGTH = 25  # tokens
SUM_OVER_TOKENS: dict[str, tuple[OptimizerConfig, float]] = {
    "wmt14/bahdanau2015": (AdadeltaConfig(), 1.0),
    "wmt14/luong2015-global": (SGDConfig(), 5.0),
    "iwslt15/luong": (SGDConfig(), 5.0),
}
"""Optimizer and gradient norm of the authors, whose loss is a sum over the tokens of a sentence."""


def name(path: Path) -> str:
    return path.relative_to(CONFIGS).with_suffix("").as_posix()


@cache
def loaded(path: Path) -> ExperimentConfig:
    return load(path, ExperimentConfig)


@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in BUILT])
def test_it_builds(path: Path) -> None:
    experiment = loaded(path)
    build_on_meta_device(experiment.model, *assumed_vocab_sizes(experiment.tokenizer))
    assert experiment.run_dir == Path("runs") / name(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in BUILT])
def test_its_text_is_the_same_when_its_dump_is_read(path: Path, tmp_path: Path) -> None:
    """A training that resumes with the config of its run does not prepare its text again."""
    experiment, saved = loaded(path), tmp_path / "config.yaml"
    saved.write_text(dump(experiment), encoding="utf-8")
    one, other = (
        json.dumps(text_options((*each.data.train, each.data.dev), each.data.filters, each.tokenizer))
        for each in (experiment, load(saved, ExperimentConfig))
    )
    assert one == other


@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in BUILT if path.parent != CONFIGS])
def test_its_text_is_that_of_a_corpus(path: Path) -> None:
    data = loaded(path).data
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
    experiment = loaded(path)
    (first, *_), dev = experiment.data.train, experiment.data.dev
    assert (first.source.suffix, first.target.suffix, first.tag) == (dev.source.suffix, dev.target.suffix, dev.tag)
    schedule = experiment.training.lr_schedule
    assert getattr(schedule, "dim", experiment.model.embeddings.dim) == experiment.model.embeddings.dim


@cache
def num_parameters(path: Path) -> int:
    experiment = loaded(path)
    return count_parameters(build_on_meta_device(experiment.model, *assumed_vocab_sizes(experiment.tokenizer)))


@pytest.mark.parametrize("recipe", PUBLISHED_SIZES)
def test_the_number_of_parameters_is_the_published_one(recipe: str) -> None:
    assert num_parameters(CONFIGS / f"{recipe}.yaml") == pytest.approx(PUBLISHED_SIZES[recipe], rel=0.04)


@pytest.mark.parametrize("recipe", SUM_OVER_TOKENS)
def test_the_steps_are_those_for_a_sum_over_tokens(recipe: str) -> None:
    training = loaded(CONFIGS / f"{recipe}.yaml").training
    assert training.max_grad_norm is not None
    ours, authors = torch.nn.Parameter(torch.zeros(8)), torch.nn.Parameter(torch.zeros(8))
    gradients = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    gradients *= torch.tensor([1e-3, 10, 1e-2, 1, 100, 1e-1])[:, None]  # clipped and not
    for weights, optimizer, norm, scale in (
        (ours, training.optimizer, training.max_grad_norm, 1 / SENTENCE_LENGTH),
        (authors, *SUM_OVER_TOKENS[recipe], 1.0),
    ):
        built = optimizer.build([weights])
        for gradient in gradients:
            weights.grad = gradient * scale
            clip_grad_norm_([weights], norm)
            built.step()
    torch.testing.assert_close(ours, authors, rtol=1e-3, atol=1e-6)


def test_the_models_of_a_table_are_of_similar_size() -> None:
    sizes = [num_parameters(path) for path in BUILT if path.parent.name == "multi30k" and path.stem != "tiny"]
    assert max(sizes) < 1.5 * min(sizes)


def test_every_recipe_is_on_its_page_with_its_corpus() -> None:
    page = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w/-]+)` \| [^|]* \| `([\w-]+)` \|", page, re.MULTILINE))
    recipes = [*RECIPES, CONFIGS / "multi30k/tiny.yaml"]
    assert rows == {name(path): loaded(path).data.dev.source.parent.name for path in recipes}
    assert {*re.findall(r"scripts/download\.py ([a-z][\w-]+)", page)} == {*CORPORA}
