"""Laws of decoding states: immutable values that hypotheses share, though the KV cache is updated in place."""

import copy
import itertools
from typing import NamedTuple

import pytest
import torch

from seq2attn.decoders.kv_cache import INITIAL_CAPACITY
from seq2attn.nn.decoding_state import (
    map_tensors,
    reorder_beams,
    repeat_rows,
    select_rows,
    select_sentences,
    with_fixed_capacity,
)
from seq2attn.nn.kernels.linear import prepack_linears
from seq2attn.nn.packing import Sequences
from seq2attn.search import captured_step
from seq2attn.search.captured_step import CapturedStep
from seq2attn.search.constraints import LengthLimits
from seq2attn.search.strategies import BeamSearch, GreedySearch
from seq2attn.tokenizers.vocabulary import BOS, EOS
from tests.support.marks import covering, slow_but
from tests.support.models import (
    EVERY_DECODER,
    OTHER_DECODERS,
    RELATIVE,
    REPRESENTATIVE,
    WORDS,
    model,
    sources,
    targets,
    tensors,
)
from tests.support.searches import search

KINDS = [*EVERY_DECODER, *RELATIVE]


def copy_tree(tree):
    return map_tensors(torch.clone, tree)


def assert_equal(one, other):
    torch.testing.assert_close(tensors(one), tensors(other), rtol=0, atol=0)


class NamedState(NamedTuple):
    hidden: torch.Tensor
    parts: tuple[torch.Tensor | None, ...]


def test_a_named_tuple_stays_one():
    rows = torch.tensor([2, 0])
    state = NamedState(torch.arange(3), (None, torch.arange(6).view(3, 2)))
    kept = select_rows(state, rows)
    assert isinstance(kept, NamedState) and kept.parts[0] is None and kept.hidden.tolist() == [2, 0]
    assert repeat_rows(kept, 2).hidden.tolist() == [2, 2, 0, 0]


@torch.no_grad()
@pytest.mark.parametrize("decoder", slow_but(REPRESENTATIVE, KINDS))
def test_two_continuations_of_a_state_are_independent(decoder, hypotheses=3):
    net = model("gru", decoder)
    memory, state = net.encode(*sources())
    state = net.decode(targets(4 * hypotheses, 2), repeat_rows(state, hypotheses), memory).state
    for steps in (1, 3, 2 * INITIAL_CAPACITY):
        before, ids = copy_tree(state), targets(4 * hypotheses, steps)
        one = net.decode(ids, state, memory)
        after = copy_tree(one.state)
        other = net.decode((ids + 1) % WORDS, state, memory)  # its cache buffer is already used by `one`
        again = net.decode(ids, before, memory)
        assert_equal(state, before)
        assert_equal(one.state, after)
        torch.testing.assert_close(again.hidden, one.hidden)
        assert (other.hidden - one.hidden).abs().max() > 1e-3
        torch.testing.assert_close(*(net.decode(ids[:, :1], x.state, memory).hidden for x in (one, again)))
        state = other.state


@torch.no_grad()
@pytest.mark.parametrize("decoder", slow_but(REPRESENTATIVE, KINDS))
def test_a_shared_state_equals_decoding_each_hypothesis_alone(decoder, beam_size=3):
    """Hypotheses that continue each other, and sentences that finish."""
    net, random = model("gru", decoder), torch.Generator().manual_seed(5)
    memory, state = net.encode(*sources())
    initial, sentences = state, torch.arange(4)
    state = repeat_rows(net.decode(targets(4, 2), state, memory).state, beam_size)
    prefix = targets(4, 2).repeat_interleave(beam_size, 0)
    active = memory
    for t in range(2 * INITIAL_CAPACITY):
        ids = torch.randint(3, WORDS, (len(prefix), 1 + (t == 3)), generator=random)
        output = net.decode(ids, state, active)
        prefix, state = torch.cat([prefix, ids], 1), output.state
        if t % 5 == 0:
            alone = net.decode(prefix, *select_rows((initial, memory), sentences.repeat_interleave(beam_size)))
            torch.testing.assert_close(output.hidden, alone.hidden[:, -ids.size(1) :])
        parent = torch.randint(0, beam_size, (len(sentences), beam_size), generator=random)
        rows = (parent + torch.arange(0, len(prefix), beam_size)[:, None]).flatten()
        if t == 4:  # any rows, each a sentence
            selected, ids = torch.tensor([len(prefix) - 1, 4, 4]), targets(3, 1)
            one = net.decode(ids, select_rows(state, selected), select_rows(active, selected // beam_size)).hidden
            alone = select_rows((initial, memory), sentences[selected // beam_size])
            both = torch.cat([prefix[selected], ids], 1)
            torch.testing.assert_close(one, net.decode(both, *alone).hidden[:, -1:])
        state, prefix = reorder_beams(state, parent), prefix[rows]
        if t in (6, 9):
            rest = torch.tensor([0, 2, 3] if t == 6 else [2, 0])
            state, active = select_sentences(state, rest, beam_size), select_rows(active, rest)
            prefix, sentences = prefix.unflatten(0, (-1, beam_size))[rest].flatten(0, 1), sentences[rest]


@pytest.mark.parametrize("decoder", ["transformer", "transformer-rotary", *RELATIVE, "ssru"])
def test_gradients_of_decoding_in_parts_equal_those_of_decoding_at_once(decoder):
    gradients = []
    for lengths in ([8], [1, 3, 4]):
        net = model("gru", decoder)
        memory, state = net.encode(*sources())
        hidden = []
        for part in targets(4, 8).split(lengths, 1):
            output = net.decode(part, state, memory)
            state, _ = output.state, hidden.append(output.hidden)
        torch.cat(hidden, 1).pow(2).sum().backward()
        gradients.append({name: p.grad for name, p in net.named_parameters() if p.grad is not None})
    torch.testing.assert_close(*gradients)


def test_a_state_of_inference_mode_may_be_continued_outside_it():
    net = model("gru", "transformer")
    with torch.inference_mode():
        memory, state = net.encode(*sources())
        for _ in range(3):
            state = net.decode(targets(4, 1), state, memory).state
        expected = net.decode(targets(4, 1), copy_tree(state), memory)
    with torch.no_grad():
        output = net.decode(targets(4, 1), state, memory)
        net.decode(targets(4, 1), output.state, memory)
    torch.testing.assert_close(output.hidden, expected.hidden.clone())


@pytest.mark.parametrize(
    ("decoder", "strategy"),
    covering(itertools.product(KINDS, [GreedySearch(), BeamSearch(3, patience=1.0)]), left_out=OTHER_DECODERS),
)
def test_sentences_that_finish_at_different_steps_equal_each_alone(decoder, strategy, monkeypatch):
    """Also with captured steps: a CUDA graph is imitated, and captured again for fewer rows or more capacity."""
    captures, capture = [], captured_step.capture
    monkeypatch.setattr(captured_step, "capture", lambda *args: captures.append(args) or capture(*args))
    monkeypatch.setattr(captured_step, "INITIAL_STEPS", 4)
    net = model("gru", decoder)
    torch.nn.init.normal_(net.output_projection.weight, std=2.0)
    max_lengths = torch.tensor([2, 19, 5, 9, 3, 12, 4, 2])
    ids, sequences = sources(tuple(itertools.islice(itertools.cycle((5, 3, 1, 7)), len(max_lengths))))
    memory, state = net.encode(ids, sequences)
    options = {"strategy": strategy, "bos": BOS, "eos": EOS}
    batch, captured = (
        search(step, state, memory, limits=LengthLimits(max_lengths - 1, max_lengths), **options)
        for step in (net.step, CapturedStep(net.step))
    )
    assert torch.equal(captured.tokens, batch.tokens)
    torch.testing.assert_close(captured.scores, batch.scores)
    assert 2 <= len(captures) <= 6
    for i, most in enumerate(max_lengths):
        is_token = sequences.mask[i]
        memory, state = net.encode(ids[i : i + 1, is_token], Sequences(is_token[is_token][None]))
        alone = search(net.step, state, memory, limits=LengthLimits(most[None] - 1, most[None]), **options)
        assert (batch.tokens[i, :, :most] == alone.tokens[0]).all()
        assert (batch.tokens[i, :, most:] == EOS).all()
        torch.testing.assert_close(batch.scores[i], alone.scores[0])


MODES = [
    (torch.inference_mode, torch.no_grad, torch.inference_mode, torch.no_grad),
    (torch.no_grad, torch.inference_mode, torch.no_grad, torch.no_grad),
    (torch.no_grad, torch.no_grad, torch.enable_grad, torch.inference_mode),
]


@pytest.mark.parametrize(
    ("decoder", "kind"),
    covering(itertools.product(KINDS, ["state", "fixed capacity", "captured", "prepacked"]), left_out=OTHER_DECODERS),
)
def test_a_state_goes_on_in_another_mode(decoder, kind, hypotheses=3):
    """A step writes into tensors of earlier ones, which outside of inference mode none of it may."""
    net, ids = model("gru", decoder), targets(4 * hypotheses, len(MODES[0]))

    def log_probs(modes):
        with modes[0]():
            part = copy.deepcopy(net)
            if kind == "prepacked":
                prepack_linears(part)
            step = CapturedStep(part.step) if kind == "captured" else part.step
            memory, state = part.encode(*sources())
            _, state = step(targets(4, 1)[:, 0], state, memory)
            state = repeat_rows(state, hypotheses)
            if kind == "fixed capacity":
                state = with_fixed_capacity(state, len(modes))
        outputs = []
        for t, mode in enumerate(modes):
            with mode():
                output, state = step(ids[:, t], state, memory)
                outputs.append(output.detach().clone())
        return torch.stack(outputs)

    expected = log_probs([torch.no_grad] * len(MODES[0]))
    for modes in MODES[: 2 if kind in ("captured", "prepacked", "fixed capacity") else 3]:
        torch.testing.assert_close(log_probs(modes), expected)
