"""Laws of search: compared with enumeration, and with a search in lists."""

import itertools
import math
from unittest.mock import Mock

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from seq2attn.search.constraints import LengthLimits
from seq2attn.search.search import LengthPenalty
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig
from seq2attn.search.strategies import (
    NEG_INF,
    BeamSearch,
    GreedySearch,
    Sampling,
    topk_continuations,
)
from seq2attn.search.translate_ids import translate_ids
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD
from tests.support.marks import covering
from tests.support.models import EVERY_DECODER, OTHER_DECODERS, PAIRS, WORDS, model, sources
from tests.support.searches import RULES, enumerate_paths, limits, markov, penalty, search, spread_logits


@pytest.mark.parametrize(
    "strategy", [GreedySearch(), BeamSearch(3), Sampling(3)], ids=lambda strategy: type(strategy).__name__
)
def test_the_first_step_has_one_row_per_sentence(strategy):
    _, table_step = markov(0)
    rows = list[int]()

    def step(tokens, state, memory):
        rows.append(len(tokens))
        assert len(state) == len(tokens)
        return table_step(tokens, state, memory)

    search(step, torch.zeros(2, 1), (), limits=limits(2, 3, 3), strategy=strategy, bos=BOS, eos=EOS)
    assert rows == [2, 2 * strategy.beam_size, 2 * strategy.beam_size]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize(("seed", "min_length"), [(0, 1), (1, 2)])
def test_a_wide_beam_finds_the_best_with_each_prefix(seed, rule, min_length):
    table, step = markov(seed)
    prefixes = [[], [5], [4, 7], [6, 6, 3]]
    options = {"strategy": BeamSearch(WORDS**2), "bos": BOS, "eos": EOS, "lengths": rule}
    best = search(step, (), (), limits=limits(4, 3, min_length).with_prefixes(prefixes), **options)
    for row, prefix in enumerate(prefixes):
        paths = enumerate_paths(table, min_length, max(3, len(prefix) + 1), prefix)
        scores = {path: log_prob / penalty(rule, len(path)) for path, log_prob in paths}
        for rank, path in enumerate(sorted(scores, key=scores.get, reverse=True)[:WORDS]):
            assert tuple(best.tokens[row, rank].tolist()) == path + (EOS,) * (4 - len(path))
            assert best.scores[row, rank].item() == pytest.approx(scores[path], abs=1e-5)


def plain_beam(table, width, max_length, rule, patience=math.inf):
    """Scores of a beam search in lists, which ends only by its patience.

    Kasai et al. 2022, section 3: after `patience` times the width have finished among the `width` best of a step.
    """
    live, done, finished = [(0.0, [BOS])], [], 0
    for t in range(1, max_length + 1):
        allowed = range(WORDS) if t < max_length else [EOS]
        grown = [(s + table[w[-1], v].item(), [*w, v]) for s, w in live for v in allowed]
        grown = sorted(grown, reverse=True)[: 2 * width]
        done += [s / penalty(rule, t) for s, w in grown if w[-1] == EOS]
        live = [(s, w) for s, w in grown if w[-1] != EOS][:width]
        finished += sum(w[-1] == EOS for _, w in grown[:width])
        if finished >= patience * width:
            break
    return sorted(done, reverse=True)[:width]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("width", [1, 4])
def test_stopping_early_changes_nothing(seed, width, rule):
    table, step = markov(seed)
    table[:, EOS] -= 1.0
    best = search(step, (), (), strategy=BeamSearch(width), limits=limits(1, 12), bos=BOS, eos=EOS, lengths=rule)
    assert best.scores[0].tolist() == pytest.approx(plain_beam(table, width, 12, rule), abs=1e-5)


@pytest.mark.parametrize("seed", range(2))
def test_the_end_of_the_last_sentence_is_detected_one_step_late(seed, monkeypatch):
    """On a GPU, which is imitated here; what is found is the same."""
    _, step = markov(seed)
    outputs = []
    for is_synchronous in (True, False):
        steps = []
        monkeypatch.setattr("seq2attn.search.search.is_synchronous", lambda device, same=is_synchronous: same)
        monkeypatch.setattr(torch.cuda, "Event", lambda: Mock(spec=["record", "synchronize"]))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: device)
        options = {"strategy": BeamSearch(3), "limits": limits(4, 200), "bos": BOS, "eos": EOS, "lengths": RULES[0]}
        best = search(lambda *args: steps.append(1) or step(*args), (), (), **options)  # noqa: B023
        outputs.append((len(steps), best))
    (steps, best), (late_steps, late_best) = outputs
    assert late_steps == steps + (steps % 8 > 0) and steps < 200
    assert torch.equal(best.tokens, late_best.tokens) and torch.equal(best.scores, late_best.scores)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("width", "patience"), [(1, 1.0), (2, 1.5), (4, 1.0), (4, 3.0)])
def test_patience_counts_the_ends_among_the_best_of_a_step(seed, width, patience):
    table, step = markov(seed)
    table[:, EOS] += 0.5
    strategy, rule = BeamSearch(width, patience), LengthPenalty("average")
    best = search(step, (), (), strategy=strategy, limits=limits(1, 12), bos=BOS, eos=EOS, lengths=rule)
    plain = plain_beam(table, width, 12, rule, patience)
    assert best.scores[0, : len(plain)].tolist() == pytest.approx(plain, abs=1e-5)
    assert (best.scores[0, len(plain) :] == NEG_INF).all()


@pytest.mark.parametrize(("encoder", "decoder"), covering(PAIRS))
def test_greedy_search_is_the_arg_max_without_a_cache(encoder, decoder):
    net = spread_logits(model(encoder, decoder))
    memory, state = net.encode(*sources())
    best = search(net.step, state, memory, strategy=GreedySearch(), limits=limits(4, 8), bos=BOS, eos=EOS)
    tokens = torch.full((4, 1), BOS)
    for _ in range(7):
        hidden = net.decode(tokens, state, memory).hidden[:, -1:]
        tokens = torch.cat([tokens, net.output_projection(hidden).argmax(-1)], 1)
    ended = (tokens[:, 1:] == EOS).long().cumsum(1) > 0
    assert (best.tokens[:, 0, :7] == torch.where(ended, EOS, tokens[:, 1:])).all()


def test_limits_are_those_of_exact_ratios():
    sources = torch.arange(257)
    for tenths in range(1, 40):
        config = LengthsConfig(min_length_ratio=tenths / 10, max_length_ratio=tenths / 10, max_length=2000)
        found = config.limits(sources)
        assert found.min_length.tolist() == [-(-tenths * size // 10) + 1 for size in range(257)]
        assert found.max_length.tolist() == [tenths * size // 10 + 10 + 1 for size in range(257)]
    found = LengthsConfig(min_length_ratio=2, max_length_ratio=None, max_length=300).limits(sources)
    assert found.min_length.tolist() == [min(2 * size, 300) + 1 for size in range(257)]
    assert found.max_length.tolist() == [301] * 257


CONFIGS = {
    "greedy": GreedyConfig(lengths=LengthsConfig(max_length=9)),
    "beam": BeamConfig(beam_size=3, lengths=LengthsConfig(max_length=9)),
    "at-least": BeamConfig(beam_size=3, lengths=LengthsConfig(min_length=2, min_length_ratio=1.0, max_length=9)),
}


@pytest.mark.parametrize(
    ("decoder", "search_name"), covering(itertools.product(EVERY_DECODER, CONFIGS), left_out=OTHER_DECODERS)
)
def test_a_batch_equals_single_sentences(decoder, search_name):
    search_config = CONFIGS[search_name]
    net = spread_logits(
        model("transformer" if decoder.startswith("transformer") else "gru", decoder, "multi-head", "local-m")
    )
    lines = [[4, 5, 6], [], [7], [3, 4, 5, 6, 7, 8, 9], [10, 9], [4, 5, 6]]
    together = translate_ids(net, lines, search_config, budget=1000)
    tight = translate_ids(net, lines, search_config, budget=1)
    for line, answer, alone in zip(lines, together, tight, strict=True):
        assert [h.tokens for h in answer] == [h.tokens for h in alone]
        assert [h.score for h in answer] == pytest.approx([h.score for h in alone], abs=1e-5)
        for hypothesis in answer:
            assert not {PAD, BOS, EOS} & set(hypothesis.tokens)
            if line:
                assert search_config.lengths.min_length <= len(hypothesis.tokens) <= 9
                assert len(hypothesis.tokens) >= min(9, len(line) * search_config.lengths.min_length_ratio)
    assert together[1][0].tokens == ()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("patience", [None, 1.0])
def test_finished_sentences_do_not_change_in_a_batch(seed, patience):
    """With integers many hypotheses have the same score."""
    table = torch.randint(-2, 1, (30, WORDS, WORDS), generator=torch.Generator().manual_seed(seed)).float()
    max_length, options = torch.arange(30) % 17 + 2, {"strategy": BeamSearch(4, patience), "bos": BOS, "eos": EOS}

    def step(tokens, state, memory):
        return table[state, tokens], state

    lengths = LengthLimits(torch.ones_like(max_length), max_length)
    together = search(step, torch.arange(30), (), limits=lengths, **options)
    for i, longest in enumerate(max_length.tolist()):
        alone = search(step, torch.tensor([i]), (), limits=limits(1, longest), **options)
        assert torch.equal(together.scores[i], alone.scores[0])


@pytest.mark.parametrize("vocab_size", [50, 640, 701])
@pytest.mark.parametrize(("width", "count"), [(1, 1), (1, 30), (3, 6)])
def test_the_best_continuations_are_those_of_the_whole_table(width, count, vocab_size):
    generator = torch.Generator().manual_seed(vocab_size + count)
    for share in (0.0, 0.5, 0.995):
        log_probs = torch.randn(7, width, vocab_size, generator=generator)
        log_probs[torch.rand(7, width, vocab_size, generator=generator) < share] = NEG_INF
        scores = torch.randn(7, width, generator=generator)
        scores[0] = NEG_INF
        parent, token, score = topk_continuations(log_probs, scores, count)
        total = (log_probs + scores.unsqueeze(-1)).flatten(1)
        assert torch.equal(score, total.sort(1, descending=True).values[:, :count])
        assert torch.equal(score, total.gather(1, parent * vocab_size + token))
        assert all(len(row.unique()) == count for row in parent * vocab_size + token)


def test_parallel_batches_equal_sequential_ones():
    net = spread_logits(model("gru", "transformer"))
    generator = torch.Generator().manual_seed(0)
    lines = [torch.randint(3, WORDS, (1 + i % 9,), generator=generator).tolist() for i in range(16)]
    threads = torch.get_num_threads()
    try:
        sample = SampleConfig(lengths=LengthsConfig(max_length=9))  # whose batches use one generator
        for config in (CONFIGS["greedy"], CONFIGS["beam"], sample):
            torch.set_num_threads(1)
            sequential = translate_ids(net, lines, config, budget=30)
            torch.set_num_threads(3)
            assert translate_ids(net, lines, config, budget=30) == sequential
            smaller = translate_ids(net, 10 * lines, config, budget=4000)  # in smaller batches than the budget
            tokens = [[h.tokens for h in x] for x in sequential]
            assert config is sample or [[h.tokens for h in x] for x in smaller] == 10 * tokens
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


def test_samples_follow_the_seed_and_the_model():
    table, step = markov(1)
    strategy = Sampling(4000, generator=torch.Generator().manual_seed(0))
    samples = search(step, (), (), strategy=strategy, limits=limits(1, 2), bos=BOS, eos=EOS).tokens[0, :, 0]
    share = torch.bincount(samples, minlength=WORDS) / 4000
    assert (share - table[BOS].exp()).abs().max() < 0.03
    net = spread_logits(model("gru", "luong"))
    config = SampleConfig.model_validate({"kind": "sample", "seed": 5, "lengths": {"min_length": 8}})
    first, again = (translate_ids(net, [[4, 5, 6]], config, budget=100) for _ in range(2))
    assert first == again
    other = translate_ids(net, [[4, 5, 6]], config.model_copy(update={"seed": 6}), budget=100)
    assert first != other


def test_the_smallest_top_p_keeps_the_most_likely_token():
    (field,) = [x for x in SampleConfig.model_fields["top_p"].metadata if hasattr(x, "ge")]
    logits = torch.randn(2, 3, WORDS)
    probabilities = Sampling(3, top_p=field.ge).probabilities(logits.log_softmax(-1))
    assert (probabilities == torch.nn.functional.one_hot(logits.argmax(-1), WORDS)).all()


@pytest.mark.parametrize("vocab_size", [5, 64, 200])
def test_tokens_are_drawn_with_their_probabilities_from_any_vocabulary(vocab_size):
    count = 40_000
    logits = 2 * torch.randn(vocab_size)
    logits[::3] = NEG_INF
    strategy = Sampling(count, generator=torch.Generator().manual_seed(0))
    _, token, score = strategy(logits.log_softmax(0).expand(1, count, -1), torch.zeros(1, count), EOS)
    probabilities = logits.softmax(0)
    expected, drawn = probabilities * count, torch.bincount(token[0], minlength=vocab_size)
    assert drawn.shape == expected.shape and (drawn[::3] == 0).all()
    assert ((drawn - expected).abs() <= 5 * (expected * (1 - probabilities)).sqrt()).all()  # five standard deviations
    torch.testing.assert_close(score, probabilities[token].log())


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), [(0.5, WORDS, 0.7), (2.0, 5, 0.7), (1.0, 4, 1.0)])
def test_the_distribution_of_samples_is_that_of_hugging_face(temperature, top_k, top_p):
    logits = torch.randn(2, 3, WORDS)
    expected = logits.flatten(0, 1)
    for warper in (TemperatureLogitsWarper(temperature), TopKLogitsWarper(top_k), TopPLogitsWarper(top_p)):
        expected = warper(None, expected)
    ours = Sampling(3, temperature, top_k, top_p).probabilities(logits.log_softmax(-1))
    torch.testing.assert_close(ours, expected.softmax(-1).view_as(ours))
