"""A line without visible characters is an empty line for all commands and tokenizers; within a line they stay."""

import json
import unicodedata
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2attn import load
from seq2attn.data.data_config import DataConfig
from seq2attn.data.inspection import DataReport
from seq2attn.data.prepare import prepare
from seq2attn.inference.input_checks import InputWarning
from seq2attn.tokenizers.base import Tokenizer, add_tag
from seq2attn.tokenizers.normalize import is_blank
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizerConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from tests.support.bert import make_bert
from tests.support.commands import Invoke, Toy, write_lines
from tests.support.corpora import PHRASES, write_corpus
from tests.support.marian import make_vocabulary
from tests.support.tokenizers import STOCHASTIC, TRAINED

INVISIBLE = "\u200b\u00ad\u2060\u200e\ufeff\0\u061c\u180e\u034f\u3164\ufe0f"
BLANK = [*INVISIBLE, " \u200b\u00a0", "\u200e\u200f", "\u2581", "\t"]
BLANK_LINES = st.text(st.characters(categories=["Cc", "Cf", "Zs", "Zl", "Zp"]) | st.sampled_from(INVISIBLE))
FILLERS = {0x115F, 0x1160, 0x3164, 0xFFA0, 0x2581}  # letters and marks without a picture, and the mark of spaces


def test_categories_decide_what_is_visible() -> None:
    """Controls, formats and separators are not; private and unassigned characters may be letters somewhere."""
    for code in chain(range(0x20000), range(0xE0000, 0xF0100)):  # the rest is ideographs, private or unassigned
        category = unicodedata.category(chr(code))
        if category in ("Cc", "Cf", "Zs", "Zl", "Zp") or code in FILLERS:
            assert is_blank(chr(code)), hex(code)
        elif category[0] in "LNPS" or category in ("Co", "Cs"):
            assert not is_blank(chr(code)), hex(code)
    assert not is_blank("\U00030000") and not is_blank("\u0378")
    assert is_blank("")


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    folder = tmp_path_factory.mktemp("tokenizers")
    make_bert(folder / "bert", ["a", "b"])
    make_vocabulary(folder, tags=[">>fra<<"])
    marian = {"kind": "sentencepiece", "path": folder / "source.spm", "vocabulary": folder / "vocab.json"}
    return {
        **TRAINED,
        **{f"stochastic {name}": one for name, one in STOCHASTIC.items()},
        "tagged": TRAINED["bpe"].with_tags(("<2en>",), required=True),
        "reversed": TRAINED["bpe"].with_direction(right_to_left=True),
        "wordpiece": WordPieceTokenizerConfig(path=folder / "bert").train([]),
        "marian": SentencePieceTokenizerConfig.model_validate(marian | {"tag": ">>fra<<"}).train([]),
    }


@given(line=BLANK_LINES)
def test_a_blank_line_has_no_tokens(tokenizers: dict[str, Tokenizer], line: str) -> None:
    for name, tokenizer in tokenizers.items():
        assert tokenizer.encode(line) == [] and tokenizer.sample([line], 1) == [[]], name
        assert tokenizer.encode(add_tag(line, "2en")) == [] and not tokenizer.lacks_tag(line)


@given(line=BLANK_LINES)
def test_invisible_characters_stay_within_a_line(line: str) -> None:
    for name in ("bpe", "unigram"):
        assert TRAINED[name].decode(TRAINED[name].encode(f"a{line}b")) == " ".join(f"a{line}b".split())


@pytest.mark.parametrize("side", [0, 1])
def test_pairs_with_a_blank_side_are_counted_and_left_out(tmp_path: Path, side: int) -> None:
    pairs = [[*pair] for pair in PHRASES[:100]]
    for place, pair in enumerate(pairs[: len(BLANK)]):
        pair[side] = BLANK[place]
    pairs[len(BLANK)] = ["\u200b", "\u00ad"]
    train = write_corpus(tmp_path, "train", [(source, target) for source, target in pairs])
    data, log = DataConfig(train=train, dev=train.model_copy(update={"tag": None})), list[str]()
    prepared = prepare(data, TokenizersConfig(joint=BPETokenizerConfig(vocab_size=400)), tmp_path / "run", log.append)
    assert len(prepared.train.corpus) == 100 - len(BLANK) - 1
    report = DataReport.load(tmp_path / "run")
    assert report is not None
    for one in (report.train, report.dev):
        assert (one.num_one_sided, one.num_empty) == (len(BLANK), 1)
    assert any(f"left out: {len(BLANK) + 1} empty" in line for line in log)
    assert any("pairs have text on one side only" in line for line in log)


@pytest.mark.filterwarnings("ignore:the model does not know")
def test_a_blank_line_stays_empty_in_translation(invoke: Invoke, toy: Toy) -> None:
    text = "".join(f"rot\n{line}\n" for line in BLANK).encode()
    for options in ([], ["--greedy"], ["--set", "search.lengths.max_source_length=2"]):
        lines = invoke("translate", toy.run, *options, given=text).out.split("\n")[:-1]
        assert len(lines) == 2 * len(BLANK) and all(lines[::2]) and not any(lines[1::2])
    translator = load(toy.run)
    assert [one.tokens for one in translator.translate(BLANK)] == [()] * len(BLANK)
    lengths = translator.search.lengths.model_copy(update={"max_source_length": 12})
    with pytest.warns(InputWarning, match="translated in parts"):
        long = translator.translate(
            "Rot blau. \u200b! \u200b", translator.search.model_copy(update={"lengths": lengths})
        )
    assert long.segments == ("Rot blau.", "\u200b!")


def test_commands_with_blank_lines(invoke: Invoke, toy: Toy, tmp_path: Path) -> None:
    write_lines(tmp_path / "s", ["rot haus", "\u200b", "\u00ad"])
    write_lines(tmp_path / "t", ["red house", "\ufeff", "red"])
    files = "--source", "s", "--target", "t"
    scored = invoke("score", toy.run, *files, "--json")
    pairs = [json.loads(line) for line in scored.out.splitlines()]
    assert [bool(pair["tokens"]) for pair in pairs] == [True, False, True]
    assert "warning: line 3: one side is empty" in scored.err
    assert invoke("align", toy.run, *files).out.split("\n")[1:] == ["", "", ""]
    invoke("distill", toy.run, "--source", "s", "-o", "corpus")
    assert json.loads((tmp_path / "corpus/report.json").read_text("utf-8"))["empty"] == 2
    write_lines(tmp_path / "terms", ["rot\t\u200b"])
    assert "terms:1: expected a source term" in invoke("translate", toy.run, "rot", "--glossary", "terms", code=2).err
    write_lines(tmp_path / "blank", BLANK)
    verify = "export", toy.run, "e", "--to", "onnx", "--verify-with", "blank"
    assert "has no line to verify with" in invoke(*verify, code=2).err
