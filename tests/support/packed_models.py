"""Models for padding-free batches."""

import torch
import torch._dynamo

from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import build_model
from seq2attn.models.model_config import ModelConfig

PAIRS = [([4, 5, 6], [7, 8]), ([9], [3, 4, 5, 6, 7]), ([8, 8, 4, 5, 9, 3], []), ([], [5])]
KINDS = {
    "post-norm": {"norm_order": "post"},
    "pre-norm": {},
    "learned positions": {"position_encoding": "learned", "max_positions": 4},
    "rotary, grouped keys": {"position_encoding": "rotary", "kv_heads": 2},
    "relative bias": {"position_encoding": "relative-bias", "num_buckets": 4, "head_dim": 6, "bias": False},
    "modern": {"activation": "swiglu", "norm_type": "rmsnorm"},
}
ATTENTIONS = {
    "multi-head": {"score": {"kind": "multi-head", "heads": 4}},
    "grouped keys": {"score": {"kind": "multi-head", "heads": 4, "kv_heads": 2}},
    "scaled dot": {"score": {"kind": "dot", "scaled": True, "heads": 2}},
    "scaled general": {"score": {"kind": "general", "scaled": True}},
}
SSRU = {"kind": "ssru", "layers": 2, "ffn_dim": 24, "dropout": 0.0}


def config(kind=None, attention=None, decoder=None, **options):
    part = {"kind": "transformer", "layers": 2, "heads": 4, "ffn_dim": 24, "dropout": 0.0}
    part |= KINDS[kind or "pre-norm"] | options
    decoder = {**(decoder or part), "attention": ATTENTIONS[attention or "multi-head"]}
    return {"embeddings": {"dim": 16}, "encoder": part, "decoder": decoder}


def objective(**which):
    torch.manual_seed(1)
    return TrainingLoss(build_model(ModelConfig.model_validate(config(**which)), 12, 12), 0.1)


def loss_and_gradients(objective, batch):
    objective.zero_grad()
    loss = objective(batch)
    loss.loss.backward()
    return loss, {name: parameter.grad.clone() for name, parameter in objective.named_parameters()}


def random_pairs(count, length):
    """`count` pairs of about `length` tokens."""
    rng = torch.Generator().manual_seed(count)
    lengths = torch.randint(length - 2, length + 1, (2, count), generator=rng).tolist()
    return [
        tuple(torch.randint(3, 11, (n,), generator=rng).tolist() for n in both) for both in zip(*lengths, strict=True)
    ]
