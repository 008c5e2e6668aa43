"""A given SentencePiece model segments as `transformers` does, with the punctuation of Moses."""

import json
from pathlib import Path

import pytest
from sacremoses import MosesPunctNormalizer
from transformers import MarianTokenizer

from seq2attn.config.load import load
from seq2attn.errors import ConfigError, DataError, RunError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.inference.engines.source_limit import SourceLimit
from seq2attn.inference.source_line import SourceLine
from seq2attn.search.search_config import LengthsConfig
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizer, SentencePieceTokenizerConfig
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig, load_tokenizer
from seq2attn.tokenizers.vocabulary import CONTROL_IDS, UNK
from tests.support.marian import SOURCE, make_vocabulary

LINES = [*SOURCE, "  Das\tHaus  ", "xyz 日本 Haus", "<pad> </s> <unk>", "Ｗｏ ﬁ", "", " "]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("marian")
    make_vocabulary(path, tags=[">>fra<<", ">>eng<<"])
    return path


def tokenizer(folder: Path, **options: object) -> SentencePieceTokenizer:
    files = {"path": folder / "source.spm", "vocabulary": folder / "vocab.json"}
    return SentencePieceTokenizerConfig.model_validate({"kind": "sentencepiece", **files, **options}).train([])


def test_pieces_are_those_of_marian(folder: Path, tmp_path: Path) -> None:
    theirs = MarianTokenizer(*(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")))
    ours = tokenizer(folder)
    ours.save(tmp_path / "source")
    loaded = load_tokenizer(tmp_path / "source")
    for line in LINES[:5] + LINES[6:]:
        pieces = theirs.tokenize(line)
        expected = [piece if piece in theirs.encoder else "<unk>" for piece in pieces]
        assert ours.convert_ids_to_tokens(ours.encode(line)) == expected
        assert loaded.encode(line) == ours.encode(line)
        assert ours.decode(ours.encode(line)) == theirs.decode(theirs(line).input_ids[:-1]).replace(
            " <unk> ", " <unk> "
        )
    assert not {*CONTROL_IDS} & {*ours.encode("<pad> </s> <s>")}  # text, and no special tokens


def test_a_path_that_is_not_valid_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("run_dir: r\ntokenizer: {joint: {kind: words}}\n")
    override = "tokenizer.joint={kind: sentencepiece, path: ~nobody-here/x}"
    with pytest.raises(ConfigError, match=r"<command line>:1:\d+: `tokenizer.joint.path`: is not a valid path"):
        load(tmp_path / "my.yaml", ExperimentConfig, [override])


def test_pieces_of_the_other_side_are_text(folder: Path) -> None:
    """A joint vocabulary has pieces that the model of the target lacks."""
    theirs = MarianTokenizer.from_pretrained(folder)
    ours, target = tokenizer(folder), tokenizer(folder, path=folder / "target.spm")
    for line in SOURCE:
        assert target.decode(ours.encode(line)) == theirs.decode(theirs(line).input_ids[:-1])


def test_words_and_unknown_characters(folder: Path) -> None:
    ours = tokenizer(folder)
    ids = ours.encode("Das 日 Haus")
    assert UNK in ids and ours.decode(ids) == "Das <unk> Haus"
    words = ours.word_ids(ids)
    assert words[0] == 0 and words[ids.index(UNK)] == 1 and words[-1] == 2


def test_punctuation_is_that_of_moses(folder: Path) -> None:
    ours = tokenizer(folder, punctuation="de")
    moses = MosesPunctNormalizer("de", pre_replace_unicode_punct=True)
    for line in ("„Wo?“, fragte er — „hier“ …", "１２ Ｂoote，rot", "a\u200bb"):
        assert ours.encode(line) == tokenizer(folder).encode(moses.normalize(line.replace("\u200b", " ")))
    assert ours.encode(LINES[1]) != tokenizer(folder).encode(LINES[1])


def test_tags_of_languages(folder: Path) -> None:
    plain, tagged = tokenizer(folder), tokenizer(folder, tag=">>fra<<")
    fra, eng = map(plain.vocabulary.id, (">>fra<<", ">>eng<<"))
    ids = plain.encode("Das Haus")
    assert plain.encode(">>fra<< Das Haus") == tagged.encode("Das Haus") == [fra, *ids]
    assert tagged.encode(">>eng<< Das Haus") == [eng, *ids]
    assert tagged.decode(tagged.encode("Das Haus")) == "Das Haus"
    assert tagged.encode(" ") == []
    lengths, limit = LengthsConfig(), SourceLimit(12, "")
    for line in (tagged, "Das Haus. " * 3), (plain, ">>fra<< " + "Das Haus. " * 3), (tagged, "Haus " * 12):
        segments = SourceLine.encode(*line, lengths, limit).segments
        assert len(segments) > 2 and all(one.count(fra) == 1 and one[0] == fra for one in segments)
    assert plain.split_tag(">>xxx<< Das") == ("", ">>xxx<< Das")
    with pytest.raises(UserError, match="no tag `>>xxx<<`"):
        tokenizer(folder, tag=">>xxx<<")


def test_text_before_each_line(folder: Path) -> None:
    """Its pieces are silent at the beginning only."""
    plain, prefixed = tokenizer(folder), tokenizer(folder, prefix="Das rote Boot,")
    ids = prefixed.encode("Das rote Haus")
    assert ids == plain.encode("Das rote Boot, Das rote Haus") and prefixed.line_prefix == tuple(
        ids[: -len(plain.encode("Das rote Haus"))]
    )
    assert prefixed.decode(ids) == prefixed.decode(ids[len(prefixed.line_prefix) :]) == "Das rote Haus"
    words = prefixed.word_ids(ids)
    assert words == [-1] * len(prefixed.line_prefix) + plain.word_ids(plain.encode("Das rote Haus"))
    assert prefixed.encode(" ") == [] and tokenizer(folder, prefix="").encode("Das") == plain.encode("Das")
    with pytest.raises(UserError, match="does not know all tokens of the `prefix` 'Ω'"):
        tokenizer(folder, prefix="Ω")


def test_text_before_each_line_is_after_the_tag_of_any_language(folder: Path) -> None:
    plain, prefixed = tokenizer(folder), tokenizer(folder, prefix="Das rote Boot,", tag=">>fra<<")
    for language in ("fra", "eng"):
        tagged, selected = f">>{language}<< Das Haus", prefixed.with_language(language)
        ids = plain.encode(f">>{language}<< Das rote Boot, Das Haus")
        assert selected.encode("Das Haus") == selected.encode(tagged) == prefixed.encode(tagged) == ids
        assert selected.tagged_prefix("") == prefixed.tagged_prefix(f">>{language}<<") == selected.line_prefix
        assert selected.decode(ids) == "Das Haus"
    length = len(prefixed.line_prefix) - 1
    assert prefixed.decode(ids) == plain.decode(plain.encode(tagged))  # with a tag that is not its own
    first, *words = plain.word_ids(plain.encode(tagged))
    assert prefixed.word_ids(ids) == [first, *[-1] * length, *words]


def test_files_that_do_not_fit(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"joint: {{kind: sentencepiece, path: {folder}/source.spm}}")
    pieces = load(tmp_path / "c.yaml", TokenizersConfig).per_side[0].train([])
    assert "<unk>" not in pieces.convert_ids_to_tokens(pieces.encode(SOURCE[0]))
    config = pieces.config.model_copy(update={"digest": "0"})
    with pytest.raises(DataError, match="have changed since `digest` was written; remove `digest`"):
        config.train([])
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    for name, content, message in [
        ("string", ids | {"</s>": "0"}, "the id of `</s>` is '0', not a number"),
        ("twice", ids | {"<pad>": 1}, "has the id 1, expected 2"),
        ("gap", ids | {"<pad>": 999}, "`<pad>` has the id 999, expected"),
    ]:
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
        with pytest.raises(DataError, match=message):
            tokenizer(folder, vocabulary=tmp_path / f"{name}.json")
    (tmp_path / "no.spm").write_bytes(b"version 1")
    with pytest.raises(RunError, match=r"no\.spm: is not a SentencePiece model"):
        tokenizer(folder, path=tmp_path / "no.spm")
    pieces.save(tmp_path / "source")
    (tmp_path / "source" / "sentencepiece.model").write_bytes(b"")
    with pytest.raises(RunError):
        load_tokenizer(tmp_path / "source")
