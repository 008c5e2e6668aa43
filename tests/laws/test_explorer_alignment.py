"""The alignment of the other hypotheses than the best is the attention of its forced decoding."""

from dataclasses import replace

import numpy as np
import pytest

from seq2attn.errors import UserError
from seq2attn.evaluation.head_selection import AttentionHead
from seq2attn.explorer.explore import MIN_PERCENT, Explorer, Question
from seq2attn.inference.translator import Translator
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.models import model
from tests.support.searches import spread_logits

NAMES = ["one", "two", "three", "four", "five", "six", "seven"]
TEXT = "two five one seven"


def explorer(decoder: str, head: AttentionHead | None = None) -> Explorer:
    net = spread_logits(model("transformer", decoder, "multi-head"))
    tokenizer = WordTokenizerConfig().train(NAMES)
    search = BeamConfig(beam_size=3, lengths=LengthsConfig(max_length=7, min_length=3))
    return Explorer("ours", Translator.from_model(net, tokenizer, tokenizer, search), head)


@pytest.mark.parametrize("head", [None, AttentionHead(1, 2), AttentionHead(1, "mean", "input")])
@pytest.mark.parametrize("decoder", ["transformer", "luong-feeding", "convolutional", "ssru"])
def test_the_alignment_of_each_hypothesis_is_that_of_forced_decoding(decoder: str, head: AttentionHead | None) -> None:
    one = explorer(decoder, head)
    (weights,) = cross_attention_weights(one.translator.model, [((5,), (5,))])
    assert weights is not None
    if head is not None and not head.exists_in(weights[None]):
        with pytest.raises(UserError, match=f"the model has no {head}; select again"):
            one.explore(Question(TEXT))
        return
    best, *others = one.explore(Question(TEXT))["hypotheses"]
    assert len(others) == 2 and best["alignment"] is None
    for hypothesis in others:
        pair = one.translator.source.encode(TEXT), hypothesis["ids"]
        (weights,) = cross_attention_weights(one.translator.model, [pair])
        assert weights is not None
        expected = {None: weights[-1].mean(0), 2: weights[0, :2][-1], "mean": weights[0].mean(0)}[head and head.head]
        if head is not None and head.step == "input":  # of the step after; none has EOS as its input
            expected = np.array([*expected[1:], 0 * expected[0]])
        percent = np.array(hypothesis["alignment"])
        assert percent == pytest.approx(100 * np.where(percent, expected, 0), abs=0.6)
        assert percent.any() and (100 * expected[percent == 0] < MIN_PERCENT - 0.4).all()
        assert percent[percent > 0].min() >= MIN_PERCENT


def test_a_model_without_attention_and_an_ensemble_have_no_alignment() -> None:
    several = explorer("transformer")
    ensemble = replace(several, translator=replace(several.translator, members=several.translator.members * 2))
    for one in (explorer("fixed-lstm"), ensemble):
        assert [each["alignment"] for each in one.explore(Question(TEXT))["hypotheses"]] == [None] * 3
