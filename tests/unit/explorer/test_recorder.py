"""The recorder of a search that begins again, as one that did not fit in memory does."""

from dataclasses import replace

from seq2attn.explorer.recorder import SearchRecorder
from seq2attn.inference.engines.native import NativeEngine
from tests.support.explorer_pages import explorer


def test_a_search_that_begins_again_leaves_nothing_of_the_first() -> None:
    translator = explorer("transformer").translator
    assert isinstance(translator.engine, NativeEngine)
    again, fresh = SearchRecorder(), SearchRecorder()
    for text, record in (("one two three four five six", again), ("two one", again), ("two one", fresh)):
        replace(translator, engine=replace(translator.engine, observer=record)).translate(text)
    assert again.nodes == fresh.nodes and again.considered == fresh.considered
