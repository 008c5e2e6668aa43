"""CTranslate2 as an engine: Transformers in C++, with float32, float16 or int8 weights."""

from __future__ import annotations

from seq2attn.engines.ctranslate2.target import CTranslate2Target

__all__ = ["CTranslate2Target"]
