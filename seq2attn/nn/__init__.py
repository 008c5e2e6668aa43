"""Layers, kernels and decoding states that know neither source nor target."""
