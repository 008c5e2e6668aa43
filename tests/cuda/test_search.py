"""Search on CUDA against search on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch

from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig
from seq2attn.search.translate_ids import translate_ids
from tests.cuda import DEVICE, MARKS, exact
from tests.laws.parts import EVERY_DECODER, FIXED, WORDS, model

pytestmark = [*MARKS, pytest.mark.usefixtures("exact")]
__all__ = ["exact"]  # a fixture
LENGTHS = LengthsConfig(max_length=20)
SEARCHES = {
    "greedy": GreedyConfig(kind="greedy", lengths=LENGTHS),
    "beam": BeamConfig(kind="beam", beam_size=4, lengths=LENGTHS),
}


def random_sources(count):
    rng = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 15, (count,), generator=rng).tolist()
    return [torch.randint(4, WORDS, (n,), generator=rng).tolist() for n in lengths]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("decoder", EVERY_DECODER)
def test_translations_and_scores_are_those_of_the_cpu(decoder, search):
    net = model("gru", decoder, *(("none", "none") if decoder in FIXED else ())).float().eval()
    sources, config = random_sources(200), SEARCHES[search]
    here = translate_ids(net, sources, config, budget=500)
    there = translate_ids(copy.deepcopy(net).to(DEVICE), sources, config, budget=500)
    same = [one[0].tokens == other[0].tokens for one, other in zip(here, there, strict=True)]
    assert sum(same) >= 198  # ties are broken by the last digit
    for one, other, is_same in zip(here, there, same, strict=True):
        if is_same:
            assert other[0].log_prob == pytest.approx(one[0].log_prob, rel=1e-4, abs=1e-4)
