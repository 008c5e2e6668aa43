"""Search on CUDA against search on the CPU."""

import copy
from functools import partial

import pytest
import torch

from seq2attn.inference.engines.native import NativeEngine
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig
from seq2attn.search.translate_ids import SearchExecution, translate_ids
from tests.support.gpu import DEVICE, MARKS, exact, launches
from tests.support.models import ATTENTIONS, EVERY_DECODER, WORDS, model

pytestmark = [*MARKS, pytest.mark.usefixtures("exact")]
__all__ = ["exact"]  # a fixture
LENGTHS = LengthsConfig(max_length=20)
SEARCHES = {
    "greedy": GreedyConfig(lengths=LENGTHS),
    "beam": BeamConfig(beam_size=4, lengths=LENGTHS),
}


def random_sources(count):
    rng = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 15, (count,), generator=rng).tolist()
    return [torch.randint(4, WORDS, (n,), generator=rng).tolist() for n in lengths]


def assert_same_on_device(net, sources, config, *, cuda_graphs, differing=0):
    """Translations and log-probabilities on the device are those on the CPU, but for ties."""
    here = translate_ids(net, sources, config, budget=500)
    there = translate_ids(
        copy.deepcopy(net).to(DEVICE), sources, config, budget=500, execution=SearchExecution(cuda_graphs)
    )
    same = [one[0].tokens == other[0].tokens for one, other in zip(here, there, strict=True)]
    assert same.count(False) <= differing
    for one, other, is_same in zip(here, there, same, strict=True):
        if is_same:
            assert other[0].log_prob == pytest.approx(one[0].log_prob, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("cuda_graphs", [False, True])
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("decoder", EVERY_DECODER)
def test_translations_and_scores_are_those_of_the_cpu(decoder, search, cuda_graphs):
    net = model("gru", decoder).float().eval()
    assert_same_on_device(net, random_sources(200), SEARCHES[search], cuda_graphs=cuda_graphs, differing=2)


@pytest.mark.parametrize(("score", "align"), ATTENTIONS)
def test_every_attention_can_be_captured(score, align):
    net = model("gru", "transformer", score, align).float().eval()
    assert_same_on_device(net, random_sources(20), SEARCHES["beam"], cuda_graphs=True, differing=1)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_search_with_cuda_graphs_is_few_launches(precision):
    net = model("transformer", "transformer").float().eval().to(DEVICE)
    search = BeamConfig(beam_size=4, lengths=LengthsConfig(min_length=29, max_length=30))
    counts, log_probs = [], []
    for cuda_graphs in (False, True):
        engine = NativeEngine(net, precision, cuda_graphs=cuda_graphs)
        translate = partial(engine.translate, random_sources(20), search, budget=4096)
        log_probs.append([best[0].log_prob for best in translate()])
        counts.append(launches(translate))
    assert counts[1] < counts[0] / 2
    assert log_probs[1] == pytest.approx(log_probs[0], rel=0.05)
