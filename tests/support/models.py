"""Tables of all components, for the laws: a new component adds a row."""

import itertools
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from seq2attn.data.collate import collate
from seq2attn.models import ModelConfig, Seq2Seq, build_model
from seq2attn.nn.decoding_state import map_tensors
from seq2attn.nn.packing import Sequences

WIDTH, WORDS = 16, 11

MODERN = {
    "kind": "transformer", "layers": 2, "heads": 4, "kv_heads": 2, "ffn_dim": 32, "norm_type": "rmsnorm",
    "activation": "swiglu",
}  # fmt: skip
RELATIVE = {"transformer-relative": {**MODERN, "position_encoding": "relative", "max_distance": 3}}
T5 = {
    "kind": "transformer", "layers": 2, "heads": 3, "head_dim": 6, "ffn_dim": 32, "norm_type": "rmsnorm", "bias": False,
    "activation": "geglu_tanh", "position_encoding": "relative-bias", "num_buckets": 6, "max_distance": 4,
}  # fmt: skip
ENCODERS = {
    "gru": {"kind": "gru", "dim": WIDTH, "layers": 2},
    "gru-forward": {"kind": "gru", "dim": WIDTH, "bidirectional": False},
    "lstm": {"kind": "lstm", "dim": WIDTH, "layers": 1},
    "transformer": {
        "kind": "transformer", "layers": 2, "heads": 4, "ffn_dim": 32, "activation": "silu", "wavelengths": "paper",
        "position_offset": 2,
    },
    "transformer-post-learned": {
        "kind": "transformer", "layers": 2, "heads": 2, "ffn_dim": 32, "norm_order": "post",
        "position_encoding": "learned", "embedding_norm": True,
    },
    **RELATIVE,
    "transformer-t5": T5,
    "convolutional": {"kind": "convolutional", "dim": 12, "layers": 2, "kernel_size": 3},
    "bert": {
        "kind": "bert", "path": "nowhere", "architecture": {  # with an architecture the folder is not read
            "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 32, "max_position_embeddings": 6,
        },
    },
}  # fmt: skip
OWN_EMBEDDINGS = ("bert",)
"""Encoders with embeddings of their own."""
SCORES = {
    "dot": {"kind": "dot"},
    "scaled-dot": {"kind": "dot", "scaled": True},
    "dot-2-heads": {"kind": "dot", "heads": 2, "scaled": True},
    "general": {"kind": "general"},
    "general-4-heads": {"kind": "general", "heads": 4, "scaled": True},
    "additive": {"kind": "additive", "dim": 8},
    "concat": {"kind": "concat", "dim": 8},
    "additive-4-heads": {"kind": "additive", "dim": 8, "heads": 4},
    "multi-head": {"kind": "multi-head", "heads": 4},
    "multi-head-wide": {"kind": "multi-head", "heads": 3, "head_dim": 6, "bias": False},
    "multi-head-2-groups": {"kind": "multi-head", "heads": 4, "kv_heads": 2},
    "cosine": {"kind": "cosine"},
    "cosine-2-heads": {"kind": "cosine", "heads": 2},
    "location-2-heads": {"kind": "location", "max_positions": 6, "heads": 2},
    "offset": {"kind": "offset", "max_distance": 3},
    "coverage": {"kind": "coverage", "dim": 8},
    "coverage-2-heads": {"kind": "coverage", "dim": 8, "heads": 2, "max_fertility": 3},
}
ALIGNS = {
    "global": {"kind": "global"},
    "local-m": {"kind": "local-m", "window": 1},
    "local-p": {"kind": "local-p", "window": 2},
    "local-p-renormalized": {"kind": "local-p", "window": 2, "renormalize": True},
    "sparsemax": {"kind": "sparsemax"},
    "entmax15": {"kind": "entmax15"},
    "hard-reinforce": {"kind": "hard-reinforce", "weight": 1},
    "hard-gumbel": {"kind": "hard-gumbel"},
    "monotonic": {"kind": "monotonic", "sigmoid_noise": 0, "score_bias_init": 0},
}
DECODERS = {
    "bahdanau-gru": {"kind": "bahdanau", "cell": "gru", "dim": WIDTH},
    "bahdanau-lstm": {"kind": "bahdanau", "cell": "lstm", "dim": WIDTH, "layers": 2},
    "luong-feeding": {"kind": "luong", "cell": "lstm", "dim": WIDTH, "layers": 2},
    "luong": {"kind": "luong", "cell": "gru", "dim": WIDTH, "input_feeding": False},
    "recurrent-all": {
        "kind": "recurrent", "cell": "gru", "dim": WIDTH, "wiring": {
            "query": "current", "context": ["cell", "output"], "input_feeding": True, "word_to_output": True,
        },
    },
    "recurrent-previous-fed": {
        "kind": "recurrent", "cell": "lstm", "dim": WIDTH, "wiring": {
            "query": "previous", "context": ["cell"], "input_feeding": True,
        },
    },
    "recurrent-previous-whole": {
        "kind": "recurrent", "cell": "gru", "dim": WIDTH, "layers": 2,
        "wiring": {"query": "previous", "input_feeding": False},
    },
    "transformer": {"kind": "transformer", "layers": 2, "heads": 4, "ffn_dim": 32},
    "transformer-post-learned": {
        "kind": "transformer", "layers": 1, "heads": 2, "ffn_dim": 32, "norm_order": "post",
        "position_encoding": "learned", "embedding_norm": True,
    },
    "transformer-rotary": {**MODERN, "position_encoding": "rotary"},
    "transformer-t5": T5,
    "ssru": {"kind": "ssru", "layers": 2, "ffn_dim": 32},
    "convolutional": {"kind": "convolutional", "dim": 12, "layers": 2, "kernel_size": 3},
}  # fmt: skip
FIXED = {
    "fixed-gru": {"kind": "fixed-context", "cell": "gru", "dim": WIDTH},
    "fixed-lstm": {"kind": "fixed-context", "cell": "lstm", "dim": WIDTH, "layers": 2},
}
EVERY_DECODER = [*DECODERS, *FIXED]
REPRESENTATIVE = ["luong-feeding", "transformer-rotary", "ssru", "convolutional", "fixed-lstm"]
"""A decoder of each family."""
OTHER_DECODERS = {*EVERY_DECODER, "transformer-relative"} - {*REPRESENTATIVE}
STATEFUL = [("coverage", "local-m"), ("coverage-2-heads", "monotonic")]
"""Attention with a state."""
ATTENTIONS = [*itertools.product(SCORES, ["global"]), *itertools.product(["multi-head"], ALIGNS), STATEFUL[-1]]
ATTENTIONS = list(dict.fromkeys(ATTENTIONS))
FAMILIES = [("additive", "global"), ("offset", "global"), ("multi-head", "global"), *STATEFUL]
"""One attention of each family, by what it needs of a decoder: nothing, its position, its state."""
PLUGGED = [
    *[(d, *attention) for d in DECODERS for attention in FAMILIES],
    *[(d, *attention) for d in ("luong-feeding", "transformer") for attention in ATTENTIONS],
    *[(d, "none", "none") for d in FIXED],
]
"""Each decoder with each family of attention, and each attention with a decoder of each family."""
PLUGGED = list(dict.fromkeys(PLUGGED))
PAIRS = [
    *itertools.product(ENCODERS, ("luong-feeding", "transformer", "fixed-lstm")),
    *itertools.product(("gru", "transformer-relative"), EVERY_DECODER),
]
"""Each encoder with a decoder of each family, and each decoder with an encoder of each."""
PAIRS = list(dict.fromkeys(PAIRS))
BATCH = collate([([4, 5, 6], [5, 6, 7, 8]), ([4], [9]), ([7, 8, 9, 10, 3], [4, 4])])


def config(
    encoder: str, decoder: str, score: str = "additive", align: str = "global", tie: str = "none"
) -> ModelConfig:
    part = dict({**DECODERS, **FIXED, **RELATIVE}[decoder])
    if decoder not in FIXED:
        part["attention"] = {"score": SCORES[score], "align": ALIGNS[align]}
    return TypeAdapter(ModelConfig).validate_python(
        {"embeddings": {"dim": WIDTH, "tie": tie}, "encoder": ENCODERS[encoder], "decoder": part}
    )


def model(
    encoder: str, decoder: str, score: str = "additive", align: str = "global", tie: str = "none", words: int = WORDS
) -> Seq2Seq:
    """A small model in double precision."""
    torch.manual_seed(0)
    return build_model(config(encoder, decoder, score, align, tie), words, words).double().eval()


def calm(net: Seq2Seq) -> Seq2Seq:
    """The model in training, without dropout."""
    net.train()
    for part in net.modules():
        if isinstance(part, torch.nn.Dropout):
            part.eval()
    return net


def sources(lengths: tuple[int, ...] = (5, 3, 1, 7), garbage: int = 0) -> tuple[Tensor, Sequences]:
    """Ids [B, S] with `garbage` in the padding."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(3, WORDS, mask.shape, generator=torch.Generator().manual_seed(1))
    return torch.where(mask, ids, garbage), Sequences(mask)


def targets(rows: int, length: int) -> Tensor:
    return torch.randint(3, WORDS, (rows, length), generator=torch.Generator().manual_seed(2))


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def shuffle_weights(module: Any) -> Any:
    """The module with weights far from their initial values, so that nothing is right by being zero or one."""
    for i, parameter in enumerate(module.parameters()):
        with torch.no_grad():
            parameter.copy_(rand(*parameter.shape, seed=10 + i) * 0.5)
    return module.double()


def tensors(tree: Any) -> list[Tensor]:
    leaves: list[Tensor] = []
    map_tensors(lambda x: leaves.append(x) or x, tree)
    return leaves
