"""WordPiece is BERT's own, with the special ids that are ours."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from transformers import BertModel, BertTokenizerFast

from seq2attn.data.collate import collate_source
from seq2attn.errors import DataError, RunError
from seq2attn.tokenizers.config import TokenizersConfig
from seq2attn.tokenizers.load import load_tokenizer
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, UNK
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from tests.small_bert import make_bert

WORDS = [
    *("the", "un", "##aff", "##able", "house", "caf", "##e", "##é"),
    "a",
    ",",
    ".",
    "!",
    "<s>",
    "东",
    "it",
    "'",
    "s",
]
LINES = [
    "Unaffable House!",
    "the café, the CAFÉ.",
    "it's a [MASK] house",
    "the house [SEP] it [PAD] [CLS] [UNK]",
    "东东 xylophone  the\tun",
    "<s> the </s>",
    "a",
]


@pytest.fixture
def folder(tmp_path):
    return make_bert(tmp_path / "bert", WORDS)


def read(folder):
    return WordPieceTokenizerConfig(path=folder).train([])


def padded(tokenizer, lines):
    """The batch in BERT's ids."""
    ids, mask = collate_source([tokenizer.encode(line) for line in lines])
    return torch.tensor(tokenizer.bert_ids)[ids], mask


@pytest.mark.parametrize("rules", [{}, {"do_lower_case": False}, {"do_lower_case": True, "strip_accents": False}])
@pytest.mark.parametrize("file", ["vocab.txt", "tokenizer.json"])
def test_a_batch_is_what_berts_own_tokenizer_makes(folder, rules, file):
    (folder / "tokenizer_config.json").write_text(json.dumps(rules))
    if file == "tokenizer.json":
        BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
        (folder / "vocab.txt").unlink()
    own = BertTokenizerFast.from_pretrained(folder)(LINES, padding=True, return_tensors="pt")
    ids, mask = padded(read(folder), LINES)
    assert torch.equal(ids, own["input_ids"])
    assert torch.equal(mask.long(), own["attention_mask"])


def test_the_special_ids_are_ours(folder):
    tokenizer = read(folder)
    ids = tokenizer.encode("[MASK] zzz [SEP] the [PAD]")
    mask = tokenizer.vocabulary.id("[MASK]")
    assert mask > UNK
    assert ids == [BOS, mask, UNK, EOS, tokenizer.vocabulary.id("the"), PAD]
    assert tokenizer.encode("") == tokenizer.encode(" ") == []
    assert len({*tokenizer.bert_ids}) == len(tokenizer.bert_ids) == len(tokenizer.vocabulary)


def test_a_piece_that_is_spelled_like_a_special_of_ours_is_unknown(folder):
    own = BertTokenizerFast.from_pretrained(folder)
    own.add_tokens(["<s>"])  # so that it is not cut
    own.save_pretrained(folder)
    tokenizer = read(folder)
    assert own("a <s>").input_ids[1:-1] == own.convert_tokens_to_ids(["a", "<s>"])
    assert tokenizer.encode("a <s>") == [BOS, tokenizer.vocabulary.id("a"), UNK]


@pytest.mark.parametrize("line", [*LINES, ""])
def test_words_are_counted_as_they_are_shown(folder, line):
    tokenizer = read(folder)
    ids = [*tokenizer.encode(line), EOS]
    words, numbers = tokenizer.decode(ids).split(), tokenizer.word_ids(ids)
    assert [number for number in numbers if number >= 0] == sorted(n for n in numbers if n >= 0)
    for number, word in enumerate(words):
        inside = [id for id, n in zip(ids, numbers, strict=True) if n == number]
        assert "".join(tokenizer.convert_ids_to_tokens(inside)).replace("##", "") == word
    assert all((n == -1) == (id in (PAD, BOS, EOS)) for id, n in zip(ids, numbers, strict=True))


def test_it_is_read_back_without_the_checkpoint(folder, tmp_path):
    before = read(folder)
    before.save(tmp_path / "source")
    shutil.rmtree(folder)
    after = load_tokenizer(tmp_path / "source")
    assert after.config == before.config
    assert after.vocabulary == before.vocabulary
    assert after.bert_ids == before.bert_ids
    assert [after.encode(line) for line in LINES] == [before.encode(line) for line in LINES]


@pytest.mark.parametrize("damage", ["missing", "torn", "other"])
def test_a_damaged_folder_is_told(folder, tmp_path, damage):
    read(folder).save(tmp_path / "source")
    file = tmp_path / "source" / "wordpiece.json"
    content = json.loads(file.read_text())
    match damage:
        case "missing":
            file.unlink()
        case "torn":
            content["tokenizer"]["model"] = None
            file.write_text(json.dumps(content))
        case "other":
            content["tokenizer"]["model"]["vocab"]["new"] = 99
            file.write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"wordpiece\.json: "):
        load_tokenizer(tmp_path / "source")


def test_other_rules_are_another_text(folder):
    before = WordPieceTokenizerConfig(path=folder).digest
    assert WordPieceTokenizerConfig(path=folder).digest == before
    config = WordPieceTokenizerConfig(path=folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert WordPieceTokenizerConfig(path=folder).digest != before
    with pytest.raises(DataError, match="bert: its vocabulary is not that of the config's `digest`"):
        config.train([])
    shutil.rmtree(folder)
    with pytest.raises(DataError, match=r"there is no folder .*bert; expected that of a BERT"):
        config.train([])


def test_a_vocabulary_without_a_special_token_is_refused(folder):
    file = folder / "vocab.txt"
    file.write_text(file.read_text().replace("[SEP]\n", "[MASK2]\n"))
    with pytest.raises(DataError, match=r"bert: its vocabulary lacks \[SEP\]$"):
        read(folder)


def test_a_vocabulary_of_another_kind_is_refused(folder):
    from tokenizers import Tokenizer, models

    (folder / "vocab.txt").unlink()
    Tokenizer(models.BPE({"a": 0, "b": 1}, [])).save(str(folder / "tokenizer.json"))
    with pytest.raises(DataError, match="bert: its vocabulary "):
        read(folder)


def test_it_is_for_the_source(folder):
    config = {"kind": "wordpiece", "path": str(folder)}
    both = {"source": config, "target": {"kind": "words"}}
    assert TypeAdapter(TokenizersConfig).validate_python(both).source.path == folder
    for wrong in ({"joint": config}, {"source": {"kind": "words"}, "target": config}):
        with pytest.raises(ValidationError, match="`wordpiece` is for the source"):
            TypeAdapter(TokenizersConfig).validate_python(wrong)


def test_its_ids_are_those_of_the_embeddings(folder):
    """The name of each of our ids is that of BERT's row."""
    tokenizer, names = read(folder), (folder / "vocab.txt").read_text().splitlines()
    assert BertModel.from_pretrained(folder).config.vocab_size == len(names)
    for id in range(UNK + 1, len(tokenizer.vocabulary)):
        assert names[tokenizer.bert_ids[id]] == tokenizer.vocabulary.tokens[id]
