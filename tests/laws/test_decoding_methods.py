"""Laws of coverage penalty, n-gram blocking, diverse beams and minimum Bayes risk: against enumeration and lists."""

import math
import random
from collections import Counter

import pytest
import torch
from pydantic import ValidationError
from sacrebleu.metrics.chrf import CHRF

from seq2attn.errors import UserError
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.minimum_bayes_risk import pairwise_chrf, rank_by_expected_chrf
from seq2attn.inference.source_line import Member
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.models.ensemble import Ensemble
from seq2attn.search.constraints import block_repeated_ngrams
from seq2attn.search.search import LengthPenalty
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig
from seq2attn.search.strategies import NEG_INF, BeamSearch, DiverseBeamSearch
from seq2attn.search.translate_ids import Hypothesis, translate_ids
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.marks import slow_but
from tests.support.models import DECODERS, EVERY_DECODER, REPRESENTATIVE, WORDS, model
from tests.support.searches import RULES, enumerate_paths, limits, markov, penalty, search, spread_logits
from tests.support.translators import translator_of

LENGTHS = LengthsConfig(max_length=7)
LINES = [[4, 5, 6], [7], [3, 4, 5, 6, 7, 8], [], [10, 9]]


def beam(**options):
    return BeamConfig(lengths=LENGTHS, **options)


def ngrams(tokens, size):
    return [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_blocked_tokens_are_those_of_transformers(size):
    from transformers import NoRepeatNGramLogitsProcessor

    generator, processor = torch.Generator().manual_seed(size), NoRepeatNGramLogitsProcessor(size)
    for length in range(12):
        tokens = torch.randint(3, 7, (2, 5, length), generator=generator)
        scores = torch.randn(2, 5, 9, generator=generator)
        scores[..., BOS] = NEG_INF  # as in a search; it blocks BOS
        with_bos = torch.cat([torch.full((2, 5, 1), BOS), tokens], 2).flatten(0, 1)
        expected = processor(with_bos, scores.flatten(0, 1)).view_as(scores)
        assert torch.equal(block_repeated_ngrams(scores, tokens, size), expected)


@pytest.mark.parametrize("size", [1, 2])
def test_a_wide_beam_finds_the_best_without_repeated_ngrams(size):
    (table, step), rule = markov(3), RULES[1]
    table[4, 4] = table[4, 5] = table[5, 4] = -0.01
    options = {"strategy": BeamSearch(WORDS**3), "bos": BOS, "eos": EOS, "lengths": rule}
    best = search(step, (), (), limits=limits(1, 5, 4), no_repeat_ngram_size=size, **options)
    scores = {
        path: log_prob / penalty(rule, len(path))
        for path, log_prob in enumerate_paths(table, 4, 5)
        if max(Counter(ngrams(path, size)).values()) == 1
    }
    expected = sorted(scores.values(), reverse=True)[:WORDS]
    assert best.scores[0, :WORDS].tolist() == pytest.approx(expected, abs=1e-5)
    path = max(scores, key=scores.get)
    assert tuple(best.tokens[0, 0, : len(path)].tolist()) == path


LONG = {"no_repeat_ngram_size": 1, "lengths": LengthsConfig(min_length=20, max_length=24)}
SEARCHES = (
    GreedyConfig(**LONG),
    BeamConfig(beam_size=3, **LONG),
    SampleConfig(num_samples=3, **LONG),
)


@pytest.mark.parametrize("search_config", SEARCHES, ids=lambda config: config.kind)
def test_a_token_is_repeated_if_no_other_is_left(search_config):
    """Translations are longer than the vocabulary, and a prefix repeats a token."""
    found = translate_ids(spread_logits(model("gru", "luong")), [[4, 5, 6, 7]], search_config, budget=100)
    longest = WORDS - len((PAD, BOS, EOS))
    for one in found[0]:
        assert len(one.tokens) >= 20 and len({*one.tokens[:longest]}) == longest
    prefixes = [[5, 5, 5]]
    found = translate_ids(
        spread_logits(model("gru", "luong")), [[4, 5, 6, 7]], search_config, budget=100, prefixes=prefixes
    )
    for one in found[0]:
        assert one.tokens[:3] == (5, 5, 5) and len({*one.tokens[2:9]}) == 7


def coverage(net, source, tokens):
    """Wu et al. 2016, eq. 14, of forced decoding."""
    (weights,) = cross_attention_weights(net, [(source, tokens)])
    covered = weights[-1].mean(0).sum(0)[: len(source)]
    return sum(math.log(max(min(each, 1.0), 1e-38)) for each in covered.tolist())


@pytest.mark.parametrize("decoder", slow_but(REPRESENTATIVE, DECODERS))
def test_the_coverage_penalty_is_that_of_forced_decoding(decoder):
    net = spread_logits(model("gru", decoder, "multi-head")).float()
    config = beam(beam_size=4, coverage_penalty=0.7)
    found = translate_ids(net, LINES, config, budget=1000)
    assert [[one.tokens for one in beam] for beam in translate_ids(net, LINES, config, budget=1)] == [
        [one.tokens for one in beam] for beam in found
    ]
    for source, hypotheses in zip(LINES, found, strict=True):
        for one in hypotheses if source else ():
            expected = one.log_prob / (len(one.tokens) + 1) + 0.7 * coverage(net, source, one.tokens)
            assert one.score == pytest.approx(expected, abs=1e-4)
            (forced,) = NativeEngine(net).token_log_probs([(source, one.tokens)], budget=100)
            assert one.log_prob == pytest.approx(sum(forced), abs=1e-4)


def test_a_wide_beam_finds_the_best_with_a_coverage_penalty():
    """All translations of at most two tokens, scored by forced decoding, of a model and of an ensemble."""
    nets = [spread_logits(model("gru", decoder, "dot")).float() for decoder in ("luong", "bahdanau-gru")]
    lengths = LengthsConfig(max_length=2, length_penalty="gnmt")
    config = BeamConfig(beam_size=200, patience=None, coverage_penalty=2.0, lengths=lengths)
    words = [v for v in range(WORDS) if v not in (PAD, BOS, EOS)]
    paths = [(), *((a,) for a in words), *((a, b) for a in words for b in words)]
    source = [4, 5, 6]
    for members in (nets[:1], nets):
        engine = NativeEngine(Ensemble(tuple(members)) if len(members) > 1 else members[0])
        (found,) = engine.translate([source], config, budget=10000)
        log_probs = engine.token_log_probs([(source, path) for path in paths], budget=1000)
        rule, scores = LengthPenalty("gnmt"), dict[tuple[int, ...], float]()
        for path, log_prob in zip(paths, log_probs, strict=True):
            covered = sum(coverage(net, source, path) for net in members) / len(members)
            scores[path] = sum(log_prob) / penalty(rule, len(path) + 1) + 2 * covered
        ranked = sorted(scores, key=scores.get, reverse=True)
        assert [one.tokens for one in found][:5] == ranked[:5]
        assert [one.score for one in found] == pytest.approx([scores[path] for path in ranked], abs=1e-4)


def test_a_decoder_without_attention_has_no_coverage():
    with pytest.raises(UserError, match=r"`search.coverage_penalty` needs a decoder with attention"):
        translate_ids(model("gru", "fixed-gru"), LINES, beam(coverage_penalty=1.0), budget=100)


def diverse_beam(table, groups, width, weight, max_length, rule):
    """The finished hypotheses of each group, by a diverse beam search in lists."""
    live, done = [[(0.0, [BOS])] for _ in range(groups)], [[] for _ in range(groups)]
    for t in range(1, max_length + 1):
        taken = Counter()
        allowed = range(WORDS) if t < max_length else [EOS]
        for group in range(groups):
            grown = [(s + table[w[-1], v].item(), [*w, v]) for s, w in live[group] for v in allowed]
            grown.sort(key=lambda one: one[0] - weight * taken[one[1][-1]], reverse=True)
            grown = grown[: 2 * width]
            ended = [(s, w) for s, w in grown if w[-1] == EOS]
            live[group] = [(s, w) for s, w in grown if w[-1] != EOS][:width]
            done[group] += [(s / penalty(rule, t), w[1:]) for s, w in ended]
            taken.update(w[-1] for _, w in ended + live[group])
    best = [sorted(each, reverse=True)[:width] for each in done]
    return sorted({tuple(w[:-1]): s for each in best for s, w in each}.items(), key=lambda one: -one[1])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("groups", "width", "weight"), [(1, 3, 0.5), (2, 1, 1.0), (2, 3, 0.5), (4, 2, 3.0)])
def test_groups_are_those_of_a_search_in_lists(seed, groups, width, weight):
    table, step = markov(seed)
    table[:, EOS] -= 1.0
    rule, strategy = RULES[1], DiverseBeamSearch(width, None, groups, weight)
    options = {"strategy": strategy, "bos": BOS, "eos": EOS, "lengths": rule}
    best = search(step, (), (), limits=limits(3 * groups, 6), **options)
    expected = diverse_beam(table, groups, width, weight, 6, rule)
    for sentence in range(3):
        rows = slice(sentence * groups, (sentence + 1) * groups)
        found = {
            tuple(tokens[: tokens.index(EOS)]): score
            for tokens, score in zip(
                best.tokens[rows].flatten(0, 1).tolist(), best.scores[rows].flatten().tolist(), strict=True
            )
            if score > NEG_INF
        }
        assert sorted(found.values(), reverse=True) == pytest.approx([score for _, score in expected], abs=1e-5)
        assert {*found} == {path for path, _ in expected}


@pytest.mark.parametrize("decoder", slow_but(REPRESENTATIVE, EVERY_DECODER))
def test_groups_without_a_penalty_are_equal_beams(decoder):
    net = spread_logits(model("gru", decoder)).float()
    plain = translate_ids(net, LINES, beam(beam_size=2), budget=1000)
    grouped = translate_ids(net, LINES, beam(beam_size=6, num_beam_groups=3, diversity_penalty=0), budget=1000)
    assert [[one.tokens for one in beam] for beam in grouped] == [[one.tokens for one in beam] for beam in plain]
    diverse = translate_ids(net, LINES, beam(beam_size=6, num_beam_groups=3, diversity_penalty=9), budget=1000)
    alone = translate_ids(net, LINES, beam(beam_size=6, num_beam_groups=3, diversity_penalty=9), budget=1)
    assert [[one.tokens for one in beam] for beam in alone] == [[one.tokens for one in beam] for beam in diverse]
    for source, hypotheses, few in zip(LINES, diverse, plain, strict=True):
        forced = NativeEngine(net).token_log_probs([(source, one.tokens) for one in hypotheses], budget=1000)
        if source:
            assert [one.log_prob for one in hypotheses] == pytest.approx(list(map(sum, forced)), abs=1e-4)
            assert len({one.tokens for one in hypotheses}) == len(hypotheses) > len(few)
            assert {one.tokens for one in few} <= {one.tokens for one in hypotheses}  # the first group


def test_groups_divide_the_beam():
    with pytest.raises(ValidationError, match="num_beam_groups: has to divide `beam_size`, which is 5"):
        beam(beam_size=5, num_beam_groups=2)


SHORT = LengthsConfig(max_length=6)
SAMPLE = SampleConfig(num_samples=12, mbr=True, lengths=SHORT)
BEAM = BeamConfig(beam_size=6, mbr=True, lengths=SHORT)


def chrf(hypothesis, reference):
    return CHRF().sentence_score(hypothesis, [reference]).score


@pytest.mark.parametrize("seed", range(3))
def test_chrf_is_that_of_sacrebleu(seed):
    rng = random.Random(seed)
    texts = ["".join(rng.choices("ab c\u00e4\u4e2d", k=rng.randrange(15))) for _ in range(12)] + [
        "",
        " ",
        "a",
        "aaaaaaa",
    ]
    expected = [[chrf(one, other) for other in texts] for one in texts]
    assert pairwise_chrf(texts).tolist() == [pytest.approx(row, abs=1e-9) for row in expected]


@pytest.mark.parametrize("search", [SAMPLE, BEAM], ids=lambda search: search.kind)
def test_the_order_is_that_of_the_expected_chrf(search):
    texts = ["the cat", "a cat", "the cat", "the dog sat", "", "cats"]
    found = [Hypothesis((number,), 0.0, -number / 3) for number in range(len(texts))]
    ranked = rank_by_expected_chrf(found, search, lambda one: texts[one.tokens[0]])
    weights = [1.0 if search is SAMPLE else math.exp(one.log_prob) for one in found]
    assert [one.tokens[0] for one in ranked if one.tokens[0] in (0, 2)] == [0]  # the first of equal texts
    for one in ranked:
        similarity = [chrf(texts[one.tokens[0]], text) for text in texts]
        expected = sum(w * s for w, s in zip(weights, similarity, strict=True)) / sum(weights)
        assert one.score == pytest.approx(expected) and one.log_prob == found[one.tokens[0]].log_prob
    assert len(ranked) == 5 and [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)


@pytest.mark.filterwarnings("ignore:translations have the maximum length")
@pytest.mark.parametrize("search", [SAMPLE, BEAM], ids=lambda search: search.kind)
def test_a_line_has_the_best_of_what_the_search_finds(search):
    words = WordTokenizerConfig().train(["north northern sun sunny moon moons star"])

    def decode(one):
        return words.decode(one.tokens)

    translator = translator_of(Member(model("gru", "luong").float(), TokenizerPair(words, words)), search=search)
    lines = ["north star", "", "sun moon star northern sunny", "star"]
    plain = search.model_copy(update={"mbr": False})
    found = NativeEngine(translator.model).translate([words.encode(line) for line in lines], plain, budget=8192)
    for line, translation, hypotheses in zip(lines, translator.translate(lines), found, strict=True):
        best, *others = rank_by_expected_chrf(hypotheses, search, decode)
        assert (translation.text, translation.score) == (decode(best), best.score)
        assert [one.text for one in translation.alternatives] == [*map(decode, others)]
        assert bool(translation.text) <= bool(line)
    assert [*map(decode, found[2])] != [*map(decode, rank_by_expected_chrf(found[2], search, decode))]
