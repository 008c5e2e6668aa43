"""A given `tokenizer.json` segments as `transformers` does, and restores the text."""

import json
import re
from pathlib import Path

import pytest
from transformers import BartTokenizer

from seq2attn.errors import DataError, RunError
from seq2attn.tokenizers.hf_tokenizer import HFTokenizer, HFTokenizerConfig
from seq2attn.tokenizers.tokenizer_config import load_tokenizer
from seq2attn.tokenizers.vocabulary import CONTROL_IDS, UNK
from tests.support.marian import SOURCE, TARGET
from tests.support.multilingual import make_bart_tokenizer

LINES = [*SOURCE, *TARGET, "xyz 日本 🙂 — ﬁ", "a", "  Das\tHaus  "]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bart")
    make_bart_tokenizer(path)
    return path


def tokenizer(folder: Path, **options: object) -> HFTokenizer:
    content = {"kind": "hugging-face", "path": folder / "tokenizer.json", **options}
    return HFTokenizerConfig.model_validate(content).train([])


def test_tokens_are_those_of_transformers_and_give_the_text_back(folder: Path, tmp_path: Path) -> None:
    theirs = BartTokenizer.from_pretrained(folder)
    ours = tokenizer(folder, tag="<bos>")
    ours.save(tmp_path / "source")
    loaded = load_tokenizer(tmp_path / "source")
    for line in LINES:
        ids, text = ours.encode(line), " ".join(line.split())
        assert [ours.vocabulary.tokens[id] for id in ids] == ["<bos>", *theirs.tokenize(text)]
        labels = ours.convert_ids_to_tokens(ids)
        expected = [theirs.convert_tokens_to_string([token]).replace(" ", "▁") for token in theirs.tokenize(text)]
        assert [label for label, text in zip(labels[1:], expected, strict=True) if "\ufffd" not in text] == [
            text for text in expected if "\ufffd" not in text
        ]
        bytes_ = b"".join(
            bytes.fromhex("".join(re.findall("<0x(..)>", label))) if "<0x" in label else label.encode()
            for label in labels[1:]
        )
        assert bytes_.decode().replace("▁", " ") == text
        assert ours.decode(ids) == loaded.decode(loaded.encode(line)) == text
        words = ours.word_ids(ids)
        assert words[0] == -1 and [*dict.fromkeys(words[1:])] == [*range(len(text.split()))]
    assert ours.encode(" ") == [] and tokenizer(folder).encode("a") == ours.encode("a")[1:]
    assert not {*CONTROL_IDS} & {*ours.encode("<pad> </s>")} and UNK in ours.encode("a</s>")
    masked = theirs("a<mask>").input_ids
    assert ours.decode([*map(ours.vocabulary.id, theirs.convert_ids_to_tokens(masked))]) == "a"
    assert theirs.decode(masked, skip_special_tokens=True) == "a"


def test_files_that_do_not_fit(folder: Path, tmp_path: Path) -> None:
    config = tokenizer(folder).config
    with pytest.raises(DataError, match="have changed since `digest` was written"):
        config.model_copy(update={"digest": "0"}).train([])
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer.json").write_text(json.dumps(content | {"decoder": None}))
    with pytest.raises(RunError, match=r"is not a tokenizer of Hugging Face \(it has no `decoder`\)"):
        tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(RunError, match=r"tokenizer\.json: is not a tokenizer of Hugging Face"):
        tokenizer(tmp_path)
    tokenizer(folder).save(tmp_path / "source")
    (tmp_path / "source/backend.json").write_bytes(b"\xff")
    with pytest.raises(RunError, match=r"source/backend\.json: is not a tokenizer of Hugging Face"):
        load_tokenizer(tmp_path / "source")
