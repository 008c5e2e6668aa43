"""Attention: one hierarchy, two axes; any score with any alignment."""

from seq2attn.attention.asked import NOTHING, Asked, Seen
from seq2attn.attention.attention import Attended, Attention, Memories, Memory, in_turn, self_attention

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
