"""What runs the search: our own model, or the model exported into something faster."""

from seq2attn.engines.base import Engine, EngineError, ExportTarget

__all__ = ["Engine", "EngineError", "ExportTarget"]
