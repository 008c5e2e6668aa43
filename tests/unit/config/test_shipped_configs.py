"""All configs of the repository are valid, and their models can be built."""

from pathlib import Path

import pytest

from seq2attn.config.load import load
from seq2attn.experiment import ExperimentConfig
from seq2attn.models.build import dry_run_summary

CONFIGS = Path(__file__).parents[3] / "configs"
PATHS = [path for path in sorted(CONFIGS.rglob("*.yaml")) if path.name != "base.yaml"]
ELSEWHERE = ("sweeps", "bert.yaml")  # tests/unit/sweep/test_config.py, tests/cli/test_pages.py


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem) for p in PATHS if not {p.name, p.parent.name} & {*ELSEWHERE}]
)
def test_it_builds(path):
    experiment = load(path, ExperimentConfig)
    assert "all parts" in dry_run_summary(experiment.model, experiment.tokenizer)
    assert experiment.run_dir == Path("runs") / path.relative_to(CONFIGS).with_suffix("")
