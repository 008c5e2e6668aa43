"""Programs that translate without this package read and write lines as it does."""

import subprocess
import sys
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest

from seq2attn.exporters.standalone import write_program
from seq2attn.exporters.tokenizer_export import moses_code
from seq2attn.tokenizers.normalize import collapse_line
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizer, SentencePieceTokenizerConfig
from tests.support.marian import SOURCE, make_vocabulary

TRANSFORMERS = """\
import sys, types

class Copy:  # a tokenizer and a model, whose translations are their sources
    @classmethod
    def from_pretrained(cls, folder): return cls()
    def __call__(self, lines, **options): return {"lines": lines} if lines else {}[0]  # it takes no empty batch
    def generate(self, lines): return lines
    def batch_decode(self, lines, **options): return [line.removeprefix(">>de<< ") for line in lines]

sys.modules["transformers"] = module = types.ModuleType("transformers")
module.AutoTokenizer = module.AutoModelForSeq2SeqLM = Copy
"""


@pytest.fixture
def source(tmp_path: Path) -> SentencePieceTokenizer:
    make_vocabulary(tmp_path)
    files = {"path": tmp_path / "source.spm", "vocabulary": tmp_path / "vocab.json"}
    return SentencePieceTokenizerConfig.model_validate({**files, "punctuation": "de"}).train([])


def test_a_program_normalizes_lines_as_the_tokenizer(source: SentencePieceTokenizer) -> None:
    _, code, expression = moses_code(source)
    names: dict[str, Any] = {"category": category}
    exec(code, names)
    for line in (*SOURCE, "Haus\u00adboot", "a\u200bb\x07 c\td", "„Wo?“, fragte er — „hier“ …"):
        assert collapse_line(eval(expression, names, {"line": line})) == source.normalize(line)


def test_the_program_of_transformers_has_a_line_for_each_line(source: SentencePieceTokenizer, tmp_path: Path) -> None:
    """In UTF-8, whatever the encoding of the terminal is, and where a batch has no text."""
    write_program("huggingface", source, tmp_path, {"tag": '">>de<< " + '}, "")
    text, blank = "ä日 b\n\nc\u2028 d\n".encode(), b"\n" * 100
    code = f"{TRANSFORMERS}import runpy\nrunpy.run_path({str(tmp_path / 'translate.py')!r})"
    given = b"\xef\xbb\xbf" + text + b"\xe2\x80\x8b\n\xff\n" + blank + b"e"
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, env={"PYTHONIOENCODING": "ascii"}, capture_output=True, check=True
    )
    assert done.stdout == text + "\n\ufffd\n".encode() + blank + b"e\n"
