"""Translators of random weights."""

from collections.abc import Sequence

from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.engines.source_limit import SourceLimit
from seq2attn.inference.source_line import Member
from seq2attn.inference.translator import Translator
from seq2attn.models.ensemble import Ensemble
from seq2attn.search.search_config import BeamConfig, LengthsConfig, SearchConfig
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.models import model, shuffle_weights

WORDS = ["a", "few", "words", "of", "which", "there", "are", "not", "many"]
SEARCH = BeamConfig(beam_size=3, lengths=LengthsConfig(max_length=12))
DECODERS = {"fixed": "fixed-gru", "luong": "luong", "transformer": "transformer"}


def translator_of(*members: Member, search: SearchConfig = SEARCH, replace_unk: bool = False) -> Translator:
    """A translator of one model, or of an ensemble."""
    models = tuple(member.model for member in members)
    engine = NativeEngine(models[0] if len(models) == 1 else Ensemble(models))
    return Translator(members, search, engine, max_batch_tokens=8192, replace_unk=replace_unk)


def translator(kind: str = "luong", words: Sequence[str] = WORDS, limit: SourceLimit | None = None) -> Translator:
    """An untrained translator, whose translations differ between lines."""
    source, target = (WordTokenizerConfig().train([*words, *more]) for more in ((), words[3:]))  # with other ids
    net = shuffle_weights(model("gru", DECODERS[kind], "multi-head", words=len(target.vocabulary)))
    return translator_of(Member(net.float(), TokenizerPair(source, target), limit))
