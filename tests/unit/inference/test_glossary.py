"""Source terms of a glossary: where a text has them."""

import unicodedata
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.glossary import Glossary, TermCounts
from seq2attn.options.runs import ImportOptions
from seq2attn.pretrained.import_run import import_model
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.tokenizer_config import TokenizerConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.marian import make_marian, train_pieces
from tests.support.multilingual import make_bart_tokenizer

TOKENIZERS = TokenizerPair(WordTokenizerConfig().train([]), WordTokenizerConfig().train(["teacher"]))


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
        ("２０", "２０２４年", False),
        ("２０２４", "２０２４年", True),
        ("មែរ", "ខ្មែរ", False),
        ("ខ្មែរ", "ភាសាខ្មែរ", True),
        ("خواهم", "می\u200cخواهم", False),
        ("می\u200cخواهم", "من می\u200cخواهم.", True),
    ],
)
def test_terms_begin_and_end_with_words(tmp_path: Path, term: str, text: str, is_found: bool) -> None:
    """Combining marks belong to words; scripts without spaces between words have a boundary before each letter."""
    (tmp_path / "terms").write_text(f"{term}\tteacher\n", encoding="utf-8")
    assert bool(Glossary.load(tmp_path / "terms", TOKENIZERS).find(text)) == is_found


def test_terms_are_compared_as_the_tokenizers_normalize_them(tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("Tür\tTeacher\nNew  York\tteacher\n", encoding="utf-8")
    lower = TokenizerPair(*(WordTokenizerConfig(lowercase=True).train(["teacher"]) for _ in range(2)))
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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("das alte Haus am großen See", "W Y"),  # not `alte Haus`, which begins before the longest, nor `am` in it
        ("das alte Haus am See", "U Z"),
        ("das alte Hausboot am See", "W Z"),
        ("Haus am großen See am Haus am großen See", "Y Z"),
        ("ein Haus am großen See", "Y"),  # not `ei`, which begins as `ein Haus` does
    ],
)
def test_of_terms_that_overlap_the_longest_counts(tmp_path: Path, text: str, found: str) -> None:
    terms = "alte Haus\tX\nHaus am großen See\tY\nam\tZ\ndas\tW\ndas alte Haus\tU\nein Haus\tV\nei\tV\n"
    (tmp_path / "terms").write_text(terms, encoding="utf-8")
    tokenizers = TOKENIZERS._replace(target=WordTokenizerConfig().train(["U V W X Y Z"]))
    assert " ".join(term.text for term in Glossary.load(tmp_path / "terms", tokenizers).find(text)) == found


@pytest.mark.parametrize(
    ("translation", "is_met"), [("a teacher.", 1), ("teachers", 0), ("the headteacher", 0), ("老teacher好", 1)]
)
def test_a_term_is_met_by_whole_words(tmp_path: Path, translation: str, is_met: int) -> None:
    (tmp_path / "terms").write_text("Lehrer\tteacher\n", encoding="utf-8")
    assert Glossary.load(tmp_path / "terms", TOKENIZERS).count_met(["Lehrer"], [translation]) == TermCounts(is_met, 1)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_tag_is_no_word_of_the_text(tmp_path: Path, reverse: bool) -> None:
    (tmp_path / "terms").write_text("medical\tteacher\n", encoding="utf-8")
    source = TOKENIZERS[0].with_tags(("<medical>",)).with_direction(right_to_left=reverse)
    glossary = Glossary.load(tmp_path / "terms", TOKENIZERS._replace(source=source))
    for line, count in {"<medical> a text": 0, "<medical> a medical text": 1, "<other> <medical> text": 1}.items():
        assert len(glossary.find(line)) == count
    assert glossary.count_met(["<medical> a text", "<medical> medical"], ["the", "teacher"]) == TermCounts(1, 1)


RED, CHINESE = "the red house", "我住在北京。"


@pytest.mark.parametrize(
    ("kind", "line", "before", "term"),
    [
        ("bpe", CHINESE, "我住在", "北京"),
        ("bpe", CHINESE, "我", "住在"),
        ("unigram", CHINESE, "我住在", "北京。"),
        ("characters", CHINESE, "我住在", "北京"),
        ("sentencepiece", CHINESE, "我住在", "北京"),
        ("hugging-face", CHINESE, "我住在", "北京"),
        *((kind, RED, "the red", "house") for kind in ("bpe", "unigram", "words", "sentencepiece", "hugging-face")),
    ],
)
def test_terms_have_a_space_before_them_where_the_script_has_spaces(
    tmp_path: Path, kind: str, line: str, before: str, term: str
) -> None:
    """The tokens of a term after others are its text; BPE has `▁北京` as one token."""
    text = [line, "北京是首都。", "我爱北京"] * 9
    content: dict[str, Any] = {"kind": kind}
    if kind in ("bpe", "unigram"):
        content["vocab_size"] = 400
    elif kind == "sentencepiece":
        train_pieces(text, tmp_path / "model", vocab_size=60)
        content["path"] = tmp_path / "model"
    elif kind == "hugging-face":
        make_bart_tokenizer(tmp_path)
        content["path"] = tmp_path / "tokenizer.json"
    config: Any = TypeAdapter(TokenizerConfig).validate_python(content)
    trained = config.train(text)
    (tmp_path / "terms").write_text(f"word\t{term}\n", encoding="utf-8")
    for tags, reverse in product(((), ("<2zh>",)), (False, True)):
        tokenizer = (trained.with_tags(tags) if tags else trained).with_direction(right_to_left=reverse)
        (found,) = Glossary.load(tmp_path / "terms", TOKENIZERS._replace(target=tokenizer)).find("a word")
        ids = [*found.ids, *tokenizer.encode(before)] if reverse else [*tokenizer.encode(before), *found.ids]
        assert tokenizer.decode(ids) == line[: len(before)] + line[len(before) :].partition(term)[0] + term
        assert tokenizer.decode(found.ids) == term


@pytest.mark.slow
def test_terms_of_an_imported_model_are_compared_with_its_punctuation(tmp_path: Path) -> None:
    """Moses' punctuation, which the model reads, has other quotes."""
    make_marian(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "run", ImportOptions())
    source, target = RunDirectory(tmp_path / "run").load_tokenizers()
    (tmp_path / "terms").write_text("Haus\u2019s\tHaus\u2026\n\u201eder\u201c\tder\n", encoding="utf-8")
    for tokenizer in (source, source.with_tags(("<2en>",))):
        glossary = Glossary.load(tmp_path / "terms", TokenizerPair(tokenizer, target))
        for line in ("das Haus's ist", "das Haus\u2019s ist", "das \u201eHaus\u2019s\u201c"):
            assert [term.text for term in glossary.find(line)] == ["Haus\u2026"]
    assert glossary.count_met(["Haus's", "Haus's"], ["das Haus...", "das Haus"]) == TermCounts(1, 2)
