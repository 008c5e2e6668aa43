"""Splitting of lines that are too long loses nothing, fits, and cuts between sentences, then words, then tokens."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2attn.inference.source_line import (
    SourceLimit,
    SourceLine,
    join_sentences,
    split_sentences,
    split_tokens,
)
from seq2attn.search.config import LengthsConfig
from seq2attn.tokenizers.characters import CharacterTokenizerConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.unit.phrases import PHRASES

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
    "zh": ["今天很好。", "你好吗？", "好！", "他说。"],
    "ja": ["猫が寝ている。", "はい。"],
}


def bare(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_are_split_and_joined(language: str) -> None:
    every = SENTENCES[language]
    line = "".join(every) if language in ("zh", "ja") else " ".join(every)
    assert split_sentences(f"  {line}\t ", language) == every
    assert join_sentences(every) == line


def test_abbreviations_are_those_of_the_language() -> None:
    assert split_sentences("Am 3. Mai kam sie.", "de") == ["Am 3. Mai kam sie."]
    assert split_sentences("Am 3. Mai kam sie.", "en") == ["Am 3.", "Mai kam sie."]
    for language, count in (("de", 2), ("en", 3)):
        lengths = LengthsConfig(source_language=language)
        line = "Am 3. Mai kam sie. Er nicht."
        read = SourceLine.encode(TOKENIZERS["words"], line, lengths, SourceLimit(7, "it is a test"))
        assert len(read.segments) == count


def test_paragraphs_of_the_phrasebook_fall_into_their_lines() -> None:
    for side, language in enumerate(("de", "en")):
        lines = [pair[side] for pair in PHRASES]
        found = split_sentences(" ".join(lines), language)
        assert " ".join(found) == " ".join(lines)
        assert len({*lines} - {*found}) < 0.02 * len(lines)  # `mich.` and `ill.` are taken for abbreviations


@settings(max_examples=300, deadline=None)
@given(TEXT, st.sampled_from(["en", "de", "zh", "qq"]))
def test_sentences_lose_nothing(line: str, language: str) -> None:
    found = split_sentences(line, language)
    assert bare("".join(found)) == bare(line)
    assert all(part == part.strip() != "" for part in found)


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=100, deadline=None)
@given(TEXT | st.lists(st.sampled_from(LINES), max_size=4).map(" ".join), st.integers(1, 12))
def test_segments_fit_and_are_the_sentences(name: str, line: str, most: int) -> None:
    tokenizer = TOKENIZERS[name]
    read = SourceLine.encode(tokenizer, line, LengthsConfig(), SourceLimit(most, "it is a test"))
    assert (read.warning is None) == (len(tokenizer.encode(line)) <= most)
    if read.warning is None:
        assert read.segments == (tuple(tokenizer.encode(line)),) and not read.segment_texts
        return
    assert all(len(ids) <= most for ids in read.segments)
    sentences = [id for one in split_sentences(line, "en") for id in tokenizer.encode(one)]
    assert [id for ids in read.segments for id in ids] == sentences
    assert len(read.segment_texts) == len(read.segments) == len(read.prefixes)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_words_are_cut_only_where_they_do_not_fit(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode("the red boat and a green lantern")
    words = tokenizer.word_ids(ids)
    longest = max(map(words.count, words))
    for most in range(1, len(ids) + 1):
        runs = [*split_tokens(tokenizer, ids, most)]
        assert [id for run in runs for id in run] == ids and all(0 < len(run) <= most for run in runs)
        starts = [sum(map(len, runs[:number])) for number in range(1, len(runs))]
        is_between = [words[start] != words[start - 1] for start in starts]
        assert all(is_between) or most < longest
        for start, following in zip(starts, runs[1:], strict=True):  # no run could have been longer
            end = next((n for n in range(start + 1, len(ids)) if words[n] != words[start]), len(ids))
            run = next(run for run, (a, b) in zip(runs, pairwise([0, *starts, len(ids)]), strict=True) if b == start)
            assert following and (len(run) + end - start > most)


@pytest.mark.parametrize("line", ["." * 200_000, ". " * 50_000, "“" * 200_000, ".“" * 100_000, "x" * 200_000])
def test_time_grows_with_the_line_and_no_faster(line: str) -> None:
    # At the square of its length quotes would take minutes: that this ends is what is tested.
    assert bare("".join(split_sentences(line, "en"))) == bare(line)
    ids = TOKENIZERS["characters"].encode(line)
    assert sum(map(len, split_tokens(TOKENIZERS["characters"], ids, 1000))) == len(ids)


def test_joining_puts_spaces_where_the_script_has_them() -> None:
    assert join_sentences(["Ja.", "", "Nein."]) == "Ja. Nein."
    assert join_sentences(["好。", "OK"]) == "好。OK"
    assert join_sentences(["다.", "한"]) == "다. 한"
    assert join_sentences([]) == join_sentences(["", ""]) == ""
    assert all(join_sentences([a, b]) == f"{a} {b}" for a, b in pairwise(["a.", "b", "ж", "9"]))
