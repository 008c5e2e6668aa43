"""A compiled model learns what the model learns, and a Transformer is compiled as a whole, once for all sizes."""

from __future__ import annotations

from functools import partialmethod

import pytest
import torch
import torch._dynamo

from seq2attn.data.collate import collate, collate_padding_free
from tests.laws.small import assert_near, corpus, last_weights, trained
from tests.laws.test_packed import config, learnt, objective

__all__ = ["corpus"]  # a fixture


def pairs(count, words):
    """`count` pairs of about so many words."""
    draw = torch.Generator().manual_seed(count)
    lengths = torch.randint(words - 2, words + 1, (2, count), generator=draw).tolist()
    return [
        tuple(torch.randint(3, 11, (n,), generator=draw).tolist() for n in both) for both in zip(*lengths, strict=True)
    ]


@pytest.fixture
def fresh():
    """What was compiled before counts for nothing, and what is compiled here is dropped."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize("lay", [collate, collate_padding_free])
@pytest.mark.usefixtures("fresh")
def test_a_transformer_is_one_graph_for_all_sizes(lay):
    """Traced, and run as it is: writing kernels takes long and shows no more."""
    plain, compiled = objective().double(), objective().double()
    compiled.model.compile(dynamic=True, fullgraph=True, backend="eager")
    for count, words in ((7, 12), (33, 5), (4, 30)):
        batch = lay(pairs(count, words))
        loss, gradients = learnt(plain, batch)
        same, same_gradients = learnt(compiled, batch)
        torch.testing.assert_close(same.loss, loss.loss)
        for name, gradient in gradients.items():
            torch.testing.assert_close(same_gradients[name], gradient)


@pytest.mark.usefixtures("fresh")
def test_validation_compiles_nothing(corpus, monkeypatch):
    """It has no gradients, and padded batches: for either the model would be compiled once more."""
    compile_ = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", partialmethod(compile_, backend="eager"))
    options = {
        "model": config(layers=1),
        "max_duration": ["2 updates"],
        "batch": {"tokens": 150, "padding_free": True},
    }
    options["validation"] = {"every": "1 updates", "metric": "loss"}
    trained(corpus, "compiled", compile=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.usefixtures("fresh")
def test_a_compiled_training_is_the_training(corpus, packed):
    options = {
        "model": config(),
        "max_duration": ["3 epochs"],
        "batch": {"tokens": 64, "padding_free": packed},
    }
    options["optimizer"] = {"kind": "sgd", "lr": 0.5}
    with torch._dynamo.config.patch(error_on_recompile=False):  # a batch of one sentence is another model
        compiled = trained(corpus, "compiled", compile=True, **options)
    assert "compiled the model and checked memory in" in (compiled.folder / "train.log").read_text()
    assert_near(last_weights(compiled), last_weights(trained(corpus, "plain", **options)))
