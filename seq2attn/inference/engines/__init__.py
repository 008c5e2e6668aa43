"""Inference engines: the native search, and exported models."""
