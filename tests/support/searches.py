"""Models whose translations can be enumerated."""

import itertools

import torch

from seq2attn.search.constraints import Constraints, LengthLimits
from seq2attn.search.search import LengthPenalty, Scoring
from seq2attn.search.search import search as search_with_constraints
from seq2attn.tokenizers.vocabulary import BOS, EOS
from tests.support.models import WORDS

RULES = [LengthPenalty(), LengthPenalty("average"), LengthPenalty("average", 0.6), LengthPenalty("gnmt", 1.0)]


def limits(sentences, max_length, min_length=1):
    return LengthLimits(torch.full((sentences,), min_length), torch.full((sentences,), max_length))


def search(step, state, memory, *, strategy, limits, bos, eos, lengths=RULES[0], **options):
    """A search with its constraints written as options."""
    constraints, scoring = Constraints.from_limits(limits, bos, eos, **options), Scoring(lengths)
    return search_with_constraints(step, state, memory, strategy=strategy, constraints=constraints, scoring=scoring)


def markov(seed):
    """A step function that depends on the last token only, so that all sentences can be enumerated."""
    table = torch.randn(WORDS, WORDS, generator=torch.Generator().manual_seed(seed)).log_softmax(-1)
    return table, lambda tokens, state, memory: (table[tokens], state)


def enumerate_paths(table, min_length, max_length, prefix=()):
    """All translations with EOS that begin with `prefix`, and their log-probabilities."""
    for n in range(min_length, max_length + 1):
        for path in itertools.product([v for v in range(WORDS) if v != EOS], repeat=n - 1):
            if path[: len(prefix)] == tuple(prefix):
                tokens = [BOS, *path, EOS]
                yield tuple(tokens[1:]), sum(table[a, b] for a, b in itertools.pairwise(tokens)).item()


def penalty(rule, length):
    if rule.kind == "average":
        return length**rule.alpha
    return ((5 + length) / 6) ** rule.alpha if rule.kind == "gnmt" else 1.0


def spread_logits(net):
    """The model with large output weights, so that no two hypotheses tie."""
    torch.nn.init.normal_(net.output_projection.weight, std=2.0)
    return net
