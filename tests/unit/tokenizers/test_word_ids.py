"""Which word a token belongs to: decoding the words one by one gives the line."""

from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.characters import CharacterTokenizerConfig
from seq2attn.tokenizers.subwords import UnigramTokenizerConfig
from seq2attn.tokenizers.tokenized_text import TokenizedText, _are_of_one_word
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from seq2attn.tokenizers.word_ids import assign_word_ids
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.unit.tokenizers.test_tokenizers import STOCHASTIC, TEXT, TRAINED


def word_by_word(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    numbers = tokenizer.word_ids(ids)
    assert len(numbers) == len(ids)
    groups = groupby(zip(numbers, ids, strict=True), key=lambda pair: pair[0])
    words = {number: tokenizer.decode([id for _, id in pairs]) for number, pairs in groups}
    assert list(words) == list(range(len(words))), "words are numbered in their order, none left out"
    return " ".join(words.values())


@pytest.mark.parametrize("name", TRAINED)
@given(line=st.text() | st.sampled_from(TEXT))
@example("The red boat")
@example("xyzzy, (Zq) a 😀日 b ... 'tis")
@example("a , b ,c d, •e f•g ￭ x￭y")
@example("")
def test_words_decoded_one_by_one_are_the_line(name: str, line: str) -> None:
    tokenizer = TRAINED[name]
    ids = tokenizer.encode(line)
    if ids:
        assert word_by_word(tokenizer, ids) == tokenizer.decode(ids)
    else:
        assert tokenizer.word_ids(ids) == []


@pytest.mark.parametrize("name", TRAINED)
@given(data=st.data())
def test_so_are_words_that_a_model_made_up(name: str, data: st.DataObject) -> None:
    tokenizer = TRAINED[name]
    letters = [i for i, t in enumerate(tokenizer.vocabulary.tokens) if i >= UNK and "<0x" not in t]
    ids = data.draw(st.lists(st.sampled_from(letters)))
    numbers = tokenizer.word_ids(ids)
    if tokenizer.decode(ids):
        assert word_by_word(tokenizer, ids) == tokenizer.decode(ids)
    else:
        assert set(numbers) <= {-1}


@pytest.mark.parametrize("name", STOCHASTIC)
def test_cut_at_random_the_words_stay(name: str) -> None:
    for ids, line in zip(STOCHASTIC[name].sample(TEXT, seed=4), TEXT, strict=True):
        assert word_by_word(STOCHASTIC[name], ids) == line


@pytest.mark.parametrize("name", TRAINED)
def test_controls_belong_to_no_word(name: str) -> None:
    tokenizer = TRAINED[name]
    ids = tokenizer.encode("red boat")
    assert tokenizer.word_ids([BOS, *ids, EOS, PAD]) == [-1, *tokenizer.word_ids(ids), -1, -1]
    assert tokenizer.word_ids([]) == []


def test_spaces_written_as_bytes_part_words() -> None:
    tokenizer = TRAINED["bpe"]
    red, newline = tokenizer.encode("red"), tokenizer.vocabulary.id("<0x0A>")
    bare = tokenizer.vocabulary.id("s")
    assert tokenizer.word_ids([*red, newline, bare]) == [*[0] * len(red), 1, 1]
    assert tokenizer.decode([*red, newline, bare]) == "red s"


def test_joiners_keep_words_together() -> None:
    tokenizer = WordTokenizerConfig().train(["Don't wait, (she) said."])
    ids = tokenizer.encode("Don't wait, (she) said.")
    assert tokenizer.word_ids(ids) == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]


@given(surfaces=st.lists(st.sampled_from(["a", " ", " a", "a ", " a b", "b\n", "", SPECIAL_TOKENS[UNK]])))
def test_numbers_are_those_of_the_words_of_the_joined_text(surfaces: list[str]) -> None:
    numbers = assign_word_ids(surfaces)
    words = "".join(surfaces).split()
    for place, (surface, number) in enumerate(zip(surfaces, numbers, strict=True)):
        if surface.strip():
            before = "".join(surfaces[:place]) + surface[: len(surface) - len(surface.lstrip())]
            assert number == len((before + "x").split()) - 1
            assert surface.split()[0] in words[number]
        assert (number == -1) == (not surface or not words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("red boat", ["red", "boat"]),
        ("我们学习中文。", [*"我们学习中文。"]),
        ("我用 Python 写 red12。", ["我", "用", "Python", "写", "red12", "。"]),
        ("我用Python写", ["我", "用", "Python", "写"]),
        ("カタカナで", [*"カタカナで"]),
        ("วันนี้", ["วั", "น", "นี้"]),
        ("한국어 문장", ["한국어", "문장"]),
    ],
)
def test_tokens_of_scripts_without_spaces_are_words(line: str, words: list[str]) -> None:
    tokenizer = CharacterTokenizerConfig().train([line])
    found = TokenizedText.from_ids(tokenizer, [*tokenizer.encode(line), EOS])
    assert found.words == (*words, "</s>")
    pieces = zip(found.tokens, found.word_ids, strict=True)
    made = ["".join(token for token, _ in part) for _, part in groupby(pieces, key=lambda piece: piece[1])]
    assert [word.replace("▁", "") for word in made] == [*found.words]


def test_sub_words_of_scripts_without_spaces_are_not_joined() -> None:
    lines = ["今日は天気がいいです。", "今日は本を読みます。", "Pythonは今日"] * 9
    tokenizer = UnigramTokenizerConfig(vocab_size=300).train(lines)
    found = TokenizedText.from_ids(tokenizer, tokenizer.encode(lines[0]))
    assert "".join(found.words) == lines[0]
    assert len(found.words) == sum(token != "▁" for token in found.tokens) > 3


@pytest.mark.parametrize("name", TRAINED)
@given(
    line=st.lists(st.sampled_from(["a", "boat", "ß", "é", "日本", "天", "ก", "คำ", "😀", "👩🏽", "x\u0301", " ", ","]))
)
def test_words_end_where_the_whole_text_before_a_token_says(name: str, line: list[str]) -> None:
    tokenizer = TRAINED[name]
    ids = tokenizer.encode("".join(line))
    expected, start, numbers = list[int](), 0, tokenizer.word_ids(ids)
    for place, id in enumerate(ids):
        left, right = tokenizer.decode(ids[start:place]), tokenizer.decode([id])
        if place and (numbers[place] != numbers[place - 1] or not _are_of_one_word(left, right)):
            start = place
        expected.append(start)
    starts = {start: number for number, start in enumerate(dict.fromkeys(expected))}
    assert TokenizedText.from_ids(tokenizer, ids).word_ids == tuple(starts[start] for start in expected)
