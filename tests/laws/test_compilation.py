"""Compiled models equal uncompiled ones, and a Transformer is one graph for all batch sizes."""

from functools import partialmethod

import pytest
import torch
import torch._dynamo

from seq2attn.data.collate import collate
from tests.support.packed_models import SSRU, config, loss_and_gradients, objective, random_pairs
from tests.support.trainings import assert_exact_resume, assert_near, last_weights, train_run


@pytest.fixture
def without_recompiles():
    """An empty cache of compiled graphs, before and after."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("packed", "decoder"),
    [(True, None), *(pytest.param(False, decoder, marks=pytest.mark.slow) for decoder in (None, SSRU))],
)
@pytest.mark.usefixtures("without_recompiles")
@pytest.mark.slow
def test_a_transformer_is_one_graph_for_all_sizes(packed, decoder):
    """Traced only, without generated kernels."""
    plain, compiled = objective(decoder=decoder).double(), objective(decoder=decoder).double()
    compiled.model.compile(dynamic=True, fullgraph=True, backend="eager")
    for count, length in ((7, 12), (33, 5), (4, 30)):
        batch = collate(random_pairs(count, length), packed=packed)
        loss, gradients = loss_and_gradients(plain, batch)
        same, same_gradients = loss_and_gradients(compiled, batch)
        torch.testing.assert_close(same.loss, loss.loss)
        for name, gradient in gradients.items():
            torch.testing.assert_close(same_gradients[name], gradient)


@pytest.mark.usefixtures("without_recompiles")
@pytest.mark.slow
def test_validation_compiles_nothing(corpus, monkeypatch):
    """Without gradients, or with padded batches, the model would be compiled again."""
    compile_, graphs = torch.nn.Module.compile, []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch.nn.Module, "compile", partialmethod(compile_, backend=backend))
    options = {"model": config(layers=1), "max_duration": ["2 updates"]}
    options["batch"] = {"tokens": 150, "padding_free": True}
    options["validation"] = {"every": "1 updates", "metric": "loss"}
    train_run(corpus, "compiled", compile=True, **options)
    assert graphs  # the training was compiled


@pytest.mark.slow
def test_resuming_is_exact(corpus):
    with torch.compiler.set_stance("force_eager"):  # nothing is compiled: it is about the logs
        assert_exact_resume(corpus, 8, model=config(layers=1), compile=True)


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.usefixtures("without_recompiles")
def test_a_compiled_training_equals_an_uncompiled_one(corpus, packed):
    options = {"model": config(), "max_duration": ["3 epochs"], "batch": {"tokens": 64, "padding_free": packed}}
    options["optimizer"] = {"kind": "sgd", "lr": 0.5}
    with torch._dynamo.config.patch(error_on_recompile=False):  # for a batch of one sentence
        compiled = train_run(corpus, "compiled", compile=True, **options)
    assert "compiled the model and checked memory in" in (compiled.folder / "train.log").read_text()
    assert_near(last_weights(compiled), last_weights(train_run(corpus, "plain", **options)))
