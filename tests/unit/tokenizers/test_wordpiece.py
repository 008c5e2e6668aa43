"""WordPiece: BERT's segmentation with the special ids of this package."""

import json
import shutil

import pytest
import torch
from transformers import BertTokenizerFast

from seq2attn.data.collate import collate_source
from seq2attn.errors import DataError, RunError
from seq2attn.inference.engines.source_limit import SourceLimit
from seq2attn.inference.source_line import SourceLine
from seq2attn.search.search_config import LengthsConfig
from seq2attn.tokenizers.tokenizer_config import load_tokenizer
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, UNK
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from tests.support.bert import make_bert

WORDS = ["the", "un", "##aff", "##able", "house", "caf", "##e", "##é", "a", ",", ".", "!", "<s>", "东", "it", "'", "s"]
LINES = [
    "Unaffable House!",
    "the café, the CAFÉ.",
    "it's a [MASK] house",
    "the house [SEP] it [PAD] [CLS] [UNK]",
    "东东 xylophone  the\tun",
    "<s> the </s>",
    "a",
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_bert(tmp_path_factory.mktemp("checkpoint") / "bert", WORDS)


@pytest.fixture
def folder(tmp_path, checkpoint):
    return shutil.copytree(checkpoint, tmp_path / "bert")


def train(folder):
    return WordPieceTokenizerConfig(path=folder).train([])


@pytest.mark.parametrize(
    ("file", "rules"),
    [
        ("vocab.txt", {}),
        ("vocab.txt", {"do_lower_case": False}),
        ("tokenizer.json", {}),
        ("tokenizer.json", {"do_lower_case": True, "strip_accents": False}),
    ],
)
def test_ids_and_mask_are_those_of_hugging_face(folder, rules, file):
    (folder / "tokenizer_config.json").write_text(json.dumps(rules))
    if file == "tokenizer.json":
        BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
        (folder / "vocab.txt").unlink()
    expected = BertTokenizerFast.from_pretrained(folder)(LINES, padding=True, return_tensors="pt")
    tokenizer = train(folder)
    ids, sequences = collate_source([tokenizer.encode(line) for line in LINES])
    assert torch.equal(torch.tensor(tokenizer.bert_ids)[ids], expected["input_ids"])
    assert torch.equal(sequences.mask.long(), expected["attention_mask"])


def test_special_ids(folder):
    tokenizer = train(folder)
    mask = tokenizer.vocabulary.id("[MASK]")
    assert mask > UNK
    ids = tokenizer.encode("[MASK] zzz [SEP] the [PAD]")
    assert ids == [BOS, mask, UNK, EOS, tokenizer.vocabulary.id("the"), PAD]
    assert tokenizer.encode("") == tokenizer.encode(" ") == []
    assert len({*tokenizer.bert_ids}) == len(tokenizer.bert_ids) == len(tokenizer.vocabulary)


def test_a_token_with_the_name_of_a_special_token_is_unknown(folder):
    hf_tokenizer = BertTokenizerFast.from_pretrained(folder)
    hf_tokenizer.add_tokens(["<s>"])  # a single token, then
    hf_tokenizer.save_pretrained(folder)
    tokenizer = train(folder)
    assert hf_tokenizer("a <s>").input_ids[1:-1] == hf_tokenizer.convert_tokens_to_ids(["a", "<s>"])
    assert tokenizer.encode("a <s>") == [BOS, tokenizer.vocabulary.id("a"), UNK]


@pytest.mark.parametrize("line", [*LINES, ""])
def test_words_of_tokens(checkpoint, line):
    tokenizer = train(checkpoint)
    ids = [*tokenizer.encode(line), EOS]
    words, indices = tokenizer.decode(ids).split(), tokenizer.word_ids(ids)
    assert [index for index in indices if index >= 0] == sorted(index for index in indices if index >= 0)
    for number, word in enumerate(words):
        word_tokens = [id for id, index in zip(ids, indices, strict=True) if index == number]
        assert "".join(tokenizer.convert_ids_to_tokens(word_tokens)).replace("##", "") == word
    assert all((index == -1) == (id in (PAD, BOS, EOS)) for id, index in zip(ids, indices, strict=True))


@pytest.mark.parametrize("limit", [4, 6])
def test_each_segment_of_a_long_line_is_a_line(checkpoint, limit):
    tokenizer = train(checkpoint)
    line = "the unaffable house, a house. the house! it, the cafe, the house, a house"
    source = SourceLine.encode(tokenizer, line, LengthsConfig(), SourceLimit(limit, "it is a test"))
    assert len(source.segments) > 3 and max(map(len, source.segments)) == limit
    assert source.segments == tuple(tuple(tokenizer.encode(text)) for text in source.texts)


def test_it_is_loaded_without_the_checkpoint(folder, tmp_path):
    before = train(folder)
    before.save(tmp_path / "source")
    shutil.rmtree(folder)
    after = load_tokenizer(tmp_path / "source")
    assert (after.config, after.vocabulary, after.bert_ids) == (before.config, before.vocabulary, before.bert_ids)
    assert [after.encode(line) for line in LINES] == [before.encode(line) for line in LINES]
    file = tmp_path / "source" / "wordpiece.json"
    content = json.loads(file.read_text())
    for model in (None, {**content["tokenizer"]["model"], "vocab": {"new": 99}}):
        file.write_text(json.dumps({**content, "tokenizer": {**content["tokenizer"], "model": model}}))
        with pytest.raises(RunError, match=r"wordpiece\.json: "):
            load_tokenizer(tmp_path / "source")
    file.unlink()
    with pytest.raises(RunError, match=r"wordpiece\.json: "):
        load_tokenizer(tmp_path / "source")


def test_other_rules_have_another_digest(folder):
    config = WordPieceTokenizerConfig(path=folder)
    assert WordPieceTokenizerConfig(path=folder).digest == config.digest
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert WordPieceTokenizerConfig(path=folder).digest != config.digest
    with pytest.raises(DataError, match="bert: the files have changed since `digest` was written"):
        config.train([])
    shutil.rmtree(folder)
    with pytest.raises(DataError, match=r"there is no folder .*bert; expected that of a BERT"):
        config.train([])


def test_vocabularies_that_are_not_of_a_bert(folder):
    from tokenizers import Tokenizer, models

    file = folder / "vocab.txt"
    file.write_text(file.read_text().replace("[SEP]\n", "[MASK2]\n"))
    with pytest.raises(DataError, match=r"bert: its vocabulary lacks \[SEP\]$"):
        train(folder)
    file.unlink()
    Tokenizer(models.BPE({"a": 0, "b": 1}, [])).save(str(folder / "tokenizer.json"))
    with pytest.raises(DataError, match="bert: its vocabulary "):
        train(folder)
