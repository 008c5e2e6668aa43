"""What a saved page has of long sentences, and its size."""

import random
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from seq2attn.evaluation.head_selection import AttentionHead
from seq2attn.explorer.explore import MAX_SHORT, Explorer, Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.inference.translator import Translator
from seq2attn.models import ModelConfig, build_model
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.explorer_pages import explorer
from tests.support.searches import spread_logits

LONG = " ".join(["two five one seven"] * 8)
MEGABYTE = 1_000_000
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LAYERS = {"kind": "transformer", "layers": 6, "heads": 8, "ffn_dim": 32}
MODEL = {
    "embeddings": {"dim": 32},
    "encoder": LAYERS,
    "decoder": {**LAYERS, "attention": {"score": {"kind": "multi-head", "heads": 8}}},
}


@pytest.mark.parametrize("head", [None, 2, "mean"])
def test_a_long_sentence_is_saved_with_few_heads(head: int | Literal["mean"] | None) -> None:
    one = explorer("transformer")
    one = one if head is None else replace(one, alignment_head=AttentionHead(1, head))
    whole, few = one.explore(Question(LONG))["attention"], one.record(Question(LONG))["attention"]
    assert [*few] == [*whole] == ["cross", "encoder", "decoder", *(["alignment"] if head else [])]
    cross = np.array(whole["cross"]["weights"])
    for kind in ("cross", "encoder", "decoder"):
        weights = np.array(few[kind]["weights"])[:, 0]
        assert few[kind]["heads"] == ("mean",)
        assert weights == pytest.approx(np.array(whole[kind]["weights"]).mean(1), abs=1)
    if head is not None:
        assert few["alignment"] == whole["alignment"]
        (weights,) = np.array(few["alignment"]["weights"])[:, 0]
        assert weights == pytest.approx(cross[0].mean(0) if head == "mean" else cross[0, head - 1], abs=1)
    assert one.record(Question(LONG), all_heads=True)["attention"] == whole


def test_a_long_sentence_is_saved_with_the_words_considered_along_the_n_best_list() -> None:
    one, question = explorer("transformer"), Question(LONG)
    whole, few = one.explore(question), one.record(question)
    parents, shown = whole["tree"]["parent"], set[str]()
    for hypothesis in whole["hypotheses"]:
        node = hypothesis["leaf"]
        while node := max(0, parents[node]):
            shown.add(str(node))
    assert few["considered"] == {node: rows for node, rows in whole["considered"].items() if node in {"0", *shown}}
    assert len(few["considered"]) < len(whole["considered"])
    other = {"considered", "attention"}
    assert all(few[key] == whole[key] for key in whole if key not in other)


@pytest.mark.parametrize("length", [15, 60])
def test_ten_sentences_are_less_than_a_megabyte(length: int) -> None:
    """Of 6 + 6 layers with 8 heads.

    Untrained attention, which is spread over all tokens, is the worst case: of trained weights most are zero.
    """
    draw = random.Random(0)
    words = ["".join(draw.choices(LETTERS, k=draw.randint(2, 9))) for _ in range(2000)]
    tokenizer = WordTokenizerConfig().train(words)
    torch.manual_seed(0)
    size = len(tokenizer.vocabulary)
    net = spread_logits(build_model(TypeAdapter(ModelConfig).validate_python(MODEL), size, size).eval())
    search = BeamConfig(beam_size=5, lengths=LengthsConfig(min_length=length, max_length=length + 2))
    one = Explorer("", Translator.from_model(net, tokenizer, tokenizer, search), AttentionHead(5, 3))
    found = [one.record(Question(" ".join(draw.sample(words, length)))) for _ in range(10)]
    assert all(len(each["hypotheses"][0]["ids"]) >= length for each in found)
    heads = {kind: len(content["heads"]) for kind, content in found[0]["attention"].items()}
    assert {heads.pop("alignment")} == {1} and {*heads.values()} == {8 if length < MAX_SHORT else 1}
    assert len(ExplorerPage(found).to_html().encode()) < MEGABYTE
