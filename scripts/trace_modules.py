"""Modules of seq2attn that one training update and one translation pass through, in the order of the first call.

python scripts/trace_modules.py

A tiny Transformer is trained for a few updates on the phrasebook and translates a sentence with a beam.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from seq2attn.config.load import load as load_config
from seq2attn.data.collate import make_micro_batches
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.inference.load import load
from seq2attn.inference.translator import Translator
from seq2attn.options import TranslationOptions
from seq2attn.training.loop import Trainer
from seq2attn.training.train import train

TEXT = Path(__file__).parents[1] / "data" / "phrasebook"
CONFIG = """\
run_dir: run
data:
  train: {kind: plain, source: train.de, target: train.en}
  dev: {kind: plain, source: train.de, target: train.en}
tokenizer:
  joint: {kind: bpe, vocab_size: 400}
model:
  embeddings: {dim: 16}
  encoder: {kind: transformer, layers: 1, heads: 2, ffn_dim: 16}
  decoder: {kind: transformer, layers: 1, heads: 2, ffn_dim: 16}
training:
  max_duration: [3 updates]
  batch: {tokens: 512}
  report_every: 100
  validation: {metric: loss}
search: {kind: beam, beam_size: 2}
"""
UPDATE = (make_micro_batches, Trainer.update, Trainer._finish_update)
"""An update: its batches, which another thread makes, and the step."""


def trace(work: Callable[[], object], entries: tuple[Callable[..., Any], ...]) -> list[str]:
    """Modules with a function that runs inside one of `entries`, in any thread, while `work` runs."""
    codes = {entry.__code__ for entry in entries}
    depth: defaultdict[int, int] = defaultdict(int)
    modules: dict[str, None] = {}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code: CodeType = frame.f_code
        if event not in ("call", "return"):
            return
        thread = threading.get_ident()
        if code in codes:
            depth[thread] += 1 if event == "call" else -1
        name = frame.f_globals.get("__name__", "")
        if event == "call" and depth[thread] and name.startswith("seq2attn.") and is_written(code):
            modules[name] = None

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(modules)


def is_written(code: CodeType) -> bool:
    """True for a function of a file; false for an import, and for a constructor that `dataclass` made."""
    return code.co_name != "<module>" and not code.co_filename.startswith("<")


def trace_all(folder: Path) -> dict[str, list[str]]:
    """Modules of a training update and of a call of `Translator.translate`."""
    for name in ("train.de", "train.en"):
        with (TEXT / name).open(encoding="utf-8") as lines:
            (folder / name).write_text("".join(islice(lines, 200)), encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
    config = load_config(folder / "config.yaml", ExperimentConfig, [f"run_dir={folder / 'run'}"])
    update = trace(lambda: train(config), UPDATE)
    translator = load(config.run_dir, TranslationOptions(device="cpu"))
    translate = trace(lambda: translator.translate("Das Haus ist alt."), (Translator.translate,))
    return {"update": update, "translate": translate}


def main() -> None:
    """Print both lists."""
    with tempfile.TemporaryDirectory() as folder:
        for name, modules in trace_all(Path(folder)).items():
            print(f"{name}: {len(modules)} modules")
            for module in modules:
                print(f"  {module.replace('.', '/')}.py")


if __name__ == "__main__":
    main()
