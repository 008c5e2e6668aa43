"""Laws of states: values that hypotheses may share, whatever is done in place to keep them quickly."""

from __future__ import annotations

import itertools

import pytest
import torch

from seq2attn.decoders.kv_cache import INITIAL_CAPACITY
from seq2attn.nn.decoding_state import map_tensors, reorder_beams, repeat_rows, select_rows, select_sentences
from seq2attn.search import BeamSearch, GreedySearch, LengthLimits, search
from seq2attn.tokenizers.vocabulary import BOS, EOS
from tests.laws import parts
from tests.laws.parts import EVERY_DECODER, WORDS, model, sources, targets

RELATIVE = "transformer-relative"
MODERN = {
    "kind": "transformer", "layers": 2, "heads": 4, "kv_heads": 2, "ffn_dim": 32, "position_encoding": "relative",
    "max_distance": 3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _relative(monkeypatch):
    monkeypatch.setitem(parts.DECODERS, RELATIVE, MODERN)


KINDS = [*EVERY_DECODER, RELATIVE]


def copied(tree):
    return map_tensors(torch.clone, tree)


def tensors(tree):
    leaves = []
    map_tensors(lambda x: leaves.append(x) or x, tree)
    return leaves


def assert_same(one, other):
    for a, b in zip(tensors(one), tensors(other), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@torch.no_grad()
@pytest.mark.parametrize("decoder", KINDS)
def test_who_branches_off_disturbs_nobody(decoder, hypotheses=3):
    net = model("gru", decoder)
    memory, state = net.encode(*sources())
    state = net.decode(targets(4 * hypotheses, 2), repeat_rows(state, hypotheses), memory).state
    for steps in (1, 3, 2 * INITIAL_CAPACITY):
        before, words = copied(state), targets(4 * hypotheses, steps)
        one = net.decode(words, state, memory)
        kept = copied(one.state)
        other = net.decode((words + 1) % WORDS, state, memory)  # from where `one` has gone on already
        again = net.decode(words, before, memory)
        assert_same(state, before)
        assert_same(one.state, kept)
        torch.testing.assert_close(again.hidden, one.hidden)
        assert (other.hidden - one.hidden).abs().max() > 1e-3
        after = [net.decode(words[:, :1], x.state, memory).hidden for x in (one, again)]
        torch.testing.assert_close(*after)
        state = other.state


@torch.no_grad()
@pytest.mark.parametrize("decoder", KINDS)
def test_what_is_shared_is_what_each_has_of_its_own(decoder, width=3):
    """Hypotheses that go on from one another, and sentences that leave, against reading each alone from the start."""
    net, draw = model("gru", decoder), torch.Generator().manual_seed(5)
    memory, state = net.encode(*sources())
    start, sentences = state, torch.arange(4)
    state = repeat_rows(net.decode(targets(4, 2), state, memory).state, width)
    read = targets(4, 2).repeat_interleave(width, 0)
    here = memory
    for t in range(2 * INITIAL_CAPACITY):
        words = torch.randint(3, WORDS, (len(read), 1 + (t == 3)), generator=draw)
        found = net.decode(words, state, here)
        read, state = torch.cat([read, words], 1), found.state
        if t % 5 == 0:
            alone = net.decode(
                read, select_rows(start, sentences.repeat_interleave(width)),
                select_rows(memory, sentences.repeat_interleave(width)),
            )  # fmt: skip
            torch.testing.assert_close(found.hidden, alone.hidden[:, -words.size(1) :])
        parent = torch.randint(0, width, (len(sentences), width), generator=draw)
        rows = (parent + torch.arange(0, len(read), width)[:, None]).flatten()
        if t == 4:  # any rows at all, each a sentence of its own
            some = torch.tensor([len(read) - 1, 0, 0])
            word = targets(3, 1)
            one = net.decode(word, select_rows(state, some), select_rows(here, some // width)).hidden
            both = torch.cat([read[some], word], 1)
            from_start = select_rows((start, memory), sentences[some // width])
            torch.testing.assert_close(one, net.decode(both, *from_start).hidden[:, -1:])
        state, read = reorder_beams(state, parent), read[rows]
        if t in (6, 9):
            kept = torch.tensor([0, 2, 3] if t == 6 else [2, 0])
            state, here = select_sentences(state, kept, width), select_rows(here, kept)
            read, sentences = read.unflatten(0, (-1, width))[kept].flatten(0, 1), sentences[kept]


@pytest.mark.parametrize("decoder", ["transformer", "transformer-rotary", RELATIVE])
def test_gradients_of_reading_in_parts_are_those_of_reading_at_once(decoder):
    gradients = []
    for cuts in ([8], [1, 3, 4]):
        net = model("gru", decoder)
        memory, state = net.encode(*sources())
        hidden = []
        for part in targets(4, 8).split(cuts, 1):
            found = net.decode(part, state, memory)
            state, _ = found.state, hidden.append(found.hidden)
        torch.cat(hidden, 1).pow(2).sum().backward()
        gradients.append({name: p.grad for name, p in net.named_parameters() if p.grad is not None})
    torch.testing.assert_close(*gradients)


def test_what_was_read_in_inference_mode_may_be_gone_on_from_outside_it():
    net = model("gru", "transformer")
    with torch.inference_mode():
        memory, state = net.encode(*sources())
        for _ in range(3):
            state = net.decode(targets(4, 1), state, memory).state
        expected = net.decode(targets(4, 1), copied(state), memory)
    with torch.no_grad():
        found = net.decode(targets(4, 1), state, memory)
        net.decode(targets(4, 1), found.state, memory)
    torch.testing.assert_close(found.hidden, expected.hidden.clone())


@pytest.mark.parametrize("strategy", [GreedySearch(), BeamSearch(3, patience=1.0)], ids=["greedy", "beam"])
@pytest.mark.parametrize("decoder", KINDS)
def test_sentences_that_leave_at_different_steps_are_as_if_alone(decoder, strategy):
    net = model("gru", decoder)
    torch.nn.init.normal_(net.output_projection.weight, std=2.0)
    most = torch.tensor([2, 19, 5, 9, 3, 19, 12, 4, 7, 16, 5, 2])
    words, mask = sources(tuple(itertools.islice(itertools.cycle((5, 3, 1, 7)), len(most))))
    memory, state = net.encode(words, mask)
    options = {"strategy": strategy, "bos": BOS, "eos": EOS}
    together = search(net.step, state, memory, limits=LengthLimits(most - 1, most), **options)
    for i, longest in enumerate(most):
        memory, state = net.encode(words[i : i + 1, mask[i]], mask[i : i + 1, mask[i]])
        limits = LengthLimits(longest[None] - 1, longest[None])
        alone = search(net.step, state, memory, limits=limits, **options)
        assert (together.tokens[i, :, :longest] == alone.tokens[0]).all()
        assert (together.tokens[i, :, longest:] == EOS).all()
        torch.testing.assert_close(together.scores[i], alone.scores[0])
