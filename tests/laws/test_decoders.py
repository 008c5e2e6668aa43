"""Laws of encoders, decoders and attention, whatever is plugged in."""

from __future__ import annotations

import itertools

import pytest
import torch

from seq2attn.nn.decoding_state import map_tensors, repeat_rows, select_rows
from tests.laws.parts import (
    DECODERS,
    EVERY_DECODER,
    PAIRS,
    PLUGGED,
    REMEMBERING,
    calm,
    model,
    sources,
    targets,
)


def tensors(tree):
    """Every tensor in a state or a memory."""
    leaves = []
    map_tensors(lambda x: leaves.append(x) or x, tree)
    return leaves


@pytest.mark.parametrize(
    ("decoder", "score", "align", "training"),
    [(*parts, False) for parts in PLUGGED] + [(d, *parts, True) for d in DECODERS for parts in REMEMBERING],
)
def test_reading_in_parts_is_reading_at_once(decoder, score, align, training):
    net = model("gru", decoder, score, align)
    if training:
        calm(net)
    memory, state = net.encode(*sources())
    words = targets(4, 9)
    whole = net.decode(words, state, memory, need_weights=True)
    for cuts in ([1] * 9, [4, 5], [1, 7, 1]):
        now, hidden, weights = state, [], []
        for part in words.split(cuts, 1):
            h, now, w, _ = net.decode(part, now, memory, need_weights=True)
            hidden.append(h)
            weights.append(w)
        torch.testing.assert_close(torch.cat(hidden, 1), whole.hidden)
        if whole.cross_attention is not None:
            torch.testing.assert_close(torch.cat(weights, -2), whole.cross_attention)
        for a, b in zip(tensors(now), tensors(whole.state), strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("encoder", "decoder", "score", "align"),
    [
        *[(*pair, "multi-head", "global") for pair in PAIRS],
        *[("gru", *parts) for parts in PLUGGED if parts[1:] != ("multi-head", "global")],
    ],
)
def test_padding_never_matters(encoder, decoder, score, align):
    net, lengths = model(encoder, decoder, score, align), (5, 3, 1, 7)
    words, read = sources(lengths, garbage=9)[0], targets(4, 6)
    mask = sources(lengths)[1]
    memory, state = net.encode(words, mask)
    together = net.decode(read, state, memory).hidden
    for i, n in enumerate(lengths):
        memory, state = net.encode(words[i : i + 1, :n], mask[i : i + 1, :n])
        torch.testing.assert_close(together[i : i + 1], net.decode(read[i : i + 1], state, memory).hidden)


@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_padding_has_no_gradient(encoder, decoder):
    net = model(encoder, decoder, "multi-head")
    mask = sources()[1]
    vectors = net.source_embedding(sources(garbage=9)[0]).detach().requires_grad_()
    memory, state = net.decoder.init_state(net.encoder(vectors, mask))
    net.decode(targets(4, 6), state, memory).hidden.pow(2).sum().backward()
    assert vectors.grad is not None
    assert (vectors.grad[~mask] == 0).all()
    assert (vectors.grad[mask].abs().sum(-1) > 0).all()


@pytest.mark.parametrize(("decoder", "score", "align"), PLUGGED)
def test_hypotheses_share_a_sentence(decoder, score, align):
    net = model("gru", decoder, score, align)
    memory, state = net.encode(*sources())
    state, words = repeat_rows(state, 3), targets(12, 4)
    shared = net.decode(words, state, memory, need_weights=True)
    tiled = net.decode(words, state, repeat_rows(memory, 3), need_weights=True)
    torch.testing.assert_close(shared.hidden, tiled.hidden)
    torch.testing.assert_close(shared.cross_attention, tiled.cross_attention)


@pytest.mark.parametrize(("score", "align"), [("additive", "global"), *REMEMBERING])
@pytest.mark.parametrize("decoder", EVERY_DECODER)
def test_every_tensor_of_a_state_has_a_row_a_hypothesis(decoder, score, align):
    net = model("gru", decoder, score, align)
    memory, state = net.encode(*sources())
    _, state = net.step(torch.tensor([3, 4, 5, 6]), state, memory)
    assert {x.size(0) for x in tensors((state, memory))} == {4}
    words, rows = torch.tensor([7, 8, 9]), torch.tensor([2, 0, 0])
    some = net.step(words, select_rows(state, rows), select_rows(memory, rows))[0]
    for i, row in enumerate(rows):
        one = net.step(words[i : i + 1], select_rows(state, row[None]), select_rows(memory, row[None]))[0]
        torch.testing.assert_close(some[i : i + 1], one)


@pytest.mark.parametrize(
    ("score", "align"), [("additive", "local-m"), ("coverage", "local-m"), ("offset", "monotonic")]
)
@pytest.mark.parametrize("decoder", EVERY_DECODER)
def test_nothing_in_a_state_is_dead(decoder, score, align):
    # Only these ask where they stand; without them a recurrent decoder's position is carried for nothing else.
    net = model("gru", decoder, score, align)
    if align == "monotonic":
        calm(net)
    memory, first = net.encode(*sources((7, 7, 7, 7)))
    one, two = (net.decode(targets(4, n), first, memory).state for n in (3, 4))
    leaves, others = tensors(one), tensors(two)
    for i, (a, b) in enumerate(zip(leaves, others, strict=True)):
        assert a.shape != b.shape or (a != b).any(), f"tensor {i} does not depend on the words read"
        count = itertools.count()
        moved = map_tensors(lambda x, i=i, count=count: x + 1 if next(count) == i else x, one)
        word = targets(4, 2)
        same = torch.equal(net.decode(word, moved, memory).hidden, net.decode(word, one, memory).hidden)
        assert not same, f"tensor {i} does not matter to the words that follow"


@pytest.mark.parametrize(
    ("encoder", "decoder", "score", "align", "tie"),
    [
        *[(*pair, "multi-head", "global", "none") for pair in PAIRS if pair[0] != "gru"],
        *[("gru", *parts, "none") for parts in PLUGGED if parts[2] != "hard-reinforce"],
        *[(*parts, "multi-head", "global", "output") for parts in [("gru", "luong"), ("bert", "transformer")]],
        ("gru", "convolutional", "multi-head", "global", "all"),
    ],
)
def test_every_parameter_learns(encoder, decoder, score, align, tie):
    net = model(encoder, decoder, score, align, tie=tie).train()
    memory, state = net.encode(*sources())
    logits = net.output_projection(net.decode(targets(4, 5), state, memory).hidden)
    logits.log_softmax(-1)[..., 4].pow(2).sum().backward()
    assert [n for n, p in net.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize(("decoder", "score", "align"), PLUGGED)
def test_weights_are_a_distribution_over_words(decoder, score, align):
    net = model("gru", decoder, score, align)
    words, mask = sources()
    memory, state = net.encode(words, mask)
    weights = net.decode(targets(4, 9), state, memory, need_weights=True).cross_attention
    if decoder.startswith("fixed"):
        assert weights is None
        return
    assert (weights >= 0).all()
    assert weights.dim() == 5  # [N, L, H, T, S]
    assert (weights[~mask[:, None, None, None].expand_as(weights)] == 0).all()
    total = weights.sum(-1)
    if align == "local-p":  # the Gaussian is not renormalised
        assert (total <= 1 + 1e-9).all()
        assert (total > 0).all()
    else:
        torch.testing.assert_close(total, torch.ones_like(total))
