"""Laws of forced beginnings: compared with enumeration, with the free search, and with forced decoding."""

from __future__ import annotations

import itertools

import pytest
import torch

from seq2attn.engines.native import NativeEngine
from seq2attn.search import BeamSearch, GreedySearch, LengthLimits, LengthPenalty, search
from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig
from seq2attn.search.translate_ids import translate_ids
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD
from tests.laws.parts import EVERY_DECODER, WORDS, model
from tests.laws.test_search import chance, markov

LINES = [[4, 5, 6], [7], [3, 4, 5, 6, 7, 8], [], [10, 9]]
PREFIXES = [[5, 5], [], [9, 4, 3, 8], [6], [7]]
LENGTHS = LengthsConfig(max_length=5, max_length_ratio=1.0)
SEARCHES = {
    "greedy": GreedyConfig(kind="greedy", lengths=LENGTHS),
    "beam": BeamConfig(kind="beam", beam_size=3, lengths=LENGTHS),
    "sample": SampleConfig(kind="sample", num_samples=3, temperature=2.0, top_k=6, top_p=0.9, lengths=LENGTHS),
}


def of(prefixes, most, fewest=1):
    count = len(prefixes)
    return LengthLimits(torch.full((count,), fewest), torch.full((count,), most)).with_prefixes(prefixes)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rule", [LengthPenalty(), LengthPenalty("average")], ids=str)
def test_a_wide_beam_finds_the_best_of_all_that_begin_so(seed, rule):
    table, step = markov(seed)
    prefixes = [[], [5], [4, 7], [6, 6, 3]]
    found = search(step, (), (), limits=of(prefixes, 3), strategy=BeamSearch(WORDS**2), bos=BOS, eos=EOS, lengths=rule)
    for row, prefix in enumerate(prefixes):
        most, every = max(3, len(prefix) + 1), {}
        for n in range(1, most + 1):
            for path in itertools.product([v for v in range(WORDS) if v != EOS], repeat=n - 1):
                if [*path[: len(prefix)]] == prefix:
                    words = [BOS, *path, EOS]
                    log_prob = sum(table[a, b] for a, b in itertools.pairwise(words)).item()
                    every[path] = log_prob / (n if rule.kind == "average" else 1)
        for rank, path in enumerate(sorted(every, key=every.get, reverse=True)[:WORDS]):
            tokens = found.tokens[row, rank].tolist()
            assert tokens[: tokens.index(EOS)] == [*path]
            assert found.scores[row, rank].item() == pytest.approx(every[path], abs=1e-5)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("strategy", [GreedySearch(), BeamSearch(1), BeamSearch(WORDS**2)], ids=str)
@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_beginning_of_the_best_changes_nothing(seed, strategy, length):
    _, step = markov(seed)
    options = {"strategy": strategy, "bos": BOS, "eos": EOS, "suppress_tokens": (PAD,)}
    free = search(step, (), (), limits=of([[]], 4, fewest=2), **options)
    best = free.tokens[0, 0].tolist()
    forced = search(step, (), (), limits=of([best[: best.index(EOS)][:length]], 4, fewest=2), **options)
    assert forced.tokens[0, 0].tolist() == best
    torch.testing.assert_close(forced.scores[0, 0], free.scores[0, 0])


@pytest.mark.parametrize("width", [2, 5, WORDS, WORDS**2])
def test_patience_counts_no_end_that_cannot_be(width):
    """While the prefix is forced, all hypotheses but one are impossible, also those that end."""
    _, step = markov(0)
    prefix = [v for v in range(WORDS) if v not in (PAD, BOS, EOS)]
    found = search(
        step,
        (),
        (),
        limits=of([prefix], len(prefix) + 3, fewest=len(prefix) + 2),
        strategy=BeamSearch(width, patience=1 / width),
        bos=BOS,
        eos=EOS,
    )
    assert found.tokens[0, 0, : len(prefix)].tolist() == prefix
    assert found.scores[0, 0] > float("-inf")


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("decoder", EVERY_DECODER)
def test_all_begin_so_and_are_as_likely_as_forced_decoding_says(decoder, kind):
    net = chance(model("gru", decoder)).double()
    found = translate_ids(net, LINES, SEARCHES[kind], budget=1000, prefixes=PREFIXES)
    assert found[3][0].tokens == ()  # an empty source has an empty translation
    for line, prefix, some in zip(LINES, PREFIXES, found, strict=True):
        if line:
            assert all([*one.tokens[: len(prefix)]] == prefix for one in some)
            read = NativeEngine(net).token_log_probs([(line, one.tokens) for one in some], budget=1000)
            assert [one.log_prob for one in some] == pytest.approx(list(map(sum, read)), abs=1e-4)
    tight = translate_ids(net, LINES, SEARCHES[kind], budget=1, prefixes=PREFIXES)
    if kind != "sample":
        assert [[one.tokens for one in some] for some in tight] == [[one.tokens for one in some] for some in found]
    free = translate_ids(net, LINES, SEARCHES["greedy"], budget=1000)
    again = translate_ids(net, LINES, SEARCHES["greedy"], budget=1000, prefixes=[one.tokens[:2] for (one,) in free])
    assert [one.tokens for (one,) in again] == [one.tokens for (one,) in free]
