"""The record of a search for one sentence: all candidates as a tree, why each was dropped, and the tokens considered.

Shapes: b rows (groups of hypotheses of the sentence), K hypotheses of each, V vocabulary, C candidates.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from seq2attn.search.lexical_constraints import FREE, forbid_early_end, matched_tokens
from seq2attn.search.search import Hypotheses, SearchStep
from seq2attn.search.strategies import NEG_INF, Candidates, Sampling, topk_continuations
from seq2attn.search.translate_ids import to_hypotheses
from seq2attn.tokenizers.vocabulary import BOS, EOS

Rule: TypeAlias = Literal["prefix", "special", "min_length", "max_length", "ngram", "terms"]
"""A constraint that forbids a token."""
Fate: TypeAlias = Literal["live", "beam", "kept", "worse", "stopped"] | Rule
"""What became of a candidate.

live: it was continued; beam: others filled the beam; kept: it ended, and is in the n-best list; worse: it ended, and
other finished hypotheses are better; stopped: the search ended before it did; else the rule that forbids it.
"""
NUM_CONSIDERED = 20
"""Tokens that are recorded as considered after each hypothesis."""
Considered: TypeAlias = tuple[int, float] | tuple[int, float, float | None, Rule | None]
"""A token considered as the continuation of a hypothesis, and its log-probability by the model.

If it differs, also that under the constraints, after temperature, top-k and top-p, None if it has no probability; and
the rule that forbids the token.
"""


@dataclass(frozen=True)
class Node:
    """A candidate of a step of the search; the first node is the empty hypothesis."""

    step: int  # from 1
    parent: int  # number of its node
    token: int
    log_prob: float  # of the token, by the model
    total: float  # log-probability of the hypothesis
    rank: int  # among the candidates of its step and group, from 1; 0 for one that a rule forbids
    group: int = 0
    fate: Fate = "beam"
    by: int | None = None  # the node that took the last place in the beam, or in the n-best list
    score: float | None = None  # of a hypothesis that ended, with the penalties of length and coverage


class SearchRecorder:
    """An observer of the search for one sentence."""

    def __init__(self) -> None:
        self.nodes = [Node(0, -1, BOS, 0.0, 0.0, 1, fate="live")]
        self.considered = dict[int, list[Considered]]()  # after each node with continuations, most probable first
        self._ended: Hypotheses
        self._live = list[list[int]]()  # the nodes of the live hypotheses of each group; -1 for a free place

    def __call__(self, step: SearchStep) -> None:
        """Record a step."""
        if step.number == 1:  # also of a search that did not fit in memory, and begins again
            del self.nodes[1:]
            self.considered.clear()
            groups, k = step.before.scores.shape
            self._live = [[0] * k] * groups
        by_model = step.model_log_probs.expand_as(step.log_probs)
        step = replace(step, log_probs=_require_terms(step), model_log_probs=by_model)
        for group, live in enumerate(self._live):
            scores = step.before.scores[group].tolist()
            parents = {place: number for place, number in enumerate(live) if number >= 0 and scores[place] > NEG_INF}
            self._add_considered(step, group, parents)
            self._live[group] = self._add_candidates(step, group, parents)
        self._ended = step.after.ended._replace(tokens=step.after.ended.tokens[..., 1:])  # without BOS

    def finish(self) -> None:
        """Distinguish the hypotheses of the n-best list from those that ended worse or did not end."""
        (best,) = to_hypotheses(self._ended, len(self._live))
        scores = {(*one.tokens, EOS): one.score for one in best}
        ended = {number: self.tokens(number) for number, node in enumerate(self.nodes) if node.score is not None}
        kept = [number for number, tokens in ended.items() if tokens in scores]
        last = min(kept, key=lambda number: scores[ended[number]], default=None)
        for number, tokens in ended.items():
            if tokens in scores:
                self._change(number, fate="kept", score=scores[tokens])
            else:
                self._change(number, fate="worse", by=last)
        parents = {node.parent for node in self.nodes}
        for number, node in enumerate(self.nodes):
            if node.fate == "live" and number not in parents:
                self._change(number, fate="stopped")

    def path(self, number: int) -> list[Node]:
        """The nodes of a hypothesis, from its first token."""
        path = list[Node]()
        while number > 0:
            path.append(self.nodes[number])
            number = self.nodes[number].parent
        return path[::-1]

    def tokens(self, number: int) -> tuple[int, ...]:
        """The tokens of a node's hypothesis, from the first."""
        return tuple(node.token for node in self.path(number))

    def _change(self, number: int, **changes: Any) -> None:
        self.nodes[number] = replace(self.nodes[number], **changes)

    def _add_considered(self, step: SearchStep, group: int, parents: dict[int, int]) -> None:
        """The most probable continuations of each live hypothesis, by the model and under the constraints."""
        model, constrained = step.model_log_probs[group], step.log_probs[group]  # [K, V]
        drawn = step.strategy.probabilities(constrained).log() if isinstance(step.strategy, Sampling) else constrained
        shown, zeros = ((model, NUM_CONSIDERED), (drawn, 2)), model.new_zeros(len(model), 1)
        best = torch.cat([topk_continuations(one.unsqueeze(1), zeros, count)[1] for one, count in shown], 1)
        columns = [best.tolist(), *(x.gather(1, best).tolist() for x in (model, drawn, constrained))]
        has_nan = model.isnan().any(1).tolist()
        for hypothesis, parent in parents.items():
            if parent in self.considered or has_nan[hypothesis]:
                continue
            likely = [*zip(*(column[hypothesis] for column in columns), strict=True)]
            found = {*likely[:NUM_CONSIDERED], *(row for row in likely[NUM_CONSIDERED:] if row[2] > NEG_INF)}
            rows = self.considered[parent] = []
            for token, by_model, allowed, by_rules in sorted(found, key=lambda row: (-row[1], row[0])):
                rule = rule_of(step, group, token) if by_rules == NEG_INF else None
                changes = () if allowed == by_model else (allowed if allowed > NEG_INF else None, rule)
                rows.append((token, by_model, *changes))

    def _add_candidates(self, step: SearchStep, group: int, parents: dict[int, int]) -> list[int]:
        """Nodes for all candidates of a group. Returns those of its live hypotheses."""
        numbers = dict[tuple[int, int], int]()  # by hypothesis and token
        for rank, key in enumerate(_keys(step, group, parents, step.candidates, is_allowed=True), 1):
            numbers[key] = self._add(step, group, parents[key[0]], *key, rank)
        without_rules = topk_continuations(step.model_log_probs, step.before.scores, step.candidates[0].size(1))
        for key in _keys(step, group, parents, without_rules, is_allowed=False):
            self._add(step, group, parents[key[0]], *key, 0)
        tokens = step.after.live[group, :, step.number].tolist()
        keys = zip(step.parent[group].tolist(), tokens, strict=False)  # of a beam of one there are more parents
        live = [-1 if key[1] == EOS else numbers.get(key, -1) for key in keys]
        kept = [number for number in live if number >= 0]
        for number in numbers.values():
            if number in kept:
                self._change(number, fate="live")
            elif self.nodes[number].score is None and kept:
                self._change(number, by=kept[-1])
        return live

    def _add(self, step: SearchStep, group: int, parent: int, hypothesis: int, token: int, rank: int) -> int:
        """The number of a new node for a hypothesis and its next token."""
        log_prob = step.model_log_probs[group, hypothesis, token].item()
        total = self.nodes[parent].total + log_prob
        score = None
        if token == EOS and rank:
            score = total / step.penalty.item()
            if step.end_score is not None:
                score += step.end_score.view_as(step.before.scores)[group, hypothesis].item()
        fate = "beam" if rank else rule_of(step, group, token)
        self.nodes.append(Node(step.number, parent, token, log_prob, total, rank, group, fate, score=score))
        return len(self.nodes) - 1


def _require_terms(step: SearchStep) -> Tensor:
    """The log-probabilities under the constraints, with -inf for EOS where a term of a glossary is missing."""
    phrases = step.constraints.limits.phrases
    if phrases is None:
        return step.log_probs
    matched = matched_tokens(step.before.live[..., 1 : step.number], phrases)
    return forbid_early_end(step.log_probs, matched, (phrases != FREE).sum(-1).unsqueeze(1), EOS)


def _keys(
    step: SearchStep, group: int, parents: dict[int, int], candidates: Candidates, *, is_allowed: bool
) -> list[tuple[int, int]]:
    """Hypothesis and token of each candidate that is allowed, or that a rule forbids; best first, each once."""
    parent, token, _ = (values[group] for values in candidates)
    index = (step.log_probs[group, parent, token] > NEG_INF) == is_allowed
    keys = dict.fromkeys(zip(parent[index].tolist(), token[index].tolist(), strict=True))
    return [key for key in keys if key[0] in parents]


def rule_of(step: SearchStep, group: int, token: int) -> Rule:
    """The constraint that forbids a token in a step."""
    constraints, place = step.constraints, step.number - 1
    limits, prefix = constraints.limits, constraints.limits.prefix
    if prefix is not None and place < prefix.size(1) and prefix[group, place].item() not in (FREE, token):
        return "prefix"
    if token in constraints.forbidden.tolist():
        return "special"
    if token == EOS and step.number < limits.min_length[group]:
        return "min_length"
    if token != EOS and step.number >= limits.max_length[group]:
        return "max_length"
    return "terms" if token == EOS and limits.phrases is not None else "ngram"
