"""Components that do not fit together, or whose own widths do not."""

import pytest
import torch
from pydantic import ValidationError
from torch import nn

import seq2attn
from seq2attn.attention.attention_config import AttentionConfig
from seq2attn.attention.scores import MultiHeadScoreConfig, ScoreFunction
from seq2attn.models import ModelConfig, build_model

FITTING = {"embeddings": {"dim": 9}, "encoder": {"kind": "gru", "dim": 8}, "decoder": {"kind": "luong", "dim": 8}}
ROTARY = {"kind": "transformer", "heads": 3, "position_encoding": "rotary"}
BUCKETS = {"kind": "transformer", "heads": 3, "position_encoding": "relative-bias", "num_buckets": 4}
NINE = {"kind": "multi-head", "heads": 9}
GROUPED = {"kind": "multi-head", "heads": 8, "kv_heads": 5}


def luong_with_score(**score):
    return {"kind": "luong", "dim": 8, "attention": {"score": score}}


def decoder_with_wiring(*context):
    return {"kind": "recurrent", "dim": 8, "wiring": {"query": "current", "context": context}}


@pytest.mark.parametrize(
    ("side", "part", "message"),
    [
        ("encoder", {"kind": "convolutional", "kernel_size": 4}, "must be odd"),
        ("encoder", {"kind": "gru", "dim": 15}, "cannot share an odd width, 15"),
        ("encoder", ROTARY, "encoder.position_encoding: rotary positions need heads of an even width, not 3"),
        ("decoder", ROTARY, "decoder.position_encoding: rotary positions need heads of an even width, not 3"),
        (
            "encoder",
            {**ROTARY, "head_dim": 5},
            "encoder.position_encoding: rotary positions need heads of an even width, not 5",
        ),
        ("encoder", BUCKETS | {"position_encoding": "rotary", "max_distance": 16}, "max_distance: has no effect with"),
        ("encoder", BUCKETS | {"position_encoding": "relative"}, "num_buckets: has no effect with"),
        ("encoder", {"kind": "transformer", "max_positions": 512}, "max_positions: has no effect with .*sinusoidal"),
        (
            "decoder",
            BUCKETS | {"wavelengths": "paper"},
            "wavelengths: has no effect with `position_encoding: rel",
        ),
        ("decoder", {"kind": "ssru", "position_encoding": "learned", "position_offset": 2}, "position_offset: has no"),
        ("encoder", BUCKETS | {"num_buckets": 32, "max_distance": 16}, "max_distance: 16, but 16 of the 32 buckets"),
        ("encoder", BUCKETS | {"num_buckets": 256}, "max_distance: 128, but 128 of the 256 buckets"),
        ("decoder", BUCKETS | {"max_distance": 2}, "max_distance: 2, but 2 of the 4 buckets"),
        ("encoder", {"kind": "transformer", "kv_heads": 3}, "kv_heads: 3 key-value heads do not divide 8 heads"),
        ("decoder", luong_with_score(**GROUPED), "kv_heads: 5 key-value heads do not divide 8 heads"),
        (
            "decoder",
            luong_with_score(kind="additive", dim=6, heads=3),
            "3 heads do not divide 8, the width of the encoder",
        ),
        *(
            ("decoder", luong_with_score(kind=kind, heads=3), "3 heads do not divide 8, the width of the decoder")
            for kind in ("dot", "general", "cosine", "multi-head")
        ),
        ("decoder", decoder_with_wiring(), "context"),
        ("decoder", decoder_with_wiring("cell", "cell"), "twice"),
    ],
)
def test_parts_that_do_not_fit_are_refused(side, part, message):
    ModelConfig.model_validate(FITTING)
    with pytest.raises(ValidationError, match=message):
        ModelConfig.model_validate(FITTING | {side: part})


@pytest.mark.parametrize("given", [{}, {"wiring": {}}, {"wiring": {"query": "current"}}])
def test_keys_of_the_wiring_that_are_not_given_are_those_of_luong(given):
    decoder = ModelConfig.model_validate(FITTING | {"decoder": {"kind": "recurrent", "dim": 8, **given}}).decoder
    luong = {"query": "current", "context": ("output",), "input_feeding": True, "word_to_output": False}
    assert decoder.attention_wiring.model_dump() == luong


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "bahdanau"},
        {"kind": "luong"},
        {"kind": "recurrent", "wiring": {"query": "current", "context": ["output"]}},
        {"kind": "convolutional"},
        {"kind": "ssru"},
        {"kind": "transformer", "heads": 4},
    ],
)
def test_attention_without_a_score_has_that_of_the_decoder(options):
    def attention(**given):
        parts = FITTING | {"embeddings": {"dim": 8}, "decoder": options | given}
        return ModelConfig.model_validate(parts).decoder.attention

    align = {"kind": "entmax15"}
    default, given = attention(), attention(attention={"align": align, "dropout": 0.5})
    assert given.score == default.score and (given.align.kind, given.dropout) == ("entmax15", 0.5)
    assert attention(attention=default.model_dump()) == attention(attention={}) == default
    with pytest.raises(ValidationError, match="Extra inputs"):
        attention(attention={"algn": align})


def test_cross_attention_has_the_heads_of_its_decoder():
    for options, heads in (
        ({"heads": 3}, 3),
        ({"heads": 9}, 9),
        ({"heads": 3, "attention": luong_with_score(**NINE)["attention"]}, 9),
    ):
        decoder = ModelConfig.model_validate(FITTING | {"decoder": {"kind": "transformer", **options}}).decoder
        assert decoder.attention == AttentionConfig(score=MultiHeadScoreConfig(**NINE | {"heads": heads}))


class Plugin:
    class Config(seq2attn.Config):
        kind: str
        attention: AttentionConfig

        def build(self, input_dim, encoder):
            raise NotImplementedError


def test_the_widths_of_a_plug_in_are_its_own():
    """Its query may be as wide as the encoder, and not as the embeddings."""
    decoder = {"kind": f"{__name__}:Plugin", "attention": {"score": {"kind": "dot"}}}
    assert ModelConfig.model_validate(FITTING | {"decoder": decoder}).decoder.attention.score.kind == "dot"


class OwnWeights(ScoreFunction):
    class Config(seq2attn.Config):
        kind: str

        def build(self, query_dim, key_dim):
            return OwnWeights(key_proj=nn.Linear(key_dim, query_dim))

    def __init__(self, key_proj):
        super().__init__(key_proj=key_proj)
        nn.init.eye_(key_proj.weight)
        nn.init.constant_(key_proj.bias, 3)

    def forward(self, q, k, info):
        return q @ k.transpose(-1, -2)


@pytest.mark.parametrize("kind", ["bahdanau", "luong", "transformer", "convolutional"])
def test_a_plug_in_in_a_decoder_keeps_its_initial_weights(kind):
    decoder = {"kind": kind, "attention": {"score": {"kind": f"{__name__}:OwnWeights"}}}
    model = build_model(ModelConfig.model_validate(FITTING | {"embeddings": {"dim": 8}, "decoder": decoder}), 9, 9)
    scores = [part for part in model.modules() if isinstance(part, OwnWeights)]
    assert scores
    for score in scores:
        assert torch.equal(score.key_proj.weight, torch.eye(*score.key_proj.weight.shape))
        assert (score.key_proj.bias == 3).all()


def test_components_check_their_heads():
    """Those of plug-ins are not checked by the config."""
    with pytest.raises(ValueError, match="heads do not divide the width"):
        AttentionConfig.model_validate({"score": {"kind": "additive", "dim": 6, "heads": 3}}).build(8, 8, 8)
    with pytest.raises(ValueError, match="rotary positions need heads of an even width"):
        MultiHeadScoreConfig(heads=3).build(9, 9, rotary=True)
