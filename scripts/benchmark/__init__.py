"""Benchmarks of speed and memory of seq2attn and other toolkits, in turn, on the same text and architectures."""
