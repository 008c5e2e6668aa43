"""The data of the explorer's pages, as docs/explorer.schema.json describes them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest

from seq2attn.evaluation.head_selection import AttentionHead
from seq2attn.explorer.explore import Explorer, Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.explorer.recorder import Rule
from seq2attn.explorer.sentence_table import measure_sentences
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig, SearchConfig
from seq2attn.visualization.attention import draw_attention
from tests.support.attention_pages import page_data, random_weights
from tests.support.explorer_pages import MODELS, TEXT, explorer
from tests.support.json_schema import breaches
from tests.support.source_code import ROOT

SCHEMA: dict[str, Any] = json.loads((ROOT / "docs/explorer.schema.json").read_text(encoding="utf-8"))
LENGTHS = LengthsConfig(min_length=2, max_length=6)
SEARCHES: dict[str, SearchConfig] = {
    "greedy": GreedyConfig(lengths=LENGTHS),
    "sample": SampleConfig(num_samples=3, top_k=3, lengths=LENGTHS),
    "groups": BeamConfig(beam_size=4, num_beam_groups=2, no_repeat_ngram_size=1, lengths=LENGTHS),
}


def found(page: ExplorerPage) -> list[str]:
    """What the data of a page have against the schema."""
    return [*breaches(page_data(page.to_html()), SCHEMA, SCHEMA)]


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """The parts of a schema that have properties."""
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from objects(value)
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict) and "type" in schema:
        yield schema


@pytest.mark.parametrize("name", MODELS)
def test_data_of_models(name: str) -> None:
    one = explorer(name)
    one = one if name == "none" else replace(one, alignment_head=AttentionHead(1, "mean"))
    questions = [Question(TEXT, reference="one two"), Question(TEXT, prefix=(5,), masked=(0,)), Question("two " * 40)]
    table = {"name": "test", "rows": [*measure_sentences(one.translator, ["two", ""], [["one", ""]])]}
    assert found(ExplorerPage([one.record(question) for question in questions], table)) == []


@pytest.mark.parametrize("search", SEARCHES)
def test_data_of_searches_and_of_an_ensemble(search: str) -> None:
    translator = replace(explorer("local").translator, search=SEARCHES[search])
    several = replace(translator, members=translator.members * 2)
    assert isinstance(translator.engine, NativeEngine)
    page = ExplorerPage([Explorer("", each).record(Question(TEXT)) for each in (translator, several)])
    assert page.explorations[1]["attention"] is None and found(page) == []


def test_data_of_attention_alone() -> None:
    page = draw_attention([random_weights(), random_weights(encoder=False)])
    assert page is not None and [*breaches(page_data(page.html), SCHEMA, SCHEMA)] == []


def test_the_schema_describes_all_and_allows_nothing_else() -> None:
    """And the check finds what breaks it."""
    assert SCHEMA["$defs"]["rule"]["enum"] == [*get_args(Rule)]
    assert all(part["additionalProperties"] is False for part in objects(SCHEMA))
    one = explorer("transformer").record(Question(TEXT, reference="one two"))
    for part in ("source", "search", "tree", "diagnosis"):
        for broken in ({"more": 1}, dict.fromkeys(one[part])):
            assert found(ExplorerPage([one | {part: one[part] | broken}]))
        assert found(ExplorerPage([one | {part: {}}]))
    for row in ([5], [5, "x"], [5, -1.0, None, "other"], [True, -1.0], [-1, -1.0], [5, -1.0, None, None, None]):
        assert found(ExplorerPage([one | {"considered": {"0": [row]}}]))
    with pytest.raises(KeyError, match="pattern"):
        list(breaches("x", {"pattern": "y"}, SCHEMA))
