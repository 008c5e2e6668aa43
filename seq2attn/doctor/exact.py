"""The parts of a model that have fast ways of computing, each against its formula in double precision."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seq2attn.attention import Attention, Memory
from seq2attn.attention.align import Global
from seq2attn.attention.asked import Asked
from seq2attn.attention.scores import Additive, Dot
from seq2attn.doctor.findings import PART, DoesNotApplyError, Found, apart_in_share, worst
from seq2attn.doctor.patient import Patient, log_probs, stepwise
from seq2attn.model import Seq2Seq

FEW = 8
"""Sentences that are read step by step as well."""

Compare = Callable[[str, tuple[Any, ...], dict[str, Any], Any], float]
"""(a part's name, what it was given, what it gave) -> how far that is from the formula"""


@torch.no_grad()
def linear_is_plain(patient: Patient) -> Found:
    """Linear layers, which oneDNN may multiply with weights laid out anew, are x W' + b."""
    parts = _parts(patient.fast, lambda part: isinstance(part, nn.Linear))
    exact = {
        name: (part.weight.double(), None if part.bias is None else part.bias.double())
        for name, part in parts.items()
    }

    def compare(name: str, given: tuple[Any, ...], options: dict[str, Any], made: Tensor) -> float:
        return apart_in_share(made, F.linear(given[0].double(), *exact[name]))

    return _compared(patient, patient.fast, parts, compare)


@torch.no_grad()
def attention_is_its_formula(patient: Patient) -> Found:
    """Fused attention is softmax(q k' / sqrt(d)) v, and additive scores without their table are v . tanh(q + k)."""
    parts = _parts(patient.plain, lambda part: type(part) is Additive or is_fused(part))
    if not parts:
        raise DoesNotApplyError("its attention, if it has one, is computed in one way only")
    exact = {name: copy.deepcopy(part).double() for name, part in parts.items()}

    def compare(name: str, given: tuple[Any, ...], options: dict[str, Any], made: Any) -> float:
        part = exact[name]
        if isinstance(part, Additive):
            q, k = given[0].double(), given[1].double()
            together = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))
            return apart_in_share(made, (together * part.v.unsqueeze(2)).sum(-1))
        query, memory, position = given[:3]
        is_causal = options.get("causal", False)
        return apart_in_share(
            made.context, written_out(part, query.double(), memory, position, causal=is_causal)
        )

    return _compared(patient, patient.plain, parts, compare)


def is_fused(part: nn.Module) -> bool:
    """Whether it is an attention for which PyTorch has a kernel: a scaled dot product and a softmax."""
    if not isinstance(part, Attention) or not isinstance(part.score, Dot):
        return False
    return part.score.scaled and type(part.align) is Global


def written_out(exact: nn.Module, query: Tensor, memory: Memory, position: Tensor, *, causal: bool) -> Tensor:
    """softmax(q k' / sqrt(d) + bias) v with everything in double precision: [N, T, Dq] -> [N, T, Dv]"""
    assert isinstance(exact, Attention)
    score, (rows, steps, _) = exact.score, query.shape
    assert isinstance(score, Dot)
    sentences, shared = memory.keys.size(0), score.heads // memory.keys.size(1)
    query, position = query.reshape(sentences, -1, query.size(-1)), position.reshape(sentences, -1)
    q = score.query(query, position)
    k, v = (x.double().repeat_interleave(shared, 1) for x in (memory.keys, memory.values))
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.size(-1))
    bias = score.bias(q, k, Asked(query, position, None, memory.mask))
    scores = scores if bias is None else scores + bias
    if memory.mask is not None:
        scores = scores.masked_fill(~memory.mask, -torch.inf)
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
    context = torch.einsum("bhts,bhsv->bthv", weights, v).flatten(2)
    written: Tensor = exact.output(context).reshape(rows, steps, -1)
    return written


def _parts(model: Seq2Seq, wanted: Callable[[nn.Module], bool]) -> dict[str, Any]:
    return {name: part for name, part in model.named_modules() if wanted(part)}


def _compared(patient: Patient, model: Seq2Seq, parts: dict[str, Any], compare: Compare) -> Found:
    """What `compare` says of each time that one of a model's parts is asked while it reads, at once and in steps."""

    def deviations() -> Iterator[tuple[int | None, float]]:
        for reading in patient.batches():
            with _heard(parts, compare) as heard:
                log_probs(model, reading)
            yield None, max(heard, default=0.0)
        for reading in islice(patient.singles(), FEW):
            with _heard(parts, compare) as heard:
                log_probs(model, reading)
                stepwise(model, reading)
            yield reading.sentences[0].number, max(heard, default=0.0)

    return worst(deviations(), PART)


@contextmanager
def _heard(parts: dict[str, Any], compare: Compare) -> Iterator[list[float]]:
    """The deviations of all that `parts` make until the end of the `with`."""
    heard = list[float]()

    def listen(name: str) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], None]:
        return lambda _, given, options, made: heard.append(compare(name, given, options, made))

    hooks = [part.register_forward_hook(listen(name), with_kwargs=True) for name, part in parts.items()]
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()
