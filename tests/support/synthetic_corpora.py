"""Synthetic corpora of small runs."""

import json
import random
from pathlib import Path

import pytest
import torch

from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference import synthetic_corpus
from seq2attn.io.weights import unique_state_dict
from seq2attn.models import build_model
from seq2attn.tokenizers.vocabulary import EOS
from seq2attn.tokenizers.words import CharacterTokenizerConfig
from tests.support import untrained_runs as small
from tests.support.commands import Toy, write_lines

FILES = ("source.txt", "target.txt", "scores.txt", "report.json")
DISTILL = ("--source", "lines", "-o", "out")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_corpus, "CHUNK", 9)


@pytest.fixture
def lines(toy: Toy, tmp_path: Path) -> list[str]:
    """Text of 28 lines with empty ones, duplicates, a long one, and one of unknown words."""
    mixed = (toy.folder / "text/mixed.de").read_text(encoding="utf-8").splitlines()[:18]
    lines = [*mixed, "", *mixed[:4], "  ", "haus " * 300, "Zug\x85Wald\u2028", " rot  haus", "boot\r"]
    write_lines(tmp_path / "lines", lines)
    return lines


def report(folder: Path) -> dict[str, int]:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def small_run(folder: Path, config: str = small.CONFIG) -> RunDirectory:
    """A run with random weights, characters as source tokens, a tag, and short translations."""
    run = small.untrained_run(folder, config)
    source = CharacterTokenizerConfig().train(small.WORDS).with_tags(("<2en>",))
    source.save(run.folder / "source")
    target = run.load_tokenizers().target
    torch.manual_seed(1)
    model = build_model(run.load_config().model, len(source.vocabulary), len(target.vocabulary))
    with torch.no_grad():
        model.output_projection.bias[EOS] += 2
    run.save_model(unique_state_dict(model), (source.vocabulary, target.vocabulary), {"checkpoints": []})
    return run


def random_lines(count: int) -> list[str]:
    rng = random.Random(1)
    return [" ".join(rng.choices(small.WORDS, k=rng.randint(0, 3))) for _ in range(count)]
