"""Laws of LoRA: kernels see the update, merged weights equal it, only it is trained, and resuming is exact."""

import itertools
from copy import deepcopy

import pytest
import torch
from torch import nn

from seq2attn.errors import CorruptFileError, UserError
from seq2attn.io.weights import copy_weights, load_tensors, unique_state_dict
from seq2attn.nn.lora import ORIGINAL, add_adapter, merge_adapters, remove_adapters
from seq2attn.nn.packing import Sequences
from seq2attn.training.checkpoints.averaging import average, load_merged
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from tests.support.marks import covering, slow_but
from tests.support.models import EVERY_DECODER, calm, model, sources, targets
from tests.support.trainings import BAHDANAU, MODELS, assert_near, assert_same, last_weights, metrics, train_run

PAIRS = [("gru", decoder) for decoder in EVERY_DECODER] + [("transformer", "transformer"), ("bert", "luong-feeding")]


def add_updates(net):
    """The model with an update of each linear layer that is not zero; all else is frozen."""
    net.requires_grad_(False)
    for layer in [layer for layer in net.modules() if isinstance(layer, nn.Linear)]:
        add_adapter(layer, 2, 3.0)
        nn.init.normal_(layer.parametrizations.weight[0].up, std=0.3)
    return net


def loss_and_gradients(net, batch, fraction):
    (ids, sequences), target = batch
    hidden = net.log_probs(net(ids, sequences, target).hidden)[..., 3]
    (hidden.sum() * fraction).backward()
    return hidden.detach(), {name: parameter.grad for name, parameter in net.named_parameters()}


@pytest.mark.parametrize(
    ("encoder", "decoder", "dtype", "rows"),
    covering((*pair, *kind) for pair in PAIRS for kind in [(torch.float64, 1), (torch.float32, 16)]),
)
def test_every_kernel_sees_the_update(encoder, decoder, dtype, rows):
    """Its gradients are those of the merged weights by the chain rule; with 64 rows also those of oneDNN."""
    plain = calm(model(encoder, decoder, "multi-head")).to(dtype)
    if encoder == "bert":
        plain.encoder.eval()  # its attention has a dropout that is no module
    net = add_updates(deepcopy(plain))
    copy_weights(plain, merge_adapters(unique_state_dict(net)), "merged")
    ids, sequences = sources()
    batch = (ids.repeat(rows, 1), Sequences(sequences.mask.repeat(rows, 1))), targets(4 * rows, 8)
    output, gradients = loss_and_gradients(net, batch, 1 / rows)
    expected, merged_gradients = loss_and_gradients(plain, batch, 1 / rows)
    accuracy = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
    torch.testing.assert_close(output, expected, **accuracy)
    updates = {name: layer for name, layer in net.named_modules() if hasattr(layer, "parametrizations")}
    assert {name for name, gradient in gradients.items() if gradient is not None} == {
        f"{name}.parametrizations.weight.0.{part}" for name, part in itertools.product(updates, ("up", "down"))
    }
    for name, layer in updates.items():
        update, gradient = layer.parametrizations.weight[0], 1.5 * merged_gradients[f"{name}.weight"]
        torch.testing.assert_close(update.up.grad, gradient @ update.down.T, **accuracy)
        torch.testing.assert_close(update.down.grad, update.up.T @ gradient, **accuracy)
    remove_adapters(net)
    assert_near(unique_state_dict(net), unique_state_dict(plain))


@pytest.mark.parametrize("kind", slow_but(["transformer"], ["recurrent", "transformer"]))
def test_only_the_updates_are_trained_and_the_run_has_merged_weights(corpus, kind):
    old = train_run(corpus, "old", model=MODELS[kind], max_duration=["2 updates"])
    options = {
        "model": MODELS[kind],
        "init_from": {"run_dir": str(old.folder)},
        "lora": {"rank": 2, "alpha": 6, "parts": ["decoder", "output_projection"]},
        "validation": {"every": "2 updates", "metric": "loss"},
        "optimizer": {"kind": "adam", "lr": 0.3},
    }
    whole = train_run(corpus, "whole", max_duration=["8 updates"], checkpoints={"average": "last"}, **options)
    half = train_run(corpus, "half", max_duration=["4 updates"], checkpoints={"average": "last"}, **options)
    before, after = load_tensors(old.weights_path), last_weights(whole)
    updates = {name for name in after if ".parametrizations.weight.0." in name}
    names = {name: name.replace(ORIGINAL, ".weight") for name in after if name not in updates}
    assert_same({new: after[name] for name, new in names.items()}, before)
    assert updates and {name for name in updates if not name.startswith(("decoder.", "output_projection."))} == set()
    assert {after[name].item() for name in updates if name.endswith(".scale")} == {3.0}
    assert any("output_projection" in name for name in updates) == (kind == "recurrent")  # else it is tied
    checkpoints = list_checkpoints(whole.folder)
    assert all({*load_tensors(one.model_path)} == updates for one in checkpoints)
    assert {one.frozen_path for one in checkpoints} == {*(whole.folder / "checkpoints").glob("*.safetensors")}
    merged = [load_merged(one) for one in checkpoints[-2:]]
    mean = {name: (merged[0][name] + merged[1][name]) / 2 for name in merged[0]}
    found = load_tensors(whole.weights_path)  # the mean, or a checkpoint, if that is better on the dev set
    choices = [mean, *map(load_merged, checkpoints)]
    assert_near(found, min(choices, key=lambda one: sum((one[name] - found[name]).abs().sum() for name in found)))
    assert {name for name in mean if not torch.equal(mean[name], before[name])} == {
        name.replace(ORIGINAL, ".weight") for name in after if name.endswith(ORIGINAL)
    }
    whole.load()
    train_run(corpus, "half", resume=True, max_duration=["8 updates"], checkpoints={"average": "last"}, **options)
    assert_same(last_weights(half), after)
    assert_same(load_tensors(half.weights_path), load_tensors(whole.weights_path))


def test_the_best_weights_are_those_that_were_validated(corpus):
    run = train_run(corpus, "run", model=BAHDANAU, lora={"rank": 3}, max_duration=["8 updates"])
    again = {"optimizer": {"kind": "sgd", "lr": 1e-40}, "max_duration": ["1 update"]}
    same = train_run(corpus, "same", model=BAHDANAU, init_from={"run_dir": str(run.folder)}, **again)
    best = min(line["loss"] for line in metrics(run, "validation"))
    assert metrics(same, "validation")[-1]["loss"] == pytest.approx(best, abs=1e-6)
    weights = {name: tensor.clone() for name, tensor in load_tensors(run.weights_path).items()}  # not of the file
    run.weights_path.write_bytes(run.weights_path.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match=rf"restore them with `seq2attn average {run.folder} --best 1`"):
        run.load()
    average(run.folder, last=None, best=1)
    assert_same(load_tensors(run.weights_path), weights)
    with pytest.raises(UserError, match="these parts have no linear layer"):
        train_run(corpus, "none", model=BAHDANAU, lora={"parts": ["encoder.rnn"]})
    with pytest.raises(ValueError, match="`lora` freezes all weights but its own"):
        train_run(corpus, "none", model=BAHDANAU, lora={}, frozen=["encoder"])
