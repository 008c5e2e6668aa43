"""The list of all formats that a run can be exported to."""

from __future__ import annotations

from seq2attn.engines.base import ExportTarget
from seq2attn.engines.targets import TARGETS
from seq2attn.errors import UserError
from seq2attn.pretrained.huggingface_target import HuggingFaceTarget
from seq2attn.pretrained.peft_target import PeftTarget

EXPORT_TARGETS: dict[str, ExportTarget] = {
    **TARGETS,
    HuggingFaceTarget.name: HuggingFaceTarget(),
    PeftTarget.name: PeftTarget(),
}
"""Targets by name: the engines, and those for Hugging Face's packages. `cli/export.py` lists the names again."""


def get_export_target(name: str) -> ExportTarget:
    """The target of this name. Raises UserError when there is none."""
    if name not in EXPORT_TARGETS:
        raise UserError(f"--to {name}: there is no such format; known: {', '.join(EXPORT_TARGETS)}")
    return EXPORT_TARGETS[name]
