"""Laws of search: compared with enumeration, with plain lists, and with reading what was found."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from seq2attn.nn.decoding_state import repeat_rows
from seq2attn.search import BeamSearch, GreedySearch, LengthLimits, LengthPenalty, Sampling, search
from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig
from seq2attn.search.strategies import NEG_INF, topk_continuations
from seq2attn.search.translate_ids import translate_ids
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD
from tests.laws.parts import EVERY_DECODER, PAIRS, WORDS, model, sources

RULES = [LengthPenalty(), LengthPenalty("average"), LengthPenalty("average", 0.6), LengthPenalty("gnmt", 1.0)]


def limits(sentences, most, fewest=1):
    return LengthLimits(torch.full((sentences,), fewest), torch.full((sentences,), most))


def markov(seed):
    """A step function whose words depend on the last word only, so that all sentences can be enumerated."""
    table = torch.randn(WORDS, WORDS, generator=torch.Generator().manual_seed(seed)).log_softmax(-1)
    return table, lambda words, state, memory: (table[words], state)


def penalty(rule, length):
    if rule.kind == "average":
        return length**rule.alpha
    return ((5 + length) / 6) ** rule.alpha if rule.kind == "gnmt" else 1.0


@pytest.mark.parametrize(
    "strategy", [GreedySearch(), BeamSearch(3), Sampling(3)], ids=lambda strategy: type(strategy).__name__
)
def test_the_beginning_is_read_once_a_sentence(strategy):
    _, markovs = markov(0)
    rows = list[int]()

    def step(words, state, memory):
        rows.append(len(words))
        assert len(state) == len(words)
        return markovs(words, state, memory)

    search(step, torch.zeros(2, 1), (), limits=limits(2, 3, 3), strategy=strategy, bos=BOS, eos=EOS)
    assert rows == [2, 2 * strategy.beam_size, 2 * strategy.beam_size]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("fewest", [1, 2])
def test_a_wide_beam_finds_the_best_of_all(seed, rule, fewest):
    table, step = markov(seed)
    options = {"strategy": BeamSearch(WORDS**2), "bos": BOS, "eos": EOS, "lengths": rule}
    found = search(step, (), (), limits=limits(1, 3, fewest), **options)
    every = {}
    for n in range(fewest, 4):
        for path in itertools.product([v for v in range(WORDS) if v != EOS], repeat=n - 1):
            words = [BOS, *path, EOS]
            log_prob = sum(table[a, b] for a, b in itertools.pairwise(words)).item()
            every[tuple(words[1:])] = log_prob / penalty(rule, n)
    for rank, path in enumerate(sorted(every, key=every.get, reverse=True)[:WORDS]):
        assert tuple(found.tokens[0, rank].tolist()) == path + (EOS,) * (3 - len(path))
        assert found.scores[0, rank].item() == pytest.approx(every[path], abs=1e-5)


def test_a_search_with_less_patience_ends_sooner_and_finds_nothing_better():
    rule, every = LengthPenalty("average", 1.0), []

    def tried(seed, patience):
        _, step = markov(seed)
        steps = []

        def counted(word, state, memory):
            steps.append(word)
            return step(word, state, memory)

        options = {"strategy": BeamSearch(3, patience), "bos": BOS, "eos": EOS, "lengths": rule}
        found = search(counted, (), (), limits=limits(1, 12), **options)
        return len(steps), found.scores[0, 0].item()

    for seed in range(8):
        steps, best = zip(*(tried(seed, patience) for patience in (1.0, 2.0, 4.0, None)), strict=True)
        assert list(steps) == sorted(steps)
        assert list(best) == sorted(best)
        every.append(steps)
    hasty, *_, tireless = (sum(steps) for steps in zip(*every, strict=True))
    assert hasty < tireless


def plain_beam(table, width, most, rule, patience=math.inf):
    """Beam search in lists, which stops only once its patience is over.

    Kasai et al. 2022, section 3: after `patience` times the width have finished among the `width` best of a step.
    """
    live, done, finished = [(0.0, [BOS])], [], 0
    for t in range(1, most + 1):
        allowed = range(WORDS) if t < most else [EOS]
        grown = [(s + table[w[-1], v].item(), [*w, v]) for s, w in live for v in allowed]
        grown = sorted(grown, reverse=True)[: 2 * width]
        done += [(s / penalty(rule, t), w) for s, w in grown if w[-1] == EOS]
        live = [(s, w) for s, w in grown if w[-1] != EOS][:width]
        finished += sum(w[-1] == EOS for _, w in grown[:width])
        if finished >= patience * width:
            break
    return sorted(done, reverse=True)[:width]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("width", [1, 4])
def test_stopping_early_changes_nothing(seed, width, rule):
    table, step = markov(seed)
    table[:, EOS] -= 1.0
    found = search(step, (), (), strategy=BeamSearch(width), limits=limits(1, 12), bos=BOS, eos=EOS, lengths=rule)
    plain = [score for score, _ in plain_beam(table, width, 12, rule)]
    assert found.scores[0].tolist() == pytest.approx(plain, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("width", "patience"), [(1, 1.0), (2, 1.5), (4, 1.0), (4, 3.0)])
def test_patience_counts_the_ends_among_the_best_of_a_step(seed, width, patience):
    table, step = markov(seed)
    table[:, EOS] += 0.5
    strategy, rule = BeamSearch(width, patience), LengthPenalty("average")
    found = search(step, (), (), strategy=strategy, limits=limits(1, 12), bos=BOS, eos=EOS, lengths=rule)
    plain = [score for score, _ in plain_beam(table, width, 12, rule, patience)]
    assert found.scores[0, : len(plain)].tolist() == pytest.approx(plain, abs=1e-5)
    assert (found.scores[0, len(plain) :] == NEG_INF).all()


def chance(net):
    """Make a model's words differ enough that no two hypotheses tie."""
    torch.nn.init.normal_(net.output_projection.weight, std=2.0)
    return net


CHOICES = {
    "greedy": lambda: GreedySearch(),
    "beam": lambda: BeamSearch(3),
    "sample": lambda: Sampling(4, temperature=1.3, top_k=7, top_p=0.9, generator=torch.Generator().manual_seed(3)),
}


@pytest.mark.parametrize("strategy", CHOICES)
@pytest.mark.parametrize("decoder", EVERY_DECODER)
def test_scores_of_what_was_found_are_those_of_reading_it(decoder, strategy):
    net, strategy = chance(model("gru", decoder)), CHOICES[strategy]()
    memory, state = net.encode(*sources())
    found = search(net.step, state, memory, strategy=strategy, limits=limits(4, 8), bos=BOS, eos=EOS)
    words = found.tokens.flatten(0, 1)
    read = torch.cat([torch.full_like(words[:, :1], BOS), words[:, :-1]], 1)
    hidden = net.decode(read, repeat_rows(state, strategy.beam_size), memory).hidden
    log_probs = net.output_projection(hidden).log_softmax(-1).gather(-1, words[..., None])[..., 0]
    counted = (words == EOS).long().cumsum(1) - (words == EOS).long() == 0
    torch.testing.assert_close((log_probs * counted).sum(1), found.log_probs.flatten().double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_greedy_is_the_arg_max_of_uncached_reading(encoder, decoder):
    net = chance(model(encoder, decoder))
    memory, state = net.encode(*sources())
    found = search(net.step, state, memory, strategy=GreedySearch(), limits=limits(4, 8), bos=BOS, eos=EOS)
    words = torch.full((4, 1), BOS)
    for _ in range(7):
        hidden = net.decode(words, state, memory).hidden[:, -1:]
        words = torch.cat([words, net.output_projection(hidden).argmax(-1)], 1)
    ended = (words[:, 1:] == EOS).long().cumsum(1) > 0
    assert (found.tokens[:, 0, :7] == torch.where(ended, EOS, words[:, 1:])).all()


CONFIGS = {
    "greedy": GreedyConfig(kind="greedy", lengths=LengthsConfig(max_length=9)),
    "beam": BeamConfig(kind="beam", beam_size=3, lengths=LengthsConfig(max_length=9)),
    "at-least": BeamConfig(
        kind="beam", beam_size=3, lengths=LengthsConfig(min_length=2, min_length_ratio=1.0, max_length=9)
    ),
}


@pytest.mark.parametrize("search_config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("decoder", EVERY_DECODER)
def test_a_batch_gives_each_sentence_what_it_gets_alone(decoder, search_config):
    net = chance(model("transformer" if decoder.startswith("transformer") else "gru", decoder, "multi-head", "local-m"))
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
def test_who_is_finished_finds_nothing_better_in_the_batch(seed, patience):
    """Among whole numbers many hypotheses are worth the same."""
    table = torch.randint(-2, 1, (30, WORDS, WORDS), generator=torch.Generator().manual_seed(seed)).float()
    most, options = torch.arange(30) % 17 + 2, {"strategy": BeamSearch(4, patience), "bos": BOS, "eos": EOS}

    def step(words, state, memory):
        return table[state, words], state

    together = search(step, torch.arange(30), (), limits=LengthLimits(torch.ones_like(most), most), **options)
    for i, longest in enumerate(most.tolist()):
        alone = search(step, torch.tensor([i]), (), limits=limits(1, longest), **options)
        assert torch.equal(together.scores[i], alone.scores[0])


@pytest.mark.parametrize("words", [50, 640, 701])
@pytest.mark.parametrize(("width", "count"), [(1, 1), (1, 30), (3, 6)])
def test_the_likeliest_are_those_of_the_whole_table(width, count, words):
    draw = torch.Generator().manual_seed(words + count)
    for barred in (0.0, 0.5, 0.995):
        log_probs = torch.randn(7, width, words, generator=draw)
        log_probs = log_probs.masked_fill(torch.rand(7, width, words, generator=draw) < barred, NEG_INF)
        scores = torch.randn(7, width, generator=draw)
        scores[0] = NEG_INF
        parent, word, score = topk_continuations(log_probs, scores, count)
        total = (log_probs + scores.unsqueeze(-1)).flatten(1)
        assert torch.equal(score, total.sort(1, descending=True).values[:, :count])
        assert torch.equal(score, total.gather(1, parent * words + word))
        for row in parent * words + word:
            assert len(row.unique()) == count


def test_batches_side_by_side_are_batches_in_turn():
    net = chance(model("gru", "transformer"))
    draw = torch.Generator().manual_seed(0)
    lines = [torch.randint(3, WORDS, (1 + i % 9,), generator=draw).tolist() for i in range(40)]
    threads = torch.get_num_threads()
    try:
        for search_config in CONFIGS.values():
            torch.set_num_threads(1)
            in_turn = translate_ids(net, lines, search_config, budget=30)
            torch.set_num_threads(3)
            assert translate_ids(net, lines, search_config, budget=30) == in_turn
            found = translate_ids(net, 20 * lines, search_config, budget=4000)  # in smaller batches
            assert [[h.tokens for h in x] for x in found] == 20 * [[h.tokens for h in x] for x in in_turn]
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


def test_samples_follow_the_seed_and_the_model():
    table, step = markov(1)
    strategy = Sampling(4000, generator=torch.Generator().manual_seed(0))
    draws = search(step, (), (), strategy=strategy, limits=limits(1, 2), bos=BOS, eos=EOS).tokens[0, :, 0]
    share = torch.bincount(draws, minlength=WORDS) / 4000
    assert (share - table[BOS].exp()).abs().max() < 0.03
    net = chance(model("gru", "luong"))
    config = SampleConfig.model_validate({"kind": "sample", "seed": 5, "lengths": {"min_length": 8}})
    first, again = (translate_ids(net, [[4, 5, 6]], config, budget=100) for _ in range(2))
    assert first == again
    other = translate_ids(net, [[4, 5, 6]], config.model_copy(update={"seed": 6}), budget=100)
    assert first != other


def test_top_k_and_top_p_leave_the_likeliest_words():
    log_probs = torch.tensor([[[0.5, 0.3, 0.15, 0.05]]]).log()
    scores, generator = torch.zeros(1, 1), torch.Generator().manual_seed(0)
    seen = {
        name: {int(strategy(log_probs, scores)[1]) for _ in range(300)}
        for name, strategy in {
            "k": Sampling(1, top_k=2, generator=generator),
            "p": Sampling(1, top_p=0.6, generator=generator),
            "all": Sampling(1, generator=generator),
        }.items()
    }
    assert seen == {"k": {0, 1}, "p": {0, 1}, "all": {0, 1, 2, 3}}
