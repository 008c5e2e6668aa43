"""Attention: one hierarchy, two axes; any score with any alignment."""

from seq2attn.attention.attention import Attention, Memories, Memory, multi_head

__all__ = ["Attention", "Memories", "Memory", "multi_head"]
