"""Splitting of long lines: no token is lost, segments fit, and cuts are between sentences, else words, else tokens."""

from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2attn.inference.engines.source_limit import SourceLimit
from seq2attn.inference.source_line import SourceLine, split_sentences, split_tokens
from seq2attn.search.search_config import LengthsConfig
from seq2attn.tokenizers.normalize import join_sentences
from seq2attn.tokenizers.subwords import BPETokenizerConfig
from seq2attn.tokenizers.words import CharacterTokenizerConfig, WordTokenizerConfig
from tests.support.corpora import PHRASES

TEXT = st.text(st.sampled_from('ab A.!?…,;: \n\t\r\x0b\x85\xa0"”»)(„。，？「はß\u0301\u200b\u2028🙂12ก।'), max_size=80)
LINES = [line for pair in PHRASES for line in pair]
TOKENIZERS = {
    "words": WordTokenizerConfig().train(LINES),
    "characters": CharacterTokenizerConfig().train(LINES),
    "bpe": BPETokenizerConfig(vocab_size=600).train(LINES),
}
SENTENCES = {
    "de": ["Am 3. Mai kam Dr. Müller z. B. nach St. Gallen.", "Er blieb bis 1999.", "„Gut?“"],
    "en": ["Mr. Smith paid $3.50.", "J. R. R. Tolkien wrote it!", "Was it so?"],
    "hi": ["यह अच्छा है।", "वह भी।"],
    "ar": ["أين البيت؟", "هنا."],
    "km": ["ខ្ញុំទៅបណ្ណាល័យ។", "គាត់មកផ្ទះ។"],
    "bo": ["ང་རང་བོད་པ་ཡིན།", "ཁོང་ཡོང་སོང་།"],
    "ur": ["میں گیا۔", "کیا وہ آیا؟"],
    "zh": ["今天很好。", "你好吗？", "好！", "他说。"],
    "ja": ["猫が寝ている。", "はい。"],
}


def bare(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_are_split_and_joined(language: str) -> None:
    sentences = SENTENCES[language]
    line = "".join(sentences) if language in ("zh", "ja") else " ".join(sentences)
    assert split_sentences(f"  {line}\t ", language) == sentences
    assert join_sentences(sentences) == line


def test_abbreviations_are_those_of_the_language() -> None:
    for german in ("de", "deu"):  # as in `deu_Latn` of NLLB
        assert split_sentences("Am 3. Mai kam sie.", german) == ["Am 3. Mai kam sie."]
    assert split_sentences("Am 3. Mai kam sie.", "en") == ["Am 3.", "Mai kam sie."]
    for language, count in (("de", 2), ("en", 3)):
        lengths = LengthsConfig(source_language=language)
        line = "Am 3. Mai kam sie. Er nicht."
        encoded = SourceLine.encode(TOKENIZERS["words"], line, lengths, SourceLimit(7, "it is a test"))
        assert len(encoded.segments) == count


def test_paragraphs_of_the_phrasebook_are_split_into_lines() -> None:
    for side, language in enumerate(("de", "en")):
        lines = [pair[side] for pair in PHRASES]
        sentences = split_sentences(" ".join(lines), language)
        assert " ".join(sentences) == " ".join(lines)
        assert len({*lines} - {*sentences}) < 0.02 * len(lines)  # `mich.` and `ill.` are taken for abbreviations


@pytest.mark.parametrize("sentence", ["میں گیا تھا۔ ", "أين البيت؟ ", "እኔ ሄድኩ። ", "ခွေး အိပ်သည်။ ", "今日は．", "はい｡"])
def test_long_text_is_cut_at_ends_of_sentences(sentence: str) -> None:
    lines = split_sentences(sentence * (25_000 // len(sentence)), "qq")
    assert all(
        line.endswith(sentence.strip()) and len(line) % len(sentence) in (0, len(sentence) - 1) for line in lines
    )


@settings(max_examples=150, deadline=None)
@given(TEXT, st.sampled_from(["en", "de", "zh", "qq"]))
def test_sentences_lose_nothing(line: str, language: str) -> None:
    sentences = split_sentences(line, language)
    assert bare("".join(sentences)) == bare(line)
    assert all(part == part.strip() != "" for part in sentences)


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=60, deadline=None)
@given(TEXT | st.lists(st.sampled_from(LINES), max_size=4).map(" ".join), st.integers(1, 12))
def test_segments_fit_and_are_the_sentences(name: str, line: str, most: int) -> None:
    tokenizer = TOKENIZERS[name]
    encoded = SourceLine.encode(tokenizer, line, LengthsConfig(), SourceLimit(most, "it is a test"))
    assert (encoded.warning is None) == (len(tokenizer.encode(line)) <= most)
    if encoded.warning is None:
        assert encoded.segments == (tuple(tokenizer.encode(line)),) and not encoded.segment_texts
        return
    assert all(len(ids) <= most for ids in encoded.segments)
    sentences = [id for one in split_sentences(line, "en") for id in tokenizer.encode(one)]
    assert [id for ids in encoded.segments for id in ids] == sentences
    assert len(encoded.segment_texts) == len(encoded.segments) == len(encoded.prefixes((4, 5)))


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("line", ["the red boat and a green lantern", "the (red) boat, and a 'green' lantern."])
def test_runs_are_as_long_as_possible_and_cut_between_words(name: str, line: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(line)
    words = tokenizer.word_ids(ids)
    for max_tokens in range(1, len(ids) + 1):
        runs = [*split_tokens(tokenizer, ids, max_tokens)]
        assert [id for run in runs for id in run] == ids and all(0 < len(run) <= max_tokens for run in runs)
        cuts = [*accumulate(map(len, runs))]
        assert all(words[cut] != words[cut - 1] for cut in cuts[:-1]) or max_tokens < max(map(words.count, words))
        for run, cut in zip(runs, cuts[:-1], strict=False):
            next_word = next((n for n in range(cut + 1, len(ids)) if words[n] != words[cut]), len(ids))
            assert len(run) + next_word - cut > max_tokens


@pytest.mark.parametrize("max_tokens", [4, 5, 7, 12])
@pytest.mark.parametrize("line", ["学而时习之不亦说乎", "กินข้าวแล้วหรือยัง", "🙂🙃🙂🙃🙂", "Ⴀé🙂学ⴃⴄаб学ⴅ"])
def test_letters_are_not_split(line: str, max_tokens: int) -> None:
    """Unknown letters are two to four tokens each, and no space is between them."""
    limit = SourceLimit(max_tokens, "it is a test")
    source = SourceLine.encode(TOKENIZERS["bpe"], line, LengthsConfig(), limit)
    assert len(source.texts) > 1 and "".join(source.texts) == line
    assert all(len(ids) <= max_tokens for ids in source.segments)


def test_words_between_letters_of_a_script_without_spaces_are_not_split() -> None:
    line = "学lantern学boat学"
    ids = TOKENIZERS["bpe"].encode(line)
    for max_tokens in range(7, len(ids)):
        runs = [TOKENIZERS["bpe"].decode(run) for run in split_tokens(TOKENIZERS["bpe"], ids, max_tokens)]
        assert "".join(runs) == line and all(any(word in run for run in runs) for word in ("lantern", "boat"))


@pytest.mark.parametrize(
    "line",
    ["." * 100_000, ". " * 25_000, "“" * 100_000, ".“" * 100_000, "x" * 100_000],
    ids=["stops", "stops and spaces", "quotes", "stops and quotes", "letters"],
)
def test_time_is_linear_in_the_length(line: str) -> None:
    # In quadratic time quotes would take minutes.
    assert bare("".join(split_sentences(line, "en"))) == bare(line)
    ids = TOKENIZERS["characters"].encode(line)
    assert sum(map(len, split_tokens(TOKENIZERS["characters"], ids, 1000))) == len(ids)


def test_sentences_are_joined_by_spaces_unless_the_script_has_none() -> None:
    assert join_sentences(["Ja.", "", "Nein."]) == "Ja. Nein."
    assert join_sentences(["好。", "OK"]) == "好。OK"
    assert join_sentences(["다.", "한"]) == "다. 한"
    assert join_sentences([]) == join_sentences(["", ""]) == ""
    assert all(join_sentences([a, b]) == f"{a} {b}" for a, b in pairwise(["a.", "b", "ж", "9"]))
