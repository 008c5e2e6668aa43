"""Tags: one token each with any tokenizer, and the text after them unchanged."""

import json
from pathlib import Path

import pytest

from seq2attn.errors import RunError, UserError
from seq2attn.inference.engines.source_limit import SourceLimit
from seq2attn.inference.source_line import SourceLine
from seq2attn.search.search_config import LengthsConfig
from seq2attn.tokenizers.base import Tokenizer, TokenizerPair, add_tag
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizerConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig, UnigramTokenizerConfig
from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.tokenizers.tokenizer_config import TokenizerConfig, load_tokenizer
from seq2attn.tokenizers.words import CharacterTokenizerConfig, WordTokenizerConfig
from tests.support.marian import make_vocabulary

LINES = ["the red boat", "a green lantern, by the river", "boats and rivers"]
CONFIGS: dict[str, TokenizerConfig] = {
    "words": WordTokenizerConfig(),
    "whitespace": WordTokenizerConfig(pre_tokenizer="whitespace"),
    "characters": CharacterTokenizerConfig(),
    "bpe": BPETokenizerConfig(vocab_size=300, dropout=0.5),
    "unigram": UnigramTokenizerConfig(vocab_size=300, lowercase=True),
}
PLAIN: dict[str, Tokenizer] = {name: config.train(LINES) for name, config in CONFIGS.items()}
TAGGED = {name: plain.with_tags(("<2en>", "<News.1>"), required=True) for name, plain in PLAIN.items()}


@pytest.fixture(params=CONFIGS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tokenizer(name: str) -> Tokenizer:
    return TAGGED[name]


@pytest.fixture
def plain(name: str) -> Tokenizer:
    return PLAIN[name]


def test_tags_are_the_last_entries_of_the_vocabulary(tokenizer: Tokenizer, plain: Tokenizer) -> None:
    assert tokenizer.vocabulary.tokens == (*plain.vocabulary.tokens, "<2en>", "<News.1>")
    assert tokenizer.is_stochastic == plain.is_stochastic
    for line in LINES:
        for tag, id in (("2en", len(plain.vocabulary)), ("News.1", len(plain.vocabulary) + 1)):
            assert tokenizer.encode(add_tag(line, tag)) == [id, *plain.encode(line)]
        assert tokenizer.encode(line) == plain.encode(line)
        assert tokenizer.encode(f"<2fr> {line}") == plain.encode(f"<2fr> {line}")
    mixed = [LINES[0], add_tag(LINES[1], "2en"), add_tag(LINES[2], "News.1")]
    without_tags = [
        ids[1:] if line[0] == "<" else ids for line, ids in zip(mixed, tokenizer.sample(mixed, 3), strict=True)
    ]
    assert without_tags == plain.sample(LINES, 3)
    assert tokenizer.sample([], 1) == []


def test_a_tag_is_a_word(tokenizer: Tokenizer, plain: Tokenizer) -> None:
    line = add_tag(LINES[1], "2en")
    ids = tokenizer.encode(line)
    assert tokenizer.decode(ids) == line and tokenizer.convert_ids_to_tokens(ids)[0] == "<2en>"
    tagged = TokenizedText.from_ids(tokenizer, [*ids, 2])
    rest = TokenizedText.from_ids(plain, [*ids[1:], 2])
    assert tagged.words == ("<2en>", *rest.words)
    assert tagged.word_ids == (0, *(number + 1 for number in rest.word_ids))


def test_it_is_saved_and_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.tags == tokenizer.tags and loaded.requires_tag
    assert loaded.vocabulary == tokenizer.vocabulary and loaded.is_stochastic == tokenizer.is_stochastic
    line = add_tag(LINES[0], "News.1")
    assert loaded.encode(line) == tokenizer.encode(line)
    (tmp_path / "tags.json").write_text(json.dumps({"tags": ["other"], "required": True}))
    with pytest.raises(RunError, match="does not list tags"):
        load_tokenizer(tmp_path)


def test_tags_in_the_vocabulary_of_the_text_stay_where_they_are() -> None:
    trained = WordTokenizerConfig(pre_tokenizer="whitespace").train(["<2en> a b"])
    tokenizer = trained.with_tags(("<2en>",))
    assert tokenizer.vocabulary == trained.vocabulary
    assert tokenizer.encode("<2en> a") == trained.encode("<2en> a")


def test_a_tag_within_a_line_is_text(tokenizer: Tokenizer, plain: Tokenizer) -> None:
    for line in ("the <2en> boat", "the boat <2en>"):
        assert tokenizer.encode(line) == plain.encode(line)


def test_an_empty_line_stays_empty() -> None:
    assert [add_tag(line, "2en") for line in ("", " \t", "a")] == ["", " \t", "<2en> a"]
    assert add_tag("a", None) == "a"


def test_unknown_tags_are_errors() -> None:
    tokenizer = TAGGED["words"]
    tokenizer.check_tag("2en")
    with pytest.raises(UserError, match=r"does not know the tag `2fr`: its tags are `2en`, `News\.1`"):
        tokenizer.check_tag("2fr")
    with pytest.raises(UserError, match="trained without tags"):
        PLAIN["words"].check_tag("2en")


@pytest.mark.parametrize("max_tokens", [5, 4, 3])
def test_each_segment_of_a_long_line_has_the_tag(max_tokens: int) -> None:
    line = "One two three. Four five six. Seven eight."
    tokenizer = WordTokenizerConfig().train([line]).with_tags(("<2en>",))
    tag = tokenizer.vocabulary.id("<2en>")
    limit = SourceLimit(max_tokens, "it is a test")
    source = SourceLine.encode(tokenizer, add_tag(line, "2en"), LengthsConfig(), limit)
    assert all(text.startswith("<2en> ") for text in source.segment_texts)
    assert all(ids[0] == tag and len(ids) <= max_tokens for ids in source.segments)
    assert [id for ids in source.segments for id in ids[1:]] == tokenizer.encode(line)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("before", [{"tag": ">>fra<<"}, {"prefix": "Das rote Boot,"}, {}])
def test_tags_before_the_lines_of_a_given_model(tmp_path: Path, before: dict[str, str], reverse: bool) -> None:
    """The tag is before the language or the task, in each segment too."""
    make_vocabulary(tmp_path, tags=[">>fra<<", ">>eng<<"])
    files = {"path": tmp_path / "source.spm", "vocabulary": tmp_path / "vocab.json"}
    plain = SentencePieceTokenizerConfig.model_validate({"kind": "sentencepiece", **files, **before}).train([])
    forward = plain.with_tags(("<2en>",))
    assert forward.line_prefix == plain.line_prefix and bool(before) == bool(plain.line_prefix)
    tokenizer = forward.with_direction(right_to_left=reverse)
    line = "Das rote Haus ist alt. Das Boot ist rot und neu. Wo ist das rote Boot?"
    for tagged in (line, add_tag(line, "2en")):
        source = SourceLine.encode(tokenizer, tagged, LengthsConfig(), SourceLimit(16, "it is a test"))
        assert len(source.segments) > 3 and max(map(len, source.segments)) <= 16
        assert source.segments == tuple(tuple(tokenizer.encode(text)) for text in source.texts)


def test_languages_are_those_of_the_given_model(tmp_path: Path) -> None:
    make_vocabulary(tmp_path, tags=[">>fra<<", ">>eng<<"])
    files = {"path": tmp_path / "source.spm", "vocabulary": tmp_path / "vocab.json", "tag": ">>eng<<"}
    plain = SentencePieceTokenizerConfig.model_validate({"kind": "sentencepiece", **files}).train([])
    tokenizer = plain.with_tags(("<2en>",), required=True)
    french, target = TokenizerPair(tokenizer, TAGGED["words"]).translate_into("fra")
    assert french.requires_tag and target is TAGGED["words"]
    tags = [tokenizer.vocabulary.id(tag) for tag in ("<2en>", ">>fra<<")]
    assert french.encode("<2en> Das Haus") == [*tags, *plain.encode("Das Haus")[1:]]
    assert tokenizer.encode("<2en> Das Haus")[1:] == plain.encode("Das Haus")
    assert french.line_prefix == (tags[1],) and french.config == plain.config.model_copy(update={"tag": ">>fra<<"})
