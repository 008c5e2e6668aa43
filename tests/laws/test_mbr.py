"""Laws of minimum Bayes risk decoding: compared with sacreBLEU's chrF of each pair."""

import math
import random

import pytest
from sacrebleu.metrics.chrf import CHRF

from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.minimum_bayes_risk import pairwise_chrf, rank_by_expected_chrf
from seq2attn.inference.translator import Member
from seq2attn.search.search_config import BeamConfig, LengthsConfig, SampleConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.models import model
from tests.support.translators import translator_of

LENGTHS = LengthsConfig(max_length=6)
SAMPLE = SampleConfig(num_samples=12, mbr=True, lengths=LENGTHS)
BEAM = BeamConfig(beam_size=6, mbr=True, lengths=LENGTHS)


def chrf(hypothesis, reference):
    return CHRF().sentence_score(hypothesis, [reference]).score


@pytest.mark.parametrize("seed", range(3))
def test_chrf_is_that_of_sacrebleu(seed):
    rng = random.Random(seed)
    texts = ["".join(rng.choices("ab c\u00e4\u4e2d", k=rng.randrange(15))) for _ in range(12)] + [
        "",
        " ",
        "a",
        "aaaaaaa",
    ]
    expected = [[chrf(one, other) for other in texts] for one in texts]
    assert pairwise_chrf(texts).tolist() == [pytest.approx(row, abs=1e-9) for row in expected]


@pytest.mark.parametrize("search", [SAMPLE, BEAM], ids=lambda search: search.kind)
def test_the_order_is_that_of_the_expected_chrf(search):
    texts = ["the cat", "a cat", "the cat", "the dog sat", "", "cats"]
    found = [Hypothesis((number,), 0.0, -number / 3) for number in range(len(texts))]
    ranked = rank_by_expected_chrf(found, search, lambda one: texts[one.tokens[0]])
    weights = [1.0 if search is SAMPLE else math.exp(one.log_prob) for one in found]
    assert [one.tokens[0] for one in ranked if one.tokens[0] in (0, 2)] == [0]  # the first of equal texts
    for one in ranked:
        similarity = [chrf(texts[one.tokens[0]], text) for text in texts]
        expected = sum(w * s for w, s in zip(weights, similarity, strict=True)) / sum(weights)
        assert one.score == pytest.approx(expected) and one.log_prob == found[one.tokens[0]].log_prob
    assert len(ranked) == 5 and [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)


@pytest.mark.filterwarnings("ignore:translations have the maximum length")
@pytest.mark.parametrize("search", [SAMPLE, BEAM], ids=lambda search: search.kind)
def test_a_line_has_the_best_of_what_the_search_finds(search):
    words = WordTokenizerConfig().train(["north northern sun sunny moon moons star"])

    def decode(one):
        return words.decode(one.tokens)

    translator = translator_of(Member(model("gru", "luong").float(), TokenizerPair(words, words)), search=search)
    lines = ["north star", "", "sun moon star northern sunny", "star"]
    plain = search.model_copy(update={"mbr": False})
    found = NativeEngine(translator.model).translate([words.encode(line) for line in lines], plain, budget=8192)
    for line, translation, hypotheses in zip(lines, translator.translate(lines), found, strict=True):
        best, *others = rank_by_expected_chrf(hypotheses, search, decode)
        assert (translation.text, translation.score) == (decode(best), best.score)
        assert [one.text for one in translation.alternatives] == [*map(decode, others)]
        assert bool(translation.text) <= bool(line)
    assert [*map(decode, found[2])] != [*map(decode, rank_by_expected_chrf(found[2], search, decode))]
