"""The common text: Multi30k with one joint BPE, and the vocabularies."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.setting import TEST, Setting, UnavailableError

if TYPE_CHECKING:
    from seq2attn.tokenizers.subwords import BPETokenizerConfig

SPLITS = ("train", "val", TEST)
LANGUAGES = ("de", "en")
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
"""Special tokens in the order of our ids, which programs for libraries use too."""


def prepare_text(setting: Setting, config: BPETokenizerConfig) -> bytes:
    """Write missing files of the tokenized text and its vocabularies; return the BPE model, as a training makes it.

    All systems get the tokens of our tokenizer, of its normalized text. Raises UnavailableError for a missing corpus,
    or for files with another tokenization.
    """
    from seq2attn.tokenizers.subwords import SubwordTokenizer

    texts = [setting.corpus / f"{split}.{language}" for split in SPLITS for language in LANGUAGES]
    if missing := [path for path in texts if not path.is_file()]:
        raise UnavailableError(f"{missing[0]} is missing: python scripts/download.py multi30k")
    setting.data.mkdir(parents=True, exist_ok=True)
    path = setting.data / "pieces.model"
    if not path.is_file():
        lines = chain.from_iterable(_lines(setting.corpus / f"train.{language}") for language in LANGUAGES)
        path.write_bytes(config.train(lines).model)
    model = path.read_bytes()
    tokenizer = SubwordTokenizer(config, model)
    for text in texts:
        tokens = (tokenizer.convert_ids_to_tokens(tokenizer.encode(line)) for line in _lines(text))
        _write(setting.data / f"{text.stem}.bpe{text.suffix}", "".join(" ".join(line) + "\n" for line in tokens))
    plain = tokenizer.vocabulary.tokens[len(SPECIALS) :]
    _write(setting.data / "vocab.plain.txt", "\n".join(plain) + "\n")
    for part, count in ((TEST, None), ("one", 1)):
        _write(setting.data / f"{part}.de", "".join(f"{line}\n" for line in _lines(texts[-2])[:count]))
    return model


def num_target_tokens(setting: Setting) -> int:
    """Target tokens of the training text, with EOS."""
    return sum(len(line.split()) + 1 for line in _lines(setting.data / "train.bpe.en"))


def _lines(path: Path) -> list[str]:
    from seq2attn.io.text_lines import read_lines

    return list(read_lines(path))


def _write(path: Path, content: str) -> None:
    if not path.is_file():
        path.write_text(content, "utf-8")
    elif path.read_text("utf-8") != content:
        raise UnavailableError(f"{path} has another content: give another --runs")
