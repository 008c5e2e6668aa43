"""Unknown words: each is replaced by the source word with the most attention, of its own line."""

import numpy as np
import pytest
import torch

from seq2attn.errors import UserError
from seq2attn.inference.engines.source_limit import SourceLimit
from seq2attn.inference.minimum_bayes_risk import pairwise_chrf
from seq2attn.inference.reranking import Reranker
from seq2attn.inference.scoring import score_pairs
from seq2attn.inference.source_line import Member, SourceLine
from seq2attn.inference.translator import Translator
from seq2attn.inference.unknown_words import check_replaces_unknown_words, replace_unknown_words
from seq2attn.search.search_config import BeamConfig, LengthsConfig, SampleConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.base import Tokenizer, TokenizerPair
from seq2attn.tokenizers.vocabulary import UNK
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.models import WORDS, model
from tests.support.searches import spread_logits
from tests.support.translators import translator_of

KNOWN = ["north sun , moon star west day"]
LINES = ["Ann sun Bob, moon", "Eve sun Dan, moon", "", "star Zoe", "sun", "Dan"]
SEARCH = BeamConfig(beam_size=3, lengths=LengthsConfig(max_length=6, min_length=3))


def translator(decoder: str, source: Tokenizer, limit: int = 99) -> Translator:
    """An untrained translator with many unknown words."""
    target = WordTokenizerConfig().train([*KNOWN, "west star"])  # with other ids than the source
    net = spread_logits(model("gru", decoder, "multi-head", words=len(source.vocabulary))).float()
    net.target_embedding = spread_logits(model("gru", decoder, "multi-head")).float().target_embedding
    net.output_projection = torch.nn.Linear(net.decoder.dim, WORDS)
    torch.nn.init.normal_(net.output_projection.weight, std=0.3)
    with torch.no_grad():
        net.output_projection.bias[UNK] += 5
    member = Member(net.eval(), TokenizerPair(source, target), SourceLimit(limit, ""))
    return translator_of(member, search=SEARCH, replace_unk=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("decoder", ["luong", "bahdanau-gru", "transformer"])
def test_the_word_has_the_most_attention(decoder: str, tagged: bool, reverse: bool) -> None:
    source = WordTokenizerConfig().train(KNOWN).with_direction(right_to_left=reverse)
    if tagged:
        source = source.with_tags(("<2en>",))
    one = translator(decoder, source)
    lines = [f"<2en> {line}" if tagged and line else line for line in LINES]
    num_unknown, copied = 0, set[str]()
    for line, translation in zip(LINES, one.translate(lines, attention=True), strict=True):
        words = line.replace(",", " ,").split()[:: -1 if reverse else 1]
        for each in (translation, *translation.alternatives):
            unknown = [step for step, token in enumerate(each.tokens) if token == "<unk>"]
            num_unknown += len(unknown)
            assert "<unk>" not in each.text and len(each.text.replace(",", " ,").split()) == len(each.tokens)
        weights = translation.cross_attention
        if weights is not None:
            mean = np.stack([*weights[-1]]).mean(0)[:, tagged : tagged + len(words)]
            tokens = [*translation.tokens]
            for step, token in enumerate(tokens):
                tokens[step] = words[mean[step].argmax()] if token == "<unk>" else token.strip("\uffed")
            assert translation.text.replace(",", " ,").split() == tokens
            copied |= {*tokens}
    assert num_unknown > 10 and len(copied & {"Ann", "Bob", "Eve", "Dan", "Zoe"}) > 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("tagged", [False, True])
def test_parts_of_a_long_line_have_their_own_words(tagged: bool, reverse: bool) -> None:
    source = WordTokenizerConfig().train(KNOWN).with_direction(right_to_left=reverse)
    if tagged:
        source = source.with_tags(("<2en>",))
    one = translator("luong", source, limit=4 + tagged)
    tag, parts = "<2en> " if tagged else "", ("Ann sun Bob.", "Eve moon Dan.")
    whole = one.translate(tag + " ".join(parts))
    assert whole.text == " ".join(one.translate(tag + part).text for part in parts)
    assert whole.segments == tuple(tag + part for part in parts)
    truncated = SEARCH.model_copy(update={"lengths": LengthsConfig(long_inputs="truncate", max_length=6, min_length=3)})
    assert one.translate(f"{tag}Ann sun Bob star Dan", truncated).text == one.translate(f"{tag}Ann sun Bob star").text


@pytest.mark.filterwarnings("ignore")
def test_minimum_bayes_risk_compares_the_texts_with_source_words() -> None:
    one = translator("luong", WordTokenizerConfig().train(KNOWN))
    search = SampleConfig(num_samples=9, lengths=SEARCH.lengths)
    plain = one.translate("Ann sun Bob moon", search)
    texts = [each.text for each in (plain, *plain.alternatives)]
    best = one.translate("Ann sun Bob moon", search.model_copy(update={"mbr": True}))
    for each in (best, *best.alternatives):
        expected = pairwise_chrf([each.text, *texts])[0, 1:].mean()
        assert each.text in texts and each.score == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore")
def test_reranking_scores_the_texts_with_source_words() -> None:
    one = translator("luong", WordTokenizerConfig().train(KNOWN))
    plain = one.translate("Ann sun Bob moon", num_hypotheses=3)
    by_tokens = {each.tokens: each for each in (plain, *plain.alternatives)}
    known = WordTokenizerConfig().train([*LINES, *KNOWN])
    scorer = model("gru", "luong", "multi-head", words=len(known.vocabulary)).float().eval()
    one.rerankers = [Reranker(scorer, (known, known), 1.0, is_backward=True)]
    best = one.translate("Ann sun Bob moon")
    for each in (best, *best.alternatives):
        (scored,) = score_pairs(scorer, (known, known), [(each.text, "Ann sun Bob moon")])
        added = scored.log_prob / len(scored.tokens)
        assert each.score == pytest.approx(by_tokens[each.tokens].score + added, rel=1e-4)


def test_a_translation_may_have_a_tag_of_a_joint_vocabulary() -> None:
    target = WordTokenizerConfig().train(KNOWN).with_tags(("<2en>",))
    one = translator("luong", target)
    one.model.target_embedding = one.model.source_embedding  # of as many entries
    tag, word = target.vocabulary.id("<2en>"), target.vocabulary.id("sun")
    line = SourceLine.encode(one.source, "Ann sun", SEARCH.lengths, SourceLimit(99, ""))
    hypotheses = [[Hypothesis((tag, UNK, word), -1.0, -1.0)]]
    ((found,),) = replace_unknown_words(one.model, (one.source, target), [line], hypotheses)
    assert found.text in ("<2en> Ann sun", "<2en> sun sun")


def test_a_model_that_writes_from_right_to_left_is_refused() -> None:
    one = translator("luong", WordTokenizerConfig().train(KNOWN))
    check_replaces_unknown_words(one.model, (one.source, one.target))
    with pytest.raises(UserError, match="writes from left to right"):
        check_replaces_unknown_words(one.model, (one.source, one.target.with_direction(right_to_left=True)))
