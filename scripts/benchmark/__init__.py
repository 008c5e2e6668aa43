"""Benchmarks of speed and memory of seq2attn and of plain loops, in turn, on the same text and architectures."""
