"""The formats that a run can be exported to."""

from __future__ import annotations

from seq2attn.errors import UserError
from seq2attn.exporters.ctranslate2_target import CTranslate2Target
from seq2attn.exporters.export_target import ExportTarget
from seq2attn.exporters.huggingface_target import HuggingFaceTarget
from seq2attn.exporters.onnx_target import OnnxTarget

TARGETS: dict[str, ExportTarget] = {
    target.name: target for target in (CTranslate2Target(), OnnxTarget(), HuggingFaceTarget())
}
"""Targets by name: the engines, and that for Hugging Face's package. `cli/export.py` lists the names again."""


def get_target(name: str) -> ExportTarget:
    """The target of this name. Raises UserError when there is none."""
    if name not in TARGETS:
        raise UserError(f"``to={name}``: there is no such format; known: {', '.join(TARGETS)}")
    return TARGETS[name]
