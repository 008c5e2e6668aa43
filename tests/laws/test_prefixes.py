"""Laws of prefixes: compared with free search, and with forced decoding."""

import itertools

import pytest
import torch

from seq2attn.inference.engines.native import NativeEngine
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig
from seq2attn.search.strategies import BeamSearch, GreedySearch
from seq2attn.search.translate_ids import translate_ids
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD
from tests.support.marks import covering
from tests.support.models import EVERY_DECODER, OTHER_DECODERS, WORDS, model
from tests.support.searches import limits, markov, search, spread_logits

LINES = [[4, 5, 6], [7], [3, 4, 5, 6, 7, 8], [], [10, 9]]
PREFIXES = [[5, 5], [], [9, 4, 3, 8], [6], [7]]
LENGTHS = LengthsConfig(max_length=5, max_length_ratio=1.0)
SEARCHES = {
    "greedy": GreedyConfig(lengths=LENGTHS),
    "beam": BeamConfig(beam_size=3, lengths=LENGTHS),
    "sample": SampleConfig(num_samples=3, temperature=2.0, top_k=6, top_p=0.9, lengths=LENGTHS),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("strategy", [GreedySearch(), BeamSearch(1), BeamSearch(WORDS**2)], ids=str)
def test_a_prefix_of_the_best_translation_changes_nothing(seed, strategy):
    _, step = markov(seed)
    options = {"strategy": strategy, "bos": BOS, "eos": EOS, "suppress_tokens": (PAD,)}
    free = search(step, (), (), limits=limits(1, 4, 2), **options)
    best = free.tokens[0, 0].tolist()
    for length in (1, 2, 3):
        prefix = best[: best.index(EOS)][:length]
        forced = search(step, (), (), limits=limits(1, 4, 2).with_prefixes([prefix]), **options)
        assert forced.tokens[0, 0].tolist() == best
        torch.testing.assert_close(forced.scores[0, 0], free.scores[0, 0])


@pytest.mark.parametrize("width", [2, WORDS, WORDS**2])
def test_patience_does_not_count_impossible_ends(width):
    """While the prefix is forced, all hypotheses but one are impossible, also those that end."""
    _, step = markov(0)
    prefix = [v for v in range(WORDS) if v not in (PAD, BOS, EOS)]
    lengths = limits(1, len(prefix) + 3, len(prefix) + 2).with_prefixes([prefix])
    strategy = BeamSearch(width, patience=1 / width)
    best = search(step, (), (), limits=lengths, strategy=strategy, bos=BOS, eos=EOS)
    assert best.tokens[0, 0, : len(prefix)].tolist() == prefix
    assert best.scores[0, 0] > float("-inf")


@pytest.mark.parametrize(
    ("decoder", "kind"), covering(itertools.product(EVERY_DECODER, SEARCHES), left_out=OTHER_DECODERS)
)
def test_log_probs_with_a_prefix_are_those_of_forced_decoding(decoder, kind):
    net = spread_logits(model("gru", decoder)).double()

    def tokens(budget, prefixes, config=SEARCHES[kind]):
        beams = translate_ids(net, LINES, config, budget=budget, prefixes=prefixes)
        return [[one.tokens for one in beam] for beam in beams]

    output = translate_ids(net, LINES, SEARCHES[kind], budget=1000, prefixes=PREFIXES)
    assert output[3][0].tokens == ()  # an empty source has an empty translation
    for line, prefix, beam in zip(LINES, PREFIXES, output, strict=True):
        if line:
            assert all([*one.tokens[: len(prefix)]] == prefix for one in beam)
            forced = NativeEngine(net).token_log_probs([(line, one.tokens) for one in beam], budget=1000)
            assert [one.log_prob for one in beam] == pytest.approx(list(map(sum, forced)), abs=1e-4)
    if kind != "sample":
        assert tokens(1, PREFIXES) == [[one.tokens for one in beam] for beam in output]
    free = tokens(1000, None, SEARCHES["greedy"])
    assert tokens(1000, [best[:2] for (best,) in free], SEARCHES["greedy"]) == free
