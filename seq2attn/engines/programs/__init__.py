"""torch.export and AOTInductor: `encode` and `step` of any model, compiled ahead of time."""

from seq2attn.engines.programs.target import Programs

__all__ = ["Programs"]
