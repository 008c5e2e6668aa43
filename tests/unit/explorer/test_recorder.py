"""The recorder: of a search that begins again, as one that did not fit in memory does, and of a forced beginning."""

from dataclasses import replace

from seq2attn.explorer.explore import Explorer, Question
from seq2attn.explorer.recorder import NUM_CONSIDERED, SearchRecorder
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.translator import Translator
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.explorer_pages import explorer
from tests.support.models import model
from tests.support.searches import spread_logits


def test_a_search_that_begins_again_leaves_nothing_of_the_first() -> None:
    translator = explorer("transformer").translator
    assert isinstance(translator.engine, NativeEngine)
    again, fresh = SearchRecorder(), SearchRecorder()
    for text, record in (("one two three four five six", again), ("two one", again), ("two one", fresh)):
        replace(translator, engine=replace(translator.engine, observer=record)).translate(text)
    assert again.nodes == fresh.nodes and again.considered == fresh.considered


def test_of_what_the_rules_forbid_only_the_most_probable_is_considered() -> None:
    """With the forced word, which alone the search may take; a word to choose from those that it may not is any."""
    tokenizer = WordTokenizerConfig().train([f"word{number}" for number in range(2 * NUM_CONSIDERED)])
    net = spread_logits(model("transformer", "transformer", "multi-head", words=len(tokenizer.vocabulary)))
    search = BeamConfig(beam_size=2, lengths=LengthsConfig(max_length=3))
    one = Explorer("", Translator.from_model(net, tokenizer, tokenizer, search))
    likely = [row[0] for row in one.explore(Question("word1 word2"))["considered"]["0"]]
    forced = next(token for token in range(4, len(tokenizer.vocabulary)) if token not in likely)
    rows = one.explore(Question("word1 word2", prefix=(forced,)))["considered"]["0"]
    assert len(likely) == NUM_CONSIDERED and [row[0] for row in rows] == [*likely, forced]
