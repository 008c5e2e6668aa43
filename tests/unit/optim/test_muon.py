"""Muon against singular value decompositions and PyTorch's Muon and Adam, and which weights are matrices."""

import math

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.models import ModelConfig, build_model
from seq2attn.optim.muon import COEFFICIENTS, orthogonalize
from seq2attn.optim.optimizers import OptimizerConfig, parameter_groups
from seq2attn.training.initial_weights import freeze_parameters
from tests.support.trainings import BAHDANAU, CONVOLUTIONAL, MODELS

ERROR = 0.125
"""Of a singular value after the last step."""
SHAPES = [(6, 6), (6, 4), (4, 6), (12, 4), (4, 12), (5, 4, 3), (8, 4, 3)]
SQUARES = {(12, 4): 3, (4, 12): 3, (8, 4, 3): 2}
"""Number of squares that are orthogonal on their own."""


def build(parameters, is_matrix=None, **options):
    groups = [{"params": parameters, "lr_scale": 1.0, "is_matrix": is_matrix or [p.dim() > 1 for p in parameters]}]
    return TypeAdapter(OptimizerConfig).validate_python({"kind": "muon", **options}).build(groups)


def run(optimizer, parameters, gradients):
    for step in gradients:
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
    return [parameter.detach() for parameter in parameters]


def polar(x, squares):
    """U V' of each of the squares of a matrix, which are beside each other along its longer side."""
    side = int(x.size(1) > x.size(0))
    parts = (torch.linalg.svd(block, full_matrices=False) for block in x.chunk(squares, side))
    return torch.cat([u @ v for u, _, v in parts], side)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_steps_are_those_of_a_singular_value_decomposition(shape):
    torch.manual_seed(1)
    weight, gradients = nn.Parameter(torch.randn(shape)), [torch.randn(shape) for _ in range(4)]
    before = weight.detach().clone()
    optimizer = build([weight], lr=0.01, momentum=0.8)
    momentum, squares = torch.zeros(shape), SQUARES.get(shape, 1)
    for gradient in gradients:
        momentum = 0.8 * momentum + 0.2 * gradient
        direction = 0.2 * gradient + 0.8 * momentum
        taps = direction.unsqueeze(-1) if len(shape) == 2 else direction
        update = torch.stack([polar(tap, squares) for tap in taps.unbind(-1)], -1).reshape(shape)
        width = min(shape[:2]) if squares > 1 else max(shape[:2])
        (after,) = run(optimizer, [weight], [[gradient]])
        expected = -0.01 * 0.2 * math.sqrt(width) * update
        assert ((after - before) - expected).norm() <= ERROR * expected.norm()
        before = after.clone()


def test_steps_are_those_of_pytorch_for_matrices_and_of_adam_for_vectors():
    torch.manual_seed(1)
    values, gradients = [torch.randn(7, 5), torch.randn(5)], [[torch.randn(7, 5), torch.randn(5)] for _ in range(5)]
    ours, theirs = ([nn.Parameter(value.clone()) for value in values] for _ in range(2))
    options = {"betas": (0.7, 0.9), "eps": 1e-3}
    found = run(build(ours, lr=0.05, momentum=0.6, **options), ours, gradients)
    exact = {"ns_coefficients": (15 / 8, -10 / 8, 3 / 8), "ns_steps": 40}  # converges to U V'
    muon = torch.optim.Muon(theirs[:1], lr=0.05, momentum=0.6, weight_decay=0, adjust_lr_fn="match_rms_adamw", **exact)
    (matrix,) = run(muon, theirs[:1], [step[:1] for step in gradients])
    (vector,) = run(torch.optim.Adam(theirs[1:], lr=0.05, **options), theirs[1:], [step[1:] for step in gradients])
    torch.testing.assert_close(found[1], vector)
    assert (found[0] - matrix).norm() <= 0.15 * (matrix - values[0]).norm()  # theirs is in bfloat16


@pytest.mark.parametrize("steps", [3, len(COEFFICIENTS)])
def test_singular_values_become_one_without_the_first_steps_the_small_ones_later(steps):
    torch.manual_seed(1)
    u, v = torch.linalg.qr(torch.randn(9, 4))[0], torch.linalg.qr(torch.randn(4, 4))[0]
    for smallest in (0.3, 0.002):
        values = torch.tensor([1.0, 0.8, 0.5, smallest])
        found = torch.linalg.svdvals(orthogonalize((u * values @ v)[None], steps))[0]
        assert found.max() <= 1 + ERROR
        assert (found.min() >= 1 - ERROR) == (smallest == 0.3 or steps == len(COEFFICIENTS))
    tiny = orthogonalize(torch.stack([torch.zeros(3, 3), torch.full((3, 3), 1e-25)]), steps)
    assert tiny.isfinite().all() and not tiny[0].any()


def test_a_resumed_optimizer_takes_the_same_steps():
    torch.manual_seed(1)
    values = [torch.randn(6, 4), torch.randn(4)]
    gradients = [[torch.randn(6, 4), torch.randn(4)] for _ in range(4)]
    whole, parts = ([nn.Parameter(value.clone()) for value in values] for _ in range(2))
    run(build(whole), whole, gradients)
    first, second = build(parts), build(parts)
    run(first, parts, gradients[:2])
    second.load_state_dict({"state": first.state_dict()["state"], "param_groups": second.state_dict()["param_groups"]})
    run(second, parts, gradients[2:])
    assert [torch.equal(one, other) for one, other in zip(whole, parts, strict=True)] == [True, True]


@pytest.mark.parametrize("fault", [math.nan, math.inf, 3e38, 1.0])
def test_a_step_that_must_not_be_made_changes_nothing(fault):
    """Even where the gradient is finite, as with a loss that is not."""
    torch.manual_seed(1)
    weights = [nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))]
    optimizer = build(weights)
    optimizer.found_inf = torch.tensor(0.0)
    before = [value.clone() for value in run(optimizer, weights, [[torch.randn(4, 4), torch.randn(4)]])]
    momentum = optimizer.state[weights[0]]["momentum"].clone()
    optimizer.found_inf = torch.tensor(1.0)
    after = run(optimizer, weights, [[torch.full((4, 4), fault), torch.full((4,), fault)]])
    assert [torch.equal(one, other) for one, other in zip(before, after, strict=True)] == [True, True]
    assert torch.equal(optimizer.state[weights[0]]["momentum"], momentum)


TABLES = {"source_embedding.embedding.weight", "target_embedding.embedding.weight", "output_projection.weight"}
POSITIONS = {f"{side}.position_embedding.embedding.weight" for side in ("encoder", "decoder")}
NO_MATRICES = {
    "bahdanau": (BAHDANAU, TABLES | {"decoder.attention.score.v"}),
    "convolutional": (CONVOLUTIONAL, TABLES | POSITIONS),
    "transformer, tied": (MODELS["transformer"], TABLES),
}


@pytest.mark.parametrize("name", NO_MATRICES)
@pytest.mark.parametrize("lora", [None, {"rank": 2, "parts": ["encoder", "decoder", "output_projection"]}], ids=str)
def test_matrices_are_all_but_tables_and_vectors(name, lora):
    config, others = NO_MATRICES[name]
    model = build_model(ModelConfig.model_validate(config), 11, 13)
    if lora:
        freeze_parameters(model, TrainingConfig.model_validate({"lora": lora}))
    names = {id(parameter): key for key, parameter in model.named_parameters()}
    (group,) = parameter_groups(model, {})
    flags = {names[id(p)]: flag for p, flag in zip(group["params"], group["is_matrix"], strict=True)}
    expected = {key for key, p in model.named_parameters() if p.requires_grad and p.dim() > 1} - others
    if lora:
        expected -= {key for key in flags if key.startswith("output_projection")}
        assert all(key.endswith((".down", ".up")) for key in flags)
    assert {key for key, flag in flags.items() if flag} == expected
