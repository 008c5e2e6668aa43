"""Words of tokens: decoding word by word gives the line."""

from collections.abc import Sequence
from itertools import groupby
from unicodedata import category

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seq2attn.tokenizers.base import Tokenizer, assign_word_ids
from seq2attn.tokenizers.normalize import is_unspaced, join_sentences, segment_words
from seq2attn.tokenizers.subwords import UnigramTokenizerConfig
from seq2attn.tokenizers.tokenized_text import TokenizedText, _are_of_one_word, whole_word_ids
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from seq2attn.tokenizers.words import CharacterTokenizerConfig
from tests.support.tokenizers import TEXT, TRAINED

LETTERS = ["a", "boat", "ß", "é", "日本", "天", "ก", "คำ", "😀", "👩🏽", "x\u0301", " ", ","]


def is_marked(word: str) -> bool:
    """True for a punctuation mark with accents."""
    return category(word[0])[0] == "P" and all(category(one)[0] == "M" for one in word[1:])


def check_word_by_word(tokenizer: Tokenizer, ids: Sequence[int]) -> None:
    indices = tokenizer.word_ids(ids)
    assert len(indices) == len(ids)
    if not tokenizer.decode(ids):
        assert set(indices) <= {-1}
        return
    groups = groupby(zip(indices, ids, strict=True), key=lambda pair: pair[0])
    words = {index: tokenizer.decode([id for _, id in pairs]) for index, pairs in groups}
    assert list(words) == list(range(len(words)))
    assert " ".join(words.values()) == tokenizer.decode(ids)


@pytest.mark.parametrize("name", TRAINED)
@given(line=st.text() | st.sampled_from(TEXT))
@example("The red boat")
@example("xyzzy, (Zq) a 😀日 b ... 'tis")
@example("a , b ,c d, •e f•g ￭ x￭y")
@example("")
def test_words_of_lines(name: str, line: str) -> None:
    tokenizer = TRAINED[name]
    ids = tokenizer.encode(line)
    check_word_by_word(tokenizer, ids)
    assert tokenizer.word_ids([BOS, *ids, EOS, PAD]) == [-1, *tokenizer.word_ids(ids), -1, -1]
    text = TokenizedText.from_ids(tokenizer, [BOS, *ids, EOS])
    assert text.tokens == tuple(tokenizer.convert_ids_to_tokens([BOS, *ids, EOS]))
    first, *words, last = text.words
    assert (first, "".join(words), last) == ("<s>", "".join(tokenizer.decode(ids).split()), "</s>")
    groups = groupby(zip(whole_word_ids(tokenizer, ids), ids, strict=True), key=lambda pair: pair[0])
    whole = [tokenizer.decode([id for _, id in pairs]) for _, pairs in groups]
    assert whole == tokenizer.decode(ids).split() or any(map(is_unspaced, line))
    if name in ("words", "characters"):  # other tokens may have letters and marks
        assert all(len(word) == 1 or not {category(word[0])[0], category(word[-1])[0]} & {"P"} for word in words
                   if not is_marked(word))  # fmt: skip
    assert [*dict.fromkeys(text.word_ids)] == [*range(len(text.words))]


@pytest.mark.parametrize("name", TRAINED)
@given(data=st.data())
def test_words_of_any_ids(name: str, data: st.DataObject) -> None:
    tokens = TRAINED[name].vocabulary.tokens
    letters = [id for id, token in enumerate(tokens) if id >= UNK and "<0x" not in token]
    check_word_by_word(TRAINED[name], data.draw(st.lists(st.sampled_from(letters))))


def test_spaces_as_bytes_separate_words() -> None:
    tokenizer = TRAINED["bpe"]
    red, newline, s = tokenizer.encode("red"), tokenizer.vocabulary.id("<0x0A>"), tokenizer.vocabulary.id("s")
    assert tokenizer.word_ids([*red, newline, s]) == [*[0] * len(red), 1, 1]
    assert tokenizer.decode([*red, newline, s]) == "red s"


@given(surfaces=st.lists(st.sampled_from(["a", " ", " a", "a ", " a b", "b\n", "", SPECIAL_TOKENS[UNK]])))
def test_word_ids_count_the_words_of_the_joined_text(surfaces: list[str]) -> None:
    indices = assign_word_ids(surfaces)
    words = "".join(surfaces).split()
    for place, (surface, index) in enumerate(zip(surfaces, indices, strict=True)):
        if surface.strip():
            before = "".join(surfaces[:place]) + surface[: len(surface) - len(surface.lstrip())]
            assert index == len((before + "x").split()) - 1
            assert surface.split()[0] in words[index]
        assert (index == -1) == (not surface or not words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("red boat", ["red", "boat"]),
        ('"Don\'t, rock-n-roll" (he) said...', [*'"', "Don't", *",", "rock-n-roll", *'"(', "he", *")", "said", *"..."]),
        ("¿Qué? «l'été», 20% #2", [*"¿", "Qué", *"?«", "l'été", *"»,", "20", *"%#", "2"]),
        ("我用 Python 写 red12。", ["我", "用", "Python", "写", "red12", "。"]),
        ("我用Python写", ["我", "用", "Python", "写"]),
        ("カタカナで", [*"カタカナで"]),
        ("วันนี้", ["วั", "น", "นี้"]),
        ("한국어 문장", ["한국어", "문장"]),
    ],
)
def test_tokens_of_scripts_without_spaces_are_words(line: str, words: list[str]) -> None:
    tokenizer = CharacterTokenizerConfig().train([line])
    text = TokenizedText.from_ids(tokenizer, [*tokenizer.encode(line), EOS])
    assert text.words == (*words, "</s>")
    pairs = zip(text.tokens, text.word_ids, strict=True)
    joined = ["".join(token for token, _ in group) for _, group in groupby(pairs, key=lambda pair: pair[1])]
    assert [word.replace("▁", "") for word in joined] == [*text.words]
    reversing = tokenizer.with_direction(right_to_left=True)
    assert TokenizedText.from_ids(reversing, [*reversing.encode(line), EOS]).words == (*words[::-1], "</s>")


@pytest.mark.parametrize("parts", [["两只狗。", "一艘船。"], ["Two dogs.", "A boat."], ["好。", "", "OK"]])
def test_concatenated_lines_have_the_spaces_of_their_script(parts: list[str]) -> None:
    tokenizer = CharacterTokenizerConfig().train(parts)
    texts = [TokenizedText.from_ids(tokenizer, [*tokenizer.encode(part), EOS]) for part in parts]
    joined = TokenizedText.concat(texts)
    assert joined.text == join_sentences(parts)
    assert joined.tokens == tuple(token for text in texts for token in text.tokens)


def test_subwords_of_scripts_without_spaces_are_not_joined() -> None:
    lines = ["今日は天気がいいです。", "今日は本を読みます。", "Pythonは今日"] * 9
    tokenizer = UnigramTokenizerConfig(vocab_size=300).train(lines)
    text = TokenizedText.from_ids(tokenizer, tokenizer.encode(lines[0]))
    assert "".join(text.words) == lines[0]
    assert len(text.words) == sum(token != "▁" for token in text.tokens) > 3


@pytest.mark.parametrize("name", TRAINED)
@given(line=st.lists(st.sampled_from(LETTERS)))
def test_the_last_tokens_of_a_word_decide_on_its_end(name: str, line: list[str]) -> None:
    tokenizer = TRAINED[name]
    ids = tokenizer.encode("".join(line))
    starts, start, indices = list[int](), 0, tokenizer.word_ids(ids)
    for place, id in enumerate(ids):
        before, token = tokenizer.decode(ids[start:place]), tokenizer.decode([id])
        if place and (indices[place] != indices[place - 1] or not _are_of_one_word(before, token)):
            start = place
        starts.append(start)
    numbers = {start: number for number, start in enumerate(dict.fromkeys(starts))}
    assert whole_word_ids(tokenizer, ids) == [numbers[start] for start in starts]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Two dogs,  here.", ["Two ", "dogs,  ", "here."]),
        ("两只狗。 Python 3好", ["两", "只", "狗", "。 ", "Python ", "3", "好"]),
        ("犬がコード", ["犬", "が", "コ", "ー", "ド"]),
        ("２０２４年", ["２０２４", "年"]),
        ("ខ្មែរ", ["ខ្មែ", "រ"]),  # with the letter below
        ("မန္တလေး", ["မ", "န္တ", "လေး"]),
        ("ที่นี่ ดี", ["ที่", "นี่ ", "ดี"]),  # with their vowels and tones
        ("", []),
    ],
)
def test_words_are_those_between_spaces_or_single_letters_where_there_are_none(text, words):
    assert segment_words(text) == words


BYTES = UnigramTokenizerConfig(vocab_size=300).train(["a few words of which there are many"] * 9)


@given(line=st.lists(st.sampled_from(["a", "few", "ب", "😀", "“", "é", " ", "."])).map("".join), reverse=st.booleans())
def test_the_bytes_of_a_letter_are_one(line: str, reverse: bool) -> None:
    tokenizer = BYTES.with_direction(right_to_left=reverse)
    ids = [*tokenizer.encode(line), EOS]
    text = TokenizedText.from_ids(tokenizer, ids)
    joined, numbers = text.join_letters()
    letters = [*joined.tokens]
    assert len(numbers) == len(ids) and [*dict.fromkeys(numbers)] == [*range(len(letters))]
    assert not any(letter.startswith("<0x") for letter in letters)
    order = -1 if reverse else 1
    assert "".join(letters[:-1][::order]).replace("▁", " ").split() == line.split()
    words = {
        one: {word for word, letter in zip(text.word_ids, numbers, strict=True) if letter == one} for one in numbers
    }
    assert all(len(one) == 1 for one in words.values())  # no letter is of two words
    detached = [word for word in text.words if set(word) & {*"“."}]
    assert all(len(word) == 1 or category(word[0])[0] != "P" != category(word[-1])[0] for word in detached)


def test_incomplete_bytes_stay_visible() -> None:
    broken = [BYTES.vocabulary.id(f"<0x{byte:02X}>") for byte in (0xD8, 0xD8, 0xA8, 0x41)]
    joined, numbers = TokenizedText.from_ids(BYTES, broken).join_letters()
    letters = [*joined.tokens]
    assert len(numbers) == 4 and "".join(letters)
