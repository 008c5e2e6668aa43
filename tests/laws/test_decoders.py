"""Laws of encoders, decoders and attention, for each component."""

import itertools

import pytest
import torch

from seq2attn.decoders.convolutional import scale_gradient
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import ModelConfig
from seq2attn.models.build import build_on_meta_device
from seq2attn.nn.decoding_state import map_tensors, repeat_rows, select_rows, with_fixed_capacity
from seq2attn.nn.packing import Sequences
from tests.support.marks import covering
from tests.support.models import (
    BATCH,
    DECODERS,
    ENCODERS,
    EVERY_DECODER,
    PAIRS,
    PLUGGED,
    REPRESENTATIVE,
    STATEFUL,
    WORDS,
    calm,
    config,
    model,
    rand,
    sources,
    targets,
    tensors,
)


@pytest.mark.parametrize(
    ("decoder", "score", "align", "training"),
    covering([*((*parts, False) for parts in PLUGGED), *((decoder, *STATEFUL[-1], True) for decoder in DECODERS)]),
)
def test_decoding_in_parts_equals_decoding_at_once(decoder, score, align, training):
    net = model("gru", decoder, score, align)
    if training:
        calm(net)
    memory, state = net.encode(*sources())
    ids = targets(4, 7)
    whole = net.decode(ids, state, memory, need_weights=True)
    with torch.no_grad():  # by fused kernels
        torch.testing.assert_close(net.decode(ids, state, memory).hidden, whole.hidden)
    for lengths in ([1] * 7, [1, 5, 1]):
        outputs = []
        for part in ids.split(lengths, 1):
            outputs.append(net.decode(part, outputs[-1].state if outputs else state, memory, need_weights=True))
        torch.testing.assert_close(torch.cat([output.hidden for output in outputs], 1), whole.hidden)
        if whole.cross_attention is not None:
            weights = torch.cat([output.cross_attention for output in outputs], -2)
            torch.testing.assert_close(weights, whole.cross_attention)
        torch.testing.assert_close(tensors(outputs[-1].state), tensors(whole.state))


@pytest.mark.parametrize(
    ("encoder", "decoder", "score", "align"),
    covering(
        [
            *[(*pair, "multi-head", "global") for pair in PAIRS],
            *[("gru", *parts) for parts in PLUGGED if parts[1:] != ("multi-head", "global")],
        ]
    ),
)
def test_padding_does_not_matter(encoder, decoder, score, align):
    net, lengths = model(encoder, decoder, score, align), (5, 3, 1, 7)
    (ids, sequences), target = sources(lengths, garbage=9), targets(4, 6)
    memory, state = net.encode(ids, sequences)
    batch = net.decode(target, state, memory).hidden
    for i, n in enumerate(lengths):
        memory, state = net.encode(ids[i : i + 1, :n], Sequences(sequences.mask[i : i + 1, :n]))
        torch.testing.assert_close(batch[i : i + 1], net.decode(target[i : i + 1], state, memory).hidden)


@pytest.mark.parametrize(("encoder", "decoder"), covering(PAIRS))
def test_padding_has_no_gradient(encoder, decoder):
    net = model(encoder, decoder, "multi-head")
    ids, sequences = sources(garbage=9)
    embedded = net.source_embedding(ids).detach().requires_grad_()
    memory, state = net.decoder.init_state(net.encoder(embedded, sequences))
    net.decode(targets(4, 6), state, memory).hidden.pow(2).sum().backward()
    assert (embedded.grad[~sequences.mask] == 0).all()
    assert (embedded.grad[sequences.mask].abs().sum(-1) > 0).all()


@pytest.mark.parametrize(("decoder", "score", "align"), covering(PLUGGED))
def test_hypotheses_that_share_a_memory_equal_tiled_memories(decoder, score, align):
    net = model("gru", decoder, score, align)
    memory, state = net.encode(*sources())
    state, ids = repeat_rows(state, 3), targets(12, 4)
    shared = net.decode(ids, state, memory, need_weights=True)
    tiled = net.decode(ids, state, repeat_rows(memory, 3), need_weights=True)
    torch.testing.assert_close(shared.hidden, tiled.hidden)
    torch.testing.assert_close(shared.cross_attention, tiled.cross_attention)


@pytest.mark.parametrize(
    ("decoder", "score", "align"),
    covering((decoder, *one) for decoder in EVERY_DECODER for one in [("additive", "global"), *STATEFUL]),
)
def test_every_tensor_of_a_state_has_rows_first(decoder, score, align):
    net = model("gru", decoder, score, align)
    memory, state = net.encode(*sources())
    _, state = net.step(torch.tensor([3, 4, 5, 6]), state, memory)
    assert {x.size(0) for x in tensors((state, memory))} == {4}
    ids, rows = torch.tensor([7, 8, 9]), torch.tensor([2, 0, 0])
    selected = net.step(ids, select_rows(state, rows), select_rows(memory, rows))[0]
    for i, row in enumerate(rows):
        one = net.step(ids[i : i + 1], select_rows(state, row[None]), select_rows(memory, row[None]))[0]
        torch.testing.assert_close(selected[i : i + 1], one)


@pytest.mark.parametrize(
    ("decoder", "score", "align"),
    covering(
        (decoder, *one) for decoder in EVERY_DECODER for one in [("coverage", "local-m"), ("offset", "monotonic")]
    ),
)
def test_every_tensor_of_a_state_changes_and_matters(decoder, score, align):
    # Attention that depends on the position: otherwise a recurrent decoder does not use it.
    net = model("gru", decoder, score, align)
    if align == "monotonic":
        calm(net)
    memory, initial = net.encode(*sources((7, 7, 7, 7)))
    state, longer = (net.decode(targets(4, n), initial, memory).state for n in (3, 4))
    ids = targets(4, 2)
    expected = net.decode(ids, state, memory).hidden
    for i, (a, b) in enumerate(zip(tensors(state), tensors(longer), strict=True)):
        assert a.shape != b.shape or (a != b).any(), f"tensor {i} does not depend on the tokens"
        count = itertools.count()
        moved = map_tensors(lambda x, i=i, count=count: x + 1 if next(count) == i else x, state)
        assert not torch.equal(net.decode(ids, moved, memory).hidden, expected), f"tensor {i} has no effect"


@pytest.mark.parametrize(
    ("encoder", "decoder", "score", "align", "tie"),
    covering(
        [
            *[(*pair, "multi-head", "global", "none") for pair in PAIRS if pair[0] != "gru"],
            *[("gru", *parts, "none") for parts in PLUGGED if parts[2] != "hard-reinforce"],
            *[(*parts, "multi-head", "global", "output") for parts in [("gru", "luong"), ("bert", "transformer")]],
            ("gru", "convolutional", "multi-head", "global", "all"),
        ]
    ),
)
def test_every_parameter_has_a_gradient(encoder, decoder, score, align, tie):
    net = model(encoder, decoder, score, align, tie=tie).train()
    memory, state = net.encode(*sources())
    logits = net.output_projection(net.decode(targets(4, 5), state, memory).hidden)
    logits.log_softmax(-1)[..., 4].pow(2).sum().backward()
    assert [n for n, p in net.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize(("decoder", "score", "align"), covering(parts for parts in PLUGGED if parts[1] != "none"))
def test_weights_are_a_distribution_over_tokens(decoder, score, align):
    net = model("gru", decoder, score, align)
    ids, sequences = sources()
    mask = sequences.mask
    memory, state = net.encode(ids, sequences)
    weights = net.decode(targets(4, 9), state, memory, need_weights=True).cross_attention
    assert (weights >= 0).all()
    assert weights.dim() == 5  # [N, L, H, T, S]
    assert (weights[~mask[:, None, None, None].expand_as(weights)] == 0).all()
    total = weights.sum(-1)
    if align == "local-p":  # the Gaussian is not renormalized
        assert (total <= 1 + 1e-9).all()
        assert (total > 0).all()
    else:
        torch.testing.assert_close(total, torch.ones_like(total))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_weights_of_an_encoder_are_a_distribution_and_do_not_change_the_output(encoder):
    net, lengths = model(encoder, "luong"), (5, 3, 1, 7)
    ids, sequences = sources(lengths, garbage=9)
    embedded, mask = net.source_embedding(ids), sequences.mask
    output, with_weights = net.encoder(embedded, sequences), net.encoder(embedded, sequences, need_weights=True)
    weights = with_weights.weights
    assert output.weights is None
    for name in ("keys", "values"):
        torch.testing.assert_close(getattr(with_weights, name)[mask], getattr(output, name)[mask])
    torch.testing.assert_close(with_weights.final_state, output.final_state)
    assert (weights is None) == (ENCODERS[encoder]["kind"] not in ("transformer", "bert"))
    if weights is None:
        return
    config = {"layers": 2, "heads": 4} if encoder == "bert" else ENCODERS[encoder]
    assert weights.shape == (len(lengths), config["layers"], config["heads"], max(lengths), max(lengths))
    assert (weights >= 0).all()
    weights = net.encoder_self_attention(ids, sequences)
    assert (weights[~mask[:, None, None, None].expand_as(weights)] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    for i, n in enumerate(lengths):
        alone = net.encoder_self_attention(ids[i : i + 1, :n], Sequences(mask[i : i + 1, :n]))
        torch.testing.assert_close(weights[i : i + 1, ..., :n, :n], alone)


def test_gradients_to_the_encoder_of_a_convolutional_decoder_are_scaled(monkeypatch):
    gradients = []
    for unscaled in (False, True):
        if unscaled:
            name = "seq2attn.decoders.convolutional.scale_gradient"
            monkeypatch.setattr(name, lambda x, share: x if share == 1 / 4 else None)
        net = model("gru", "convolutional")
        memory, state = net.encode(*sources())
        net.decode(targets(4, 5), state, memory).hidden.pow(2).sum().backward()
        gradients.append(net.source_embedding.embedding.weight.grad)
    torch.testing.assert_close(gradients[0] * 4, gradients[1])


@pytest.mark.parametrize("layers", [1, 3, 5])
def test_scaling_a_gradient_does_not_change_the_value(layers):
    x = rand(999).bfloat16()
    assert scale_gradient(x, 1 / (2 * layers)).equal(x)


@pytest.mark.parametrize("decoder", ["transformer", "convolutional"])
def test_log_probabilities_of_samples_are_summed_over_layers(decoder):
    net, log_probs = calm(model("gru", decoder, "multi-head", "hard-reinforce")), []
    for layer in net.decoder.layers:
        layer.cross_attention.register_forward_hook(lambda _, args, output: log_probs.append(output.sample_log_prob))
    memory, state = net.encode(*sources())
    total = net.decode(targets(4, 5), state, memory).sample_log_prob
    torch.testing.assert_close(total, log_probs[0] + log_probs[1])


@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [
        *((name, "bahdanau-gru") for name in ENCODERS if name != "gru"),
        *(("gru", name) for name in REPRESENTATIVE),
        *(pytest.param("gru", name, marks=pytest.mark.slow) for name in EVERY_DECODER if name not in REPRESENTATIVE),
    ],
)
def test_losses_and_gradients_wait_for_nothing(encoder, decoder, monkeypatch):
    """The meta device has nothing to be read, and no number of the host is copied: a GPU would wait for both."""
    fields = config(encoder, decoder).model_dump()
    fields["embeddings"]["frozen_bos"] = True
    net = build_on_meta_device(ModelConfig.model_validate(fields), WORDS, WORDS)
    objective, batch = TrainingLoss(net, 0.1), BATCH.to("meta")
    monkeypatch.delattr(torch, "tensor")
    objective(batch).loss.backward()
    assert all(weight.grad is not None for weight in objective.parameters())


@torch.no_grad()
@pytest.mark.parametrize(
    ("decoder", "score", "align"),
    covering(
        parts
        for parts in PLUGGED
        if parts[0] in ("luong-feeding", "transformer") or parts[1:] in (("none", "none"), STATEFUL[-1])
    ),
)
def test_steps_of_a_search_wait_for_nothing(decoder, score, align):
    net, batch = model("gru", decoder, score, align).float(), BATCH.to("meta")
    encoded = net.encode(BATCH.source, BATCH.sequences)
    memory, state = map_tensors(lambda tensor: tensor.to("meta"), encoded)
    net.to("meta")
    _, state = net.step(batch.target[:, 0], state, memory)
    for state_of_three in (repeat_rows(state, 3), with_fixed_capacity(repeat_rows(state, 3), 8)):
        log_probs, _ = net.step(batch.target[:, 0].repeat(3), state_of_three, memory)
        assert len(log_probs) == 3 * len(batch.target)
