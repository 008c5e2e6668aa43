"""Laws of forced prefixes and lexical constraints: compared with enumeration, a plain beam, and forced decoding."""

import itertools

import pytest
import torch

from seq2attn.inference.engines.native import NativeEngine
from seq2attn.search.lexical_constraints import FREE, matched_tokens
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig
from seq2attn.search.strategies import BeamSearch, GreedySearch
from seq2attn.search.translate_ids import translate_ids
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD
from tests.support.marks import covering
from tests.support.models import EVERY_DECODER, OTHER_DECODERS, WORDS, model
from tests.support.searches import RULES, enumerate_paths, limits, markov, penalty, search, spread_logits

LINES = [[4, 5, 6], [7], [3, 4, 5, 6, 7, 8], [], [10, 9], [4, 5, 6]]
PHRASES = [[[5, 5]], [], [[9, 4, 9], [3], [8, 10]], [[6]], [[7]], []]
LENGTHS = LengthsConfig(max_length=8, max_length_ratio=1.0)


def contains(tokens, phrase):
    return any(tuple(tokens[i : i + len(phrase)]) == tuple(phrase) for i in range(len(tokens)))


@pytest.mark.parametrize("seed", range(3))
def test_matched_tokens_are_the_whole_phrase_or_its_beginning_at_the_end(seed):
    generator = torch.Generator().manual_seed(seed)
    phrases = torch.randint(3, 5, (2, 4, 3), generator=generator)
    phrases[0, 1, 2:] = phrases[1, 2, 1:] = phrases[1, 3] = FREE
    for count in range(7):
        tokens = torch.randint(3, 6, (2, 9, count), generator=generator)
        matched = matched_tokens(tokens, phrases)
        for b, n, c in torch.cartesian_prod(torch.arange(2), torch.arange(9), torch.arange(4)).tolist():
            phrase, words = [id for id in phrases[b, c].tolist() if id != FREE], tokens[b, n].tolist()
            begun = [size for size in range(len(phrase)) if words[len(words) - size :] == phrase[:size] or not size]
            assert matched[b, n, c] == (len(phrase) if contains(words, phrase) else max(begun, default=0))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "phrases", [[[5]], [[4, 4]], [[4, 4, 6]], [[7, 3], [8]], [[7, 3], [3, 7]], [[6], [5]]], ids=str
)
def test_a_wide_beam_finds_the_best_with_all_phrases(seed, phrases):
    (table, step), rule = markov(seed), RULES[1]
    options = {"strategy": BeamSearch(200), "bos": BOS, "eos": EOS, "lengths": rule}
    best = search(step, (), (), limits=limits(1, 4).with_phrases([phrases]), **options)
    longest = max(4, sum(map(len, phrases)) + 1)
    scores = {
        path: log_prob / penalty(rule, len(path))
        for path, log_prob in enumerate_paths(table, 1, longest)
        if all(contains(path, phrase) for phrase in phrases)
    }
    ranked = sorted(scores, key=scores.get, reverse=True)[:5]
    assert best.scores[0, : len(ranked)].tolist() == pytest.approx([scores[path] for path in ranked], abs=1e-5)
    assert tuple(best.tokens[0, 0].tolist()[: len(ranked[0])]) == ranked[0]
    assert all(
        all(contains(tokens, phrase) for phrase in phrases)
        for tokens, score in zip(best.tokens[0].tolist(), best.scores[0].tolist(), strict=True)
        if score > float("-inf")
    )


@pytest.mark.parametrize(
    ("decoder", "width"), covering(itertools.product(EVERY_DECODER, [1, 3]), left_out=OTHER_DECODERS)
)
def test_every_translation_has_the_phrases(decoder, width):
    """Also in a narrow beam and if they fill the whole translation; without phrases it is that of a plain beam."""
    net = spread_logits(model("gru", decoder)).float()
    config = BeamConfig(beam_size=width, lengths=LENGTHS)
    found = translate_ids(net, LINES, config, budget=1000, phrases=PHRASES)
    alone = translate_ids(net, LINES, config, budget=1, phrases=PHRASES)
    plain = translate_ids(net, LINES, config, budget=1000)
    for line, phrases, beam, other, free in zip(LINES, PHRASES, found, alone, plain, strict=True):
        assert beam and [one.tokens for one in beam] == [one.tokens for one in other]
        if not phrases:
            assert [(one.tokens, one.log_prob) for one in beam] == [
                (one.tokens, pytest.approx(one.log_prob, abs=1e-4)) for one in free
            ]
        if line:
            assert all(contains(one.tokens, phrase) for one in beam for phrase in phrases)
            forced = NativeEngine(net).token_log_probs([(line, one.tokens) for one in beam], budget=1000)
            assert [one.log_prob for one in beam] == pytest.approx(list(map(sum, forced)), abs=1e-4)


def test_a_translation_with_all_phrases_ends_though_others_are_more_likely():
    table = torch.full((WORDS, WORDS), -2.5)
    table[:, 6], table[:, 5], table[:, EOS] = -0.2, -20.0, -1.0
    options = {"strategy": BeamSearch(2), "bos": BOS, "eos": EOS}
    best = search(
        lambda tokens, *rest: (table[tokens], rest[0]), (), (), limits=limits(1, 9).with_phrases([[[5]]]), **options
    )
    assert best.tokens[0, 0, :2].tolist() == [5, EOS] and best.scores[0, 0] == -21


@pytest.mark.parametrize("seed", range(4))
def test_phrases_fit_after_a_prefix_into_the_maximum_length(seed):
    generator = torch.Generator().manual_seed(seed)
    table, step = markov(seed)
    table[:, 6] += 9  # a token that is not in the phrases, and likely
    phrases = [torch.randint(3, 6, (size,), generator=generator).tolist() for size in (3, 2, 1, 3)]
    lengths = limits(1, 6).with_prefixes([[6, 3]]).with_phrases([phrases])
    assert lengths.max_length.item() == 2 + 9 + 1
    for width in (1, 2, 5):
        best = search(step, (), (), limits=lengths, strategy=BeamSearch(width, 1.0), bos=BOS, eos=EOS)
        tokens = best.tokens[0, 0].tolist()
        assert best.scores[0, 0] > float("-inf") and tokens[:2] == [6, 3]
        assert all(contains(tokens, phrase) for phrase in phrases)
    assert table.size(0) == WORDS


SOURCES = [[4, 5, 6], [7], [3, 4, 5, 6, 7, 8], [], [10, 9]]
PREFIXES = [[5, 5], [], [9, 4, 3, 8], [6], [7]]
SHORT = LengthsConfig(max_length=5, max_length_ratio=1.0)
SEARCHES = {
    "greedy": GreedyConfig(lengths=SHORT),
    "beam": BeamConfig(beam_size=3, lengths=SHORT),
    "sample": SampleConfig(num_samples=3, temperature=2.0, top_k=6, top_p=0.9, lengths=SHORT),
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
        beams = translate_ids(net, SOURCES, config, budget=budget, prefixes=prefixes)
        return [[one.tokens for one in beam] for beam in beams]

    output = translate_ids(net, SOURCES, SEARCHES[kind], budget=1000, prefixes=PREFIXES)
    assert output[3][0].tokens == ()  # an empty source has an empty translation
    for line, prefix, beam in zip(SOURCES, PREFIXES, output, strict=True):
        if line:
            assert all([*one.tokens[: len(prefix)]] == prefix for one in beam)
            forced = NativeEngine(net).token_log_probs([(line, one.tokens) for one in beam], budget=1000)
            assert [one.log_prob for one in beam] == pytest.approx(list(map(sum, forced)), abs=1e-4)
    if kind != "sample":
        assert tokens(1, PREFIXES) == [[one.tokens for one in beam] for beam in output]
    free = tokens(1000, None, SEARCHES["greedy"])
    assert tokens(1000, [best[:2] for (best,) in free], SEARCHES["greedy"]) == free
