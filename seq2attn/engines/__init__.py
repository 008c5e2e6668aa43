"""Inference engines: the native search, and exported models."""

from seq2attn.engines.base import Engine, EngineError, ExportTarget

__all__ = ["Engine", "EngineError", "ExportTarget"]
