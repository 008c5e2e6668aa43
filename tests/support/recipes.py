"""A recipe of the small text."""

from pathlib import Path

from tests.support.commands import CONFIG, write_toy

RECIPE = """\
title: A toy
paper: Toy et al. 2026, https://example.org/toy
base: ../../toy.yaml
folder: runs/sweep
changes:
  training: {max_duration: [80 updates], validation: {every: 40 updates}, optimizer: {lr: 0.02}}
  search: {kind: greedy}
  evaluation: {lowercase: true, metrics: [bleu, paper_bleu], paper_bleu: {}}
axes:
  model:
    at: model
    choices:
      fixed: {decoder: {kind: fixed-context, dim: 32}}
      luong: {decoder: {kind: luong, dim: 32, attention: {score: {kind: general}}}}
seeds: [1, 2]
baseline: {model: luong}
metric: paper_bleu
published_in: table 1
published:
  fixed: {short: 0.001, mixed: 99}
  luong: {mixed: 99.5}
is_ladder: true
deviations: [The corpus is smaller., There is no paper.]
figures: [bleu-by-length, alignments]
"""


def home(folder: Path, recipe: str = RECIPE, config: str = CONFIG) -> Path:
    folder.mkdir(exist_ok=True)
    write_toy(folder, config)
    path = folder / "configs/reproduce/toy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(recipe, encoding="utf-8")
    return folder
