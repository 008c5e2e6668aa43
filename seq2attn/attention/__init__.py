"""Attention: one hierarchy, two axes; any score with any alignment."""

from seq2attn.attention.attention import Attended, Attention, Memories, Memory, in_turn, self_attention
from seq2attn.attention.base import NOTHING, Asked, Seen

__all__ = [
    "NOTHING",
    "Asked",
    "Attended",
    "Attention",
    "Memories",
    "Memory",
    "Seen",
    "in_turn",
    "self_attention",
]
