"""Attention: any score function with any alignment function."""

from seq2attn.attention.attention import Attention, AttentionOutput, Memories, Memory, concat_steps
from seq2attn.attention.base import NO_STATE, AttentionState, QueryInfo

__all__ = [
    "NO_STATE",
    "Attention",
    "AttentionOutput",
    "AttentionState",
    "Memories",
    "Memory",
    "QueryInfo",
    "concat_steps",
]
