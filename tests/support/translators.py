"""Translators of random weights."""

from collections.abc import Sequence

from seq2attn.inference.translator import Translator
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.models import model, shuffle_weights

WORDS = ["a", "few", "words", "of", "which", "there", "are", "not", "many"]
SEARCH = BeamConfig(beam_size=3, lengths=LengthsConfig(max_length=12))
DECODERS = {"fixed": "fixed-gru", "luong": "luong", "transformer": "transformer"}


def translator(kind: str = "luong", words: Sequence[str] = WORDS) -> Translator:
    """An untrained translator, whose translations differ between lines."""
    source, target = (WordTokenizerConfig().train([*words, *more]) for more in ((), words[3:]))  # with other ids
    net = shuffle_weights(model("gru", DECODERS[kind], "multi-head", words=len(target.vocabulary)))
    return Translator(net.float(), source, target, SEARCH)
