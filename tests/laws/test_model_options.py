"""Laws of wiring: each option of a model reaches its component, and no other."""

import re
from contextlib import suppress
from functools import reduce
from operator import getitem
from typing import Annotated, get_args

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

import seq2attn.experiment.experiment_config
import seq2attn.sweep.recipe
import seq2attn.sweep.sweep_config  # noqa: F401  # all configs are loaded
from seq2attn.config.base import Config
from seq2attn.errors import ConfigError
from seq2attn.experiment.training_config import TrainingConfig, ValidationConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import ModelConfig, build_model
from seq2attn.nn.layers import Dropout, LayerDrop
from seq2attn.training.train_state import TrainState, reached_limits
from tests.support.models import ALIGNS, BATCH, DECODERS, ENCODERS, FIXED, OWN_EMBEDDINGS, SCORES, config
from tests.support.trainings import BAHDANAU


def traits(fields):
    """The weights of a model, its output, and its gradients in training, one after the other."""
    torch.manual_seed(0)
    net = build_model(ModelConfig.model_validate(fields), 11, 11)
    yield from net.state_dict().values()
    yield net.eval()(BATCH.source, BATCH.sequences, BATCH.target).hidden
    torch.manual_seed(0)
    TrainingLoss(net.train())(BATCH).loss.backward()
    yield from (parameter.grad for parameter in net.parameters())


def other_values(field, value):
    """Other values of an option, of which a config may refuse some."""
    if value is None:
        return [1, 2, 0.5]
    values = get_args(field.annotation) if isinstance(value, str) else [value + 1, value + 2, 2 * value, value / 2]
    return [not value] if isinstance(value, bool) else [one for one in (*values, 0.5) if one != value]


COMPONENTS = [
    ("embeddings", "gru", "luong"),
    *[("encoder", name, "luong") for name in ENCODERS if name not in ("gru-forward", "lstm", *OWN_EMBEDDINGS)],
    *[("decoder", "gru", name) for name in ("luong", "transformer-rotary", "ssru", "convolutional", "fixed-gru")],
    *[("decoder.wiring", "gru", name) for name in ("recurrent-all", "recurrent-previous-whole")],
    *[
        ("decoder.attention.score", "gru", "luong", name)
        for name in {one["kind"]: name for name, one in SCORES.items()}.values()
    ],
    *[
        ("decoder.attention.align", "gru", "luong", "multi-head", name)
        for name in ALIGNS
        if name not in ("global", "sparsemax", "entmax15")  # which have no options
    ],
]


@pytest.mark.parametrize("component", COMPONENTS, ids=".".join)
def test_every_option_changes_the_model_or_its_training(component):
    """One without an effect beside the others is refused."""
    place, *parts = component
    whole = config(*parts)
    part, fields = reduce(getattr, place.split("."), whole), whole.model_dump()
    section, before = reduce(getitem, place.split("."), fields), list(traits(fields))
    for name, value in list(section.items()):
        is_option = isinstance(value, int | float | str | None) and not re.search("kind|vectors", name)
        for other in other_values(type(part).model_fields[name], value) if is_option else ():
            section[name] = other
            pairs = zip(traits(fields), before, strict=False)
            with suppress(ValueError, ConfigError):
                assert any(x.shape != y.shape or x.ne(y).any() for x, y in pairs), name
                break
        section[name] = value


def dropouts(net):
    for name, module in net.named_modules():
        if isinstance(module, Dropout | LayerDrop):
            yield name, module.p
        elif isinstance(module, nn.RNNBase) and module.num_layers > 1:
            yield name, module.dropout


PAIRS = [(encoder, "luong") for encoder in ENCODERS if encoder not in OWN_EMBEDDINGS]
PAIRS += [("gru", decoder) for decoder in (*DECODERS, *FIXED)]


@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_every_dropout_has_the_probability_of_its_component(encoder, decoder):
    parts = {"encoder": dict(ENCODERS[encoder]), "decoder": dict({**DECODERS, **FIXED}[decoder])}
    parts["encoder"]["dropout"], parts["decoder"]["dropout"] = 0.25, 0.375
    for part in parts.values():
        if part["kind"] == "transformer":
            part["attention_dropout"] = part["dropout"] + 0.5
        if part["kind"] in ("transformer", "ssru"):
            part["activation_dropout"] = part["dropout"] + 0.125
            part["layer_dropout"] = part["dropout"] + 0.25
            part["norm_type"] = "rmsnorm"
    if parts["decoder"]["kind"] != "fixed-context":
        parts["decoder"]["attention"] = {"score": {"kind": "multi-head", "heads": 4}, "dropout": 0.125}
    embeddings = {"dim": 16, "dropout": 0.5, "word_dropout": 0.0625}
    model = build_model(ModelConfig.model_validate({"embeddings": embeddings, **parts}), 11, 13)
    assert not any(isinstance(module, nn.LayerNorm) for module in model.modules())  # as every norm has its type
    modules = list(dropouts(model))
    for name, p in modules:
        side = name.split(".")[0]
        expected = {"source_embedding": 0.5, "target_embedding": 0.5, "encoder": 0.25, "decoder": 0.375}[side]
        if re.search(r"(?<!self_)attention\.dropout$", name) and side == "decoder":
            expected = 0.125
        elif name.endswith("word_dropout"):
            expected = 0.0625
        else:
            added = {"self_attention": 0.5, "feed_forward": 0.125, "layer_drop": 0.25}
            last = re.search(r"([a-z_]+)(?:\.dropout)?$", name)
            expected += added.get(last[1], 0.0) if parts.get(side, {}).get("kind") in ("transformer", "ssru") else 0.0
        assert p == expected, name
    sides = {"source_embedding", "target_embedding", "encoder", "decoder"}
    assert {name.split(".")[0] for name, _ in modules} == sides


def optional_numbers(kind):
    """The fields of all configs below `kind` that may be none or 0; not those of tests and of other programs' files."""
    is_ours = kind.__module__.startswith("seq2attn.") and not kind.__module__.startswith("seq2attn.pretrained.")
    for field, info in kind.model_fields.items() if is_ours else ():
        value = TypeAdapter(Annotated[info.annotation, info] if info.metadata else info.annotation)
        with suppress(ValidationError):
            value.validate_python(None)
            if type(value.validate_python(0)) in (int, float):
                yield field
    for one in kind.__subclasses__():
        yield from optional_numbers(one)


def test_a_number_of_0_is_not_one_that_is_not_set():
    """The 0 of these options is another than none; a further one needs a law too."""
    assert {*optional_numbers(Config)} == {"activation_dropout", "target"}
    state = TrainState(scores={"bleu": 0.0})
    for target, reached in ((None, []), (0.0, ["`training.validation.target`"])):
        assert reached_limits(state, TrainingConfig(validation=ValidationConfig(target=target))) == reached
    transformer = {"kind": "transformer", "heads": 2, "ffn_dim": 8, "dropout": 0.25, "activation": "gelu"}
    for decoder in (
        transformer,
        {key: value for key, value in transformer.items() if key != "heads"} | {"kind": "ssru"},
    ):
        for given, expected in ((None, 0.25), (0.0, 0.0), (0.5, 0.5)):
            parts = {"encoder": transformer | {"activation_dropout": given}}
            parts |= {"decoder": decoder | {"activation_dropout": given}, "embeddings": {"dim": 8}}
            model = build_model(ModelConfig.model_validate(parts), 11, 13)
            found = {p for name, p in dropouts(model) if name.endswith("feed_forward.dropout")}
            assert found == {expected}


@pytest.mark.parametrize(("tie", "scaled"), [("none", True), ("output", False), ("all", True)])
def test_embeddings_are_tied_and_scaled(tie, scaled):
    config = BAHDANAU | {"embeddings": {"dim": 8, "tie": tie, "scaled": scaled}}
    sizes = (11, 13) if tie != "all" else (13, 13)
    model = build_model(ModelConfig.model_validate(config), *sizes).eval()
    source, target = model.source_embedding, model.target_embedding
    weights = (source.embedding.weight, target.embedding.weight, model.output_projection.weight)
    assert [len(weight) for weight in weights] == [*sizes, sizes[1]]
    assert [weights[0] is weights[1], weights[1] is weights[2]] == [tie == "all", tie != "none"]
    for side, size in zip((source, target), sizes, strict=True):
        torch.testing.assert_close(side(torch.arange(size)), side.embedding.weight * (8**0.5 if scaled else 1))
