"""Log-probabilities that are NaN: the sentence has no translation, whatever the step and the search."""

import math

import pytest
import torch

from seq2attn.search.search import Hypotheses
from seq2attn.search.strategies import BeamSearch, DiverseBeamSearch, GreedySearch, Sampling
from seq2attn.search.translate_ids import NAN_HYPOTHESIS, to_hypotheses
from seq2attn.tokenizers.vocabulary import BOS, EOS
from tests.support.searches import limits, markov, search


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.parametrize(
    "strategy",
    [GreedySearch(), BeamSearch(3), DiverseBeamSearch(3, groups=2), Sampling(3)],
    ids=lambda strategy: type(strategy).__name__,
)
def test_a_nan_at_any_step_is_the_score_of_its_sentence_alone(strategy, first):
    """Of sentences 0 to 2, the log-probabilities of 1 are NaN from the step `first` on, and those of 2 in one beam."""
    table, _ = markov(0)
    table = table.index_fill(1, torch.tensor([EOS]), -20.0)  # ends by its length
    counts = list[int]()

    def step(tokens, state, memory):
        counts.append(len(tokens))
        log_probs = table[tokens].clone()
        if len(counts) >= first:
            log_probs[state[:, 0] == 1] = math.nan
            log_probs[(state[:, 0] == 2).nonzero()[-1:, 0]] = math.nan
        return log_probs, state

    state = torch.arange(3.0).repeat_interleave(strategy.groups).unsqueeze(1)
    best = search(step, state, (), limits=limits(len(state), 6), strategy=strategy, bos=BOS, eos=EOS)
    hypotheses = to_hypotheses(best, strategy.groups)
    assert hypotheses[1:] == [[NAN_HYPOTHESIS]] * 2
    assert len(hypotheses[0][0].tokens) == 5 and all(math.isfinite(one.score) for one in hypotheses[0])


def test_no_hypothesis_is_no_translation():
    none = torch.full((1, 3), -torch.inf)
    nothing = Hypotheses(torch.full((1, 3, 4), EOS), none, none)
    assert to_hypotheses(nothing, 1) == [[NAN_HYPOTHESIS]]


@pytest.mark.parametrize("phrases", [False, True])
def test_a_nan_after_a_finished_hypothesis_is_no_silent_end(phrases):
    table, _ = markov(0)
    table = table.index_copy(1, torch.tensor([EOS]), table.amax(1, keepdim=True) - 0.1)  # each may end at once
    counts = list[int]()

    def step(tokens, state, memory):
        counts.append(len(tokens))
        log_probs = table[tokens].clone()
        if len(counts) == 2:
            log_probs[state[:, 0] == 1] = math.nan
        return log_probs, state

    bounds = limits(2, 6)
    bounds = bounds.with_phrases([[(5,)], []]) if phrases else bounds
    best = search(step, torch.arange(2.0).unsqueeze(1), (), limits=bounds, strategy=BeamSearch(3), bos=BOS, eos=EOS)
    hypotheses = to_hypotheses(best, 1)
    assert len(counts) > 1 and hypotheses[1] == [NAN_HYPOTHESIS]
    assert all(math.isfinite(one.score) for one in hypotheses[0])
