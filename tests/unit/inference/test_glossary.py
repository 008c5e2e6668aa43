"""Source terms of a glossary: where a text has them."""

import unicodedata
from pathlib import Path

import pytest

from seq2attn.inference.glossary import Glossary, TermCounts
from seq2attn.tokenizers.words import WordTokenizerConfig

TOKENIZERS = (WordTokenizerConfig().train([]), WordTokenizerConfig().train(["teacher"]))


@pytest.mark.parametrize(
    ("term", "text", "is_found"),
    [
        ("北京", "我住在北京。", True),
        ("東京", "私は東京に住んでいます。", True),
        ("กิน", "ผมกินข้าว", True),
        ("iPhone", "我买iPhone手机", True),
        ("iPhone", "iPhones手机", False),
        ("कि", "कि ", True),
        ("दिन", "एक दिन।", True),
        ("दिन", "दो दिनों में", False),
        ("ก", "กิน", False),
        ("Tu", unicodedata.normalize("NFD", "Die Tür ist zu."), False),
        ("resume", unicodedata.normalize("NFD", "résumé"), False),
        ("m", "m²", False),
    ],
)
def test_terms_begin_and_end_with_words(tmp_path: Path, term: str, text: str, is_found: bool) -> None:
    """Combining marks belong to words; scripts without spaces between words have a boundary before each letter."""
    (tmp_path / "terms").write_text(f"{term}\tteacher\n", encoding="utf-8")
    assert bool(Glossary.load(tmp_path / "terms", TOKENIZERS).find(text)) == is_found


def test_terms_are_compared_as_the_tokenizers_normalize_them(tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("Tür\tTeacher\nNew  York\tteacher\n", encoding="utf-8")
    lower = tuple(WordTokenizerConfig(lowercase=True).train(["teacher"]) for _ in range(2))
    decomposed = unicodedata.normalize("NFD", "die TÜR")
    for tokenizers, line, found in (
        (TOKENIZERS, "ein New \u3000 York", "teacher"),
        (lower, decomposed, "Teacher"),
        (lower, "new york", "teacher"),
    ):
        glossary = Glossary.load(tmp_path / "terms", tokenizers, replace_unk=True)
        assert [term.text for term in glossary.find(line)] == [found]
        assert glossary.count_met([line, line], ["the teacher", "the house"]) == TermCounts(1, 2)
    assert Glossary.load(tmp_path / "terms", lower).word("tür") == "Teacher"
