"""Laws of ensembles: one model, equal models, models of any kind, and different source tokenizers."""

import itertools

import pytest
import torch

from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.engines.source_limit import SourceLimit
from seq2attn.inference.source_line import Member
from seq2attn.models.ensemble import Ensemble
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.words import CharacterTokenizerConfig, WordTokenizerConfig
from tests.support.marks import slow_but
from tests.support.models import EVERY_DECODER, REPRESENTATIVE, WORDS, model
from tests.support.translators import translator_of

pytestmark = pytest.mark.filterwarnings("ignore:the model does not know", "ignore:.*too many tokens")
LENGTHS = LengthsConfig(max_length=9)
SEARCHES = GreedyConfig(lengths=LENGTHS), BeamConfig(beam_size=3, lengths=LENGTHS)
SOURCES = [[4, 5, 6], [9], [7, 7, 8, 10, 4]]


def spread(net):
    """The model in single precision with large output weights, so that no two hypotheses tie."""
    torch.nn.init.normal_(net.output_projection.weight, std=2.0)
    return net.float()


def log_mean(token_log_probs):
    """Log-probability of a sentence by the mean of the probabilities of each token [models, tokens]."""
    return torch.tensor(token_log_probs).exp().mean(0).log().sum().item()


def translate(model, search):
    return NativeEngine(model).translate(SOURCES, search, budget=100)


@pytest.mark.parametrize("decoder", slow_but(REPRESENTATIVE, EVERY_DECODER))
def test_one_model_and_equal_models_are_the_model(decoder):
    net = spread(model("gru", decoder))
    for search, size in itertools.product(SEARCHES, (1, 2)):
        for one, other in zip(translate(net, search), translate(Ensemble((net,) * size), search), strict=True):
            assert [each.tokens for each in one] == [each.tokens for each in other]
            assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-5)


def test_the_probability_of_a_token_is_the_mean_of_those_of_all_models():
    nets = tuple(spread(model("gru", decoder)) for decoder in EVERY_DECODER)
    for search in SEARCHES:
        ranked = zip(SOURCES, translate(Ensemble(nets), search), strict=True)
        found = [(ids, one) for ids, hypotheses in ranked for one in hypotheses]
        pairs, log_probs = [(ids, one.tokens) for ids, one in found], [one.log_prob for _, one in found]
        each = zip(*(NativeEngine(net).token_log_probs(pairs, budget=100) for net in nets), strict=True)
        assert [log_mean(part) for part in each] == pytest.approx(log_probs, abs=1e-4)
        together = NativeEngine(Ensemble(nets)).token_log_probs(pairs, budget=100)
        assert [sum(part) for part in together] == pytest.approx(log_probs, abs=1e-4)


@pytest.mark.parametrize(("line", "limits"), [("a b c d e f g", (9, 5)), ("aaaaaaaaaa b c d e f", (4, 11))])
def test_each_model_reads_a_line_by_its_own_tokenizer(line, limits):
    target = WordTokenizerConfig().train("abcdefg")
    words = WordTokenizerConfig().train([*"bcdefg", line.split()[0]])
    members = []
    for source, limit in zip((words, CharacterTokenizerConfig().train(["gfed cba"])), limits, strict=True):
        net = spread(model("gru", "luong", words=WORDS + len(members)))
        net.target_embedding = spread(model("gru", "luong")).target_embedding
        net.output_projection = torch.nn.Linear(16, WORDS)
        members.append(Member(net, TokenizerPair(source, target), SourceLimit(limit, "")))
    assert [len(one.tokenizers.source.vocabulary) for one in members] == [WORDS, WORDS + 1]
    ensemble = translator_of(*members, search=SEARCHES[1])
    split = ensemble.translate(line)
    parts = [ensemble.translate(part) for part in split.segments]
    for limit, member in zip(limits, members, strict=True):
        assert all(len(member.tokenizers.source.encode(segment)) <= limit for segment in split.segments)
    assert "".join(split.segments).replace(" ", "") == line.replace(" ", "")
    assert split.log_prob == pytest.approx(sum(part.log_prob for part in parts), abs=1e-4)
    for text, translation in (*zip(split.segments, parts, strict=True), ("gab", ensemble.translate("gab"))):
        pairs = [[(each.tokenizers.source.encode(text), target.encode(translation.text))] for each in members]
        each = [
            NativeEngine(member.model).token_log_probs(pair, budget=99)[0]
            for member, pair in zip(members, pairs, strict=True)
        ]
        assert translation.log_prob == pytest.approx(log_mean(each), abs=1e-4)


@pytest.mark.parametrize("limits", [(3, 10), (4, 7), (9, 3), (3, 99), (99, 99)])
@pytest.mark.parametrize("long_inputs", ["split", "truncate"])
def test_no_model_reads_more_than_it_allows(limits, long_inputs):
    """Each part has the tag; if a line is truncated, its beginning is the only one."""
    line = "<2x> aaaaaaaa b c d e f. aa b c ddddd e"
    tokenizers = WordTokenizerConfig().train([line]), CharacterTokenizerConfig().train([line])
    net, sources = model("gru", "luong"), [one.with_tags(("<2x>",)) for one in tokenizers]
    for order in ([0, 1], [1, 0]):
        members = [
            Member(net, TokenizerPair(sources[side], tokenizers[0]), SourceLimit(limits[side], "")) for side in order
        ]
        encoded = translator_of(*members).encode(line, LengthsConfig(long_inputs=long_inputs))
        for text, ids in zip(encoded.texts, encoded.segments, strict=True):
            assert text.startswith("<2x> ") and len(ids) <= limits[order[0]]
            assert all(len(sources[side].encode(text)) <= limits[side] for side in order)
        assert (encoded.warning is None) == (encoded.texts == (line,)) == (limits == (99, 99))
        if long_inputs == "truncate":
            assert len(encoded.texts) == 1 and line.startswith(encoded.texts[0])
        else:
            texts = "".join(text.removeprefix("<2x>") for text in encoded.texts)
            assert texts.replace(" ", "") == line.removeprefix("<2x>").replace(" ", "")
