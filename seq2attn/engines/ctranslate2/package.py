"""The package that does the work, which only those who export need."""

from __future__ import annotations

import importlib
import logging
from types import ModuleType

from seq2attn.errors import UserError

ENGINE_NAME = "ctranslate2"


def import_ctranslate2() -> ModuleType:
    """Raises UserError when it is not installed."""
    try:
        package = importlib.import_module(ENGINE_NAME)
    except ImportError:
        raise UserError("this engine needs CTranslate2: pip install 'seq2attn[ctranslate2]'") from None
    package.set_log_level(logging.ERROR)  # not that a CPU computes float16 weights in float32, as documented
    return package
