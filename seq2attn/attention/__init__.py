"""Attention: one hierarchy, two axes; any score with any alignment."""

from seq2attn.attention.attention import (
    Attention,
    AttentionOutput,
    Memories,
    Memory,
    build_self_attention,
    concat_steps,
)
from seq2attn.attention.base import NO_STATE, AttentionState, QueryInfo

__all__ = [
    "NO_STATE",
    "Attention",
    "AttentionOutput",
    "AttentionState",
    "Memories",
    "Memory",
    "QueryInfo",
    "build_self_attention",
    "concat_steps",
]
