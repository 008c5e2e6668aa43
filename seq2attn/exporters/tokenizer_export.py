"""Tokenizers of a run as `MarianTokenizer` of `transformers`: a SentencePiece model and a vocabulary for each side.

source.spm target.spm            SentencePiece models with a normalizer
vocab.json target_vocab.json     ids of pieces, of both sides or of one each
"""

import unicodedata
import warnings
from collections.abc import Sequence
from functools import cache
from itertools import filterfalse
from pathlib import Path
from typing import Literal

from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.exporters.model_card import known_languages
from seq2attn.io.files import write_bytes, write_json
from seq2attn.pretrained.family import TOKENIZER_FILE
from seq2attn.pretrained.marian import SOURCE_MODEL, TARGET_MODEL, TARGET_VOCABULARY_FILE, VOCABULARY_FILE
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import NormalizeConfig, is_blank
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizer, SentencePieceTokenizerConfig
from seq2attn.tokenizers.subwords import SubwordTokenizer
from seq2attn.tokenizers.vocabulary import BOS, EOS, SPECIAL_TOKENS

EXPORTED_KINDS = ("bpe", "unigram", "sentencepiece")
SURROGATES = range(0xD800, 0xE000)
LAST_LETTER = 0x2FFFF
"""The last code point with a normal form."""
NORMALIZER_FIELD = b"\x1a"
"""Key of `normalizer_spec` in SentencePiece's `ModelProto`, a message."""


def export_tokenizers(
    experiment: ExperimentConfig, tokenizers: Sequence[Tokenizer], folder: Path, max_length: int
) -> None:
    """Write the files of both tokenizers; `max_length` of a source includes EOS."""
    is_separate = experiment.model.embeddings.tie != "all"
    vocabularies = VOCABULARY_FILE, TARGET_VOCABULARY_FILE if is_separate else VOCABULARY_FILE
    for tokenizer, model, vocabulary in zip(tokenizers, (SOURCE_MODEL, TARGET_MODEL), vocabularies, strict=True):
        write_bytes(folder / model, sentencepiece_model(tokenizer))
        write_json(folder / vocabulary, {token: id for id, token in enumerate(tokenizer.vocabulary.tokens)})
    languages = known_languages(experiment) or (None, None)
    source = tokenizers[0].config
    content = {
        "tokenizer_class": "MarianTokenizer",
        "bos_token": SPECIAL_TOKENS[BOS],  # `generate` begins with it
        "source_lang": languages[0],
        "target_lang": languages[1],
        "separate_vocabs": is_separate,
        "normalize_punctuation": isinstance(source, SentencePieceTokenizerConfig) and source.punctuation is not None,
        "model_max_length": max_length,
    }
    write_json(folder / TOKENIZER_FILE, {key: value for key, value in content.items() if value is not None})


def sentencepiece_model(tokenizer: Tokenizer) -> bytes:
    """The SentencePiece model of a tokenizer, with its normalization."""
    if isinstance(tokenizer, SentencePieceTokenizer):
        return tokenizer.model
    assert isinstance(tokenizer, SubwordTokenizer)
    spec = _normalizer_spec(tokenizer.config.normalization, tokenizer.config.lowercase)
    length, size = b"", len(spec)
    while size >= 0x80:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    # A message that is appended to another in Protocol Buffers' format changes the fields that it has.
    return tokenizer.model + NORMALIZER_FIELD + length + bytes([size]) + spec


@cache
def _normalizer_spec(form: Literal["none", "nfc", "nfkc"], lowercase: bool) -> bytes:
    """SentencePiece's normalizer with the normalization of each letter, composed and decomposed."""
    import sentencepiece

    config = NormalizeConfig(normalization=form, lowercase=lowercase)
    rules = dict[str, str]()
    for letter in (chr(code) for code in range(1, LAST_LETTER) if code not in SURROGATES):
        normal = config.normalize(f"0{letter}0")[1:-1]  # between digits, which compose with no mark
        forms = {letter} if form == "none" else {letter, unicodedata.normalize("NFD", letter)}
        rules |= dict.fromkeys(forms - {normal}, normal)
    sentencepiece.set_min_log_level(2)
    normalizer = sentencepiece.SentencePieceNormalizer(
        norm_map=[*rules.items()], add_dummy_prefix=True, escape_whitespaces=True, remove_extra_whitespaces=True
    )
    return bytes(normalizer.serialized_normalizer_spec())


def check_exported_tokenizer(source: Tokenizer, folder: Path, lines: Sequence[str]) -> None:
    """Raises UserError if the tokenizer in the folder gives other ids than `source`, or text for BOS and EOS."""
    from transformers import AutoTokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about sacremoses, which it does not call
        tokenizer = AutoTokenizer.from_pretrained(folder)
    if text := tokenizer.decode([BOS, EOS], skip_special_tokens=True):
        raise UserError(f"the exported tokenizer writes {text!r} for BOS and EOS")
    for line in filterfalse(is_blank, lines):
        text = line
        if isinstance(source, SentencePieceTokenizer):
            text = " ".join(filter(None, [source.config.tag, source.normalize_punctuation(line)]))
        ours, theirs = [*source.encode(line), EOS], tokenizer(text).input_ids
        if ours != theirs:
            raise UserError(f"the exported tokenizer does not agree on {line!r}: {ours}, and {theirs} by transformers")


def moses_code(source: Tokenizer) -> tuple[list[str], str, str]:
    """Packages, imports and the expression for a line of a program, with Moses' normalization if the model has it."""
    if not isinstance(source, SentencePieceTokenizer) or source.config.punctuation is None:
        return ["sentencepiece"], "", "line"
    code = f"""\
from sacremoses import MosesPunctNormalizer

moses = MosesPunctNormalizer("{source.config.punctuation}", pre_replace_unicode_punct=True)


def normalize(line):
    # Control characters become spaces, as in seq2attn.
    return moses.normalize("".join(" " if category(letter)[0] == "C" else letter for letter in line))

"""
    return ["sentencepiece", "sacremoses"], code, "normalize(line)"
