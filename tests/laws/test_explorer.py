"""The explorer shows the search that took place, and numbers that forced decoding confirms."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from seq2attn.data.collate import collate_source
from seq2attn.errors import UserError
from seq2attn.explorer.explore import Explorer, Question
from seq2attn.explorer.importance import gradient_times_input
from seq2attn.inference.glossary import Glossary, Term
from seq2attn.inference.translator import Translator
from seq2attn.models import Seq2Seq
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig, SearchConfig
from seq2attn.tokenizers.vocabulary import EOS, UNK
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.marks import covering, slow_but
from tests.support.models import REPRESENTATIVE, model
from tests.support.searches import spread_logits

NAMES = ["one", "two", "three", "four", "five", "six", "seven"]
TEXT = "two five one seven"
LENGTHS = LengthsConfig(max_length=7, min_length=3)
SEARCHES: dict[str, SearchConfig] = {
    "greedy": GreedyConfig(lengths=LENGTHS),
    "beam": BeamConfig(beam_size=3, lengths=LENGTHS),
    "wide": BeamConfig(beam_size=6, patience=None, lengths=LENGTHS),
    "ngrams": BeamConfig(beam_size=3, no_repeat_ngram_size=1, lengths=LENGTHS),
    "coverage": BeamConfig(beam_size=3, patience=None, coverage_penalty=2.0, lengths=LengthsConfig(max_length=3)),
    "diverse": BeamConfig(beam_size=4, num_beam_groups=2, lengths=LENGTHS),
    "sample": SampleConfig(num_samples=3, top_k=3, temperature=2.0, lengths=LENGTHS),
}


def explorer(search: str = "beam", decoder: str = "luong-feeding", encoder: str = "gru") -> Explorer:
    net = spread_logits(model(encoder, decoder, "multi-head"))
    tokenizer = WordTokenizerConfig().train(NAMES)
    return Explorer("ours", Translator.from_model(net, tokenizer, tokenizer, SEARCHES[search]))


def path(tree: dict[str, Any], node: int) -> list[int]:
    return [] if node <= 0 else [*path(tree, tree["parent"][node]), tree["token"][node]]


def forced_log_probs(one: Explorer, paths: Sequence[list[int]]) -> list[list[float]]:
    """Log-probabilities of the tokens of each path, of which the last may be EOS."""
    source = one.translator.source.encode(TEXT)
    pairs = [(source, tokens[:-1] if tokens[-1:] == [EOS] else tokens) for tokens in paths]
    found = one.translator.engine.token_log_probs(pairs, budget=10_000)
    return [log_probs[: len(tokens)] for log_probs, tokens in zip(found, paths, strict=True)]


def final_score(one: Explorer, tokens: Sequence[int], total: float) -> float:
    """The score of a hypothesis with EOS, from its log-probability and, for a coverage penalty, its attention."""
    search = one.translator.search
    score = total / search.lengths.build_penalty().penalty(torch.tensor(len(tokens))).item()
    if not search.coverage_penalty:
        return score
    pair = one.translator.source.encode(TEXT), list(tokens[:-1])
    (weights,) = cross_attention_weights(one.translator.model, [pair])
    assert weights is not None
    coverage = weights[-1].mean(0).sum(0)[:-1]  # Wu et al. 2016, eq. 14, without EOS
    return score + search.coverage_penalty * float(np.log(np.minimum(coverage, 1)).sum())


PAIRS = [pair for pair in itertools.product(SEARCHES, REPRESENTATIVE) if pair != ("coverage", "fixed-lstm")]


@pytest.mark.parametrize(("search", "decoder"), covering(PAIRS))  # without attention there is no coverage
def test_the_tree_is_that_of_the_search(search: str, decoder: str) -> None:
    one = explorer(search, decoder)
    found = one.explore(Question(TEXT))
    tree, translation = found["tree"], one.translator.translate(TEXT)
    expected = [translation, *translation.alternatives]
    assert [hypothesis["text"] for hypothesis in found["hypotheses"]] == [each.text for each in expected]
    for hypothesis, each in zip(found["hypotheses"], expected, strict=True):
        leaf = hypothesis["leaf"]
        assert path(tree, leaf) == [*hypothesis["ids"], EOS] and tree["fate"][leaf] == "kept"
        assert tree["score"][leaf] == hypothesis["score"] == pytest.approx(each.score, abs=1e-3)
    kept = {(*path(tree, node),) for node, fate in enumerate(tree["fate"]) if fate == "kept"}
    assert len(kept) == len({(*hypothesis["ids"],) for hypothesis in found["hypotheses"]})
    paths = [path(tree, node) for node in range(1, len(tree["step"]))]
    for node, (tokens, log_probs) in enumerate(zip(paths, forced_log_probs(one, paths), strict=True), start=1):
        assert tree["total"][node] == pytest.approx(sum(log_probs), abs=2e-3)
        assert tree["log_prob"][node] == pytest.approx(log_probs[-1], abs=1e-3)
        assert tree["step"][node] == len(tokens)
        if tree["score"][node] is not None:
            expected_score = final_score(one, tokens, tree["total"][node])
            assert tree["score"][node] == pytest.approx(expected_score, abs=2e-3)


@pytest.mark.parametrize("search", SEARCHES)
def test_candidates_are_dropped_for_the_reason_that_is_given(search: str) -> None:
    tree = explorer(search).explore(Question(TEXT))["tree"]
    parents = {*tree["parent"]}
    for node in range(1, len(tree["step"])):
        fate, tokens = tree["fate"][node], path(tree, node)
        same = [n for n in range(1, len(tree["step"])) if tree["step"][n] == tree["step"][node]]
        assert (fate == "live") == (node in parents)
        if fate == "beam" and search in ("beam", "wide", "ngrams"):
            live = [tree["total"][n] for n in same if tree["fate"][n] in ("live", "stopped")]
            assert tree["total"][node] <= min(live) and tree["total"][tree["by"][node]] == min(live)
        elif fate == "worse":
            assert tree["score"][node] <= tree["score"][tree["by"][node]]
        elif fate == "stopped":
            assert node not in parents and tokens[-1] != EOS
        elif fate == "min_length":
            assert tokens[-1] == EOS and len(tokens) <= LENGTHS.min_length
        elif fate == "max_length":
            assert tokens[-1] != EOS and len(tokens) == SEARCHES[search].lengths.max_length + 1
        elif fate == "ngram":
            assert search == "ngrams" and tokens[-1] in tokens[:-1]
        elif fate == "special":
            assert tokens[-1] in (0, 1)
        assert (tree["rank"][node] == 0) == (fate in ("min_length", "max_length", "ngram", "special", "prefix"))


@pytest.mark.parametrize("search", slow_but(["beam", "sample"], SEARCHES))
def test_words_considered_are_the_most_probable(search: str) -> None:
    one = explorer(search, "transformer")
    found = one.explore(Question(TEXT))
    considered = [(path(found["tree"], int(node)), words) for node, words in found["considered"].items()]
    forced = iter(forced_log_probs(one, [[*tokens, row[0]] for tokens, words in considered for row in words]))
    for tokens, words in considered:
        words = [row if len(row) == 4 else [*row, row[1], None] for row in words]  # the same in the search
        values = [by_model for _, by_model, _, _ in words]
        assert values == pytest.approx([next(forced)[-1] for _ in words], abs=1e-3)
        assert values == sorted(values, reverse=True) and len(words) == len(NAMES) + 4  # the whole vocabulary
        allowed = {token: value for token, _, value, rule in words if rule is None}
        assert (EOS in allowed) == (len(tokens) >= SEARCHES[search].lengths.min_length)
        if search == "sample":
            drawn = [value for value in allowed.values() if value is not None]
            assert len(drawn) <= 3 and np.exp(drawn).sum() == pytest.approx(1, abs=0.01)


def test_the_terms_of_a_glossary_are_a_rule() -> None:
    one = explorer()
    term = Term("six", tuple(one.translator.target.encode("six")))
    glossary = Glossary({"five": term}, one.translator.tokenizers)
    search = BeamConfig(beam_size=6, patience=None, lengths=LengthsConfig(max_length=7))
    found = Explorer("ours", replace(one.translator, search=search, glossary=glossary)).explore(Question(TEXT))
    assert all("six" in hypothesis["text"].split() for hypothesis in found["hypotheses"])
    tree = found["tree"]
    for node, fate in enumerate(tree["fate"]):
        if fate == "terms":
            assert tree["token"][node] == EOS and not {*term.ids} & {*path(tree, node)}
    assert "terms" in tree["fate"]
    for node, words in found["considered"].items():
        (end,) = (row for row in words if row[0] == EOS)
        is_missing = not {*term.ids} & {*path(tree, int(node))}
        assert (end[2:] == [None, "terms"]) == is_missing
    translator = replace(one.translator, search=search, glossary=glossary)
    ended = Explorer("ours", translator).explore(Question(TEXT, prefix=(5, EOS)))
    assert [hypothesis["ids"] for hypothesis in ended["hypotheses"]] == [[5]]


@pytest.mark.parametrize("decoder", slow_but(["transformer-rotary", "luong-feeding"], REPRESENTATIVE))
def test_a_forced_word_that_was_chosen_changes_nothing(decoder: str) -> None:
    one = explorer("greedy", decoder)
    best = one.explore(Question(TEXT))["hypotheses"][0]
    for length in range(1, len(best["ids"]) + 1):
        forced = one.explore(Question(TEXT, prefix=tuple(best["ids"][:length])))["hypotheses"][0]
        assert forced | {"leaf": 0} == best | {"leaf": 0}


def test_any_word_can_be_forced_and_the_end_too() -> None:
    one = explorer()
    for token in range(UNK, UNK + 1 + len(NAMES)):
        found = one.explore(Question(TEXT, prefix=(token, 5)))
        assert all(hypothesis["ids"][:2] == [token, 5] for hypothesis in found["hypotheses"])
        assert {*found["tree"]["fate"]} & {"prefix"}
    (ended,) = one.explore(Question(TEXT, prefix=(5, EOS)))["hypotheses"]  # before the minimum length
    assert ended["ids"] == [5]
    for token in (0, 1, 11):
        with pytest.raises(UserError, match="above 1 and below 11"):
            one.explore(Question(TEXT, prefix=(token,)))
    assert one.explore(Question(TEXT, prefix=(5,), reference="six"))["diagnosis"] is None


@pytest.mark.parametrize("decoder", slow_but(["convolutional", "fixed-lstm"], REPRESENTATIVE))
def test_leaving_a_word_out_is_forced_decoding_of_the_shorter_source(decoder: str) -> None:
    one, words = explorer("beam", decoder), TEXT.split()
    target = one.explore(Question(TEXT))["hypotheses"][0]["ids"]
    encode = one.translator.source.encode
    for place, other in itertools.product(range(len(target) + 1), (None, 6)):
        found = one.importance(Question(TEXT), target, place, other)
        assert found["words"] == (*words,)

        def value(text: str, place: int = place, other: int | None = other) -> float:
            log_probs = []
            for token in ([*target, EOS][place], other):
                if token is not None:
                    pair = encode(text), target[:place] if token == EOS else [*target[:place], token]
                    log_probs.append(one.translator.engine.token_log_probs([pair], budget=99)[0][place])
            return log_probs[0] - sum(log_probs[1:])

        assert found["value"] == pytest.approx(value(TEXT), abs=1e-3)
        for number, effect in enumerate(found["left_out"]):
            shorter = " ".join(words[:number] + words[number + 1 :])
            assert effect == pytest.approx(value(TEXT) - value(shorter), abs=1e-3)
        assert (found["attention"] is None) == (decoder == "fixed-lstm")
        if found["attention"] is not None:
            weights = one.translator.attention_weights(TEXT, one.translator.target.decode(target)).cross_attention
            top = weights[-1, :, place, : len(words)].mean(0)
            assert found["attention"] == pytest.approx(top, abs=1e-4)


@pytest.mark.parametrize("encoder", slow_but(["gru", "transformer"], ["gru", "transformer", "convolutional", "bert"]))
def test_gradient_times_input_is_the_change_by_scaling_an_embedding(encoder: str) -> None:
    net: Seq2Seq = spread_logits(model(encoder, "transformer", "multi-head"))
    source, prefix, step = [4, 8, 5], [6, 7], 1e-5
    ids, sequences = collate_source([source], net.device)

    def log_prob(scales: torch.Tensor) -> float:
        embedded = net.source_embedding(ids) * scales[None, :, None]
        memory, state = net.decoder.init_state(net.encoder(embedded, sequences))
        hidden = net.decode(torch.tensor([[1, *prefix]]), state, memory).hidden[0, -1]
        return torch.log_softmax(net.output_projection(hidden), -1)[9].item()

    with torch.no_grad():
        ones = torch.ones(len(source) + 1, dtype=torch.double)
        expected = [(log_prob(ones + step * row) - log_prob(ones - step * row)) / (2 * step) for row in torch.eye(4)]
    assert gradient_times_input(net, source, prefix, 9) == pytest.approx(expected, abs=1e-4)


def test_a_reference_with_a_better_score_is_an_error_of_the_search() -> None:
    one = explorer("greedy")
    best = one.translator.translate(TEXT)
    better = one.translator.translate(TEXT, SEARCHES["wide"])
    assert better.score > best.score
    for text, cause in ((better.text, "search"), (best.text, "equal"), ("six six six", "model")):
        found = one.explore(Question(TEXT, reference=text))["diagnosis"]
        assert found["cause"] == cause
        assert (found["score"] > found["output_score"]) == (cause == "search")
        assert found["score"] == pytest.approx(sum(found["log_probs"]) / len(found["log_probs"]), abs=1e-2)
        tokens = found["reference"]["tokens"], one.explore(Question(TEXT))["hypotheses"][0]["target"]["tokens"]
        differ = [place for place, (a, b) in enumerate(zip(*tokens, strict=False)) if a != b]
        assert found["parts_at"] == (differ[0] if differ else None)


@pytest.mark.parametrize("decoder", ["transformer", "luong-feeding", "convolutional", "fixed-lstm", "ssru"])
def test_attention_is_that_of_forced_decoding(decoder: str) -> None:
    one = explorer("beam", decoder, "transformer")
    found = one.explore(Question(TEXT))
    weights = one.translator.attention_weights(TEXT, found["hypotheses"][0]["text"])
    kinds = {"cross": weights.cross_attention, "encoder": weights.encoder_self_attention}
    kinds["decoder"] = weights.decoder_self_attention
    assert {*found["attention"]} == {kind for kind, values in kinds.items() if values is not None}
    assert ("decoder" in found["attention"]) == (decoder == "transformer")
    for kind, content in found["attention"].items():
        assert np.array(content["weights"]) / 1000 == pytest.approx(kinds[kind], abs=6e-4)
    if decoder == "transformer":
        causal = np.array(found["attention"]["decoder"]["weights"])
        assert causal.sum(-1) == pytest.approx(1000, abs=5) and not np.triu(causal, 1).any()
        assert found["attention"]["decoder"]["keys"]["tokens"][0] == "<s>"


def test_groups_of_diverse_beams_have_ranks_of_their_own() -> None:
    tree = explorer("diverse").explore(Question(TEXT))["tree"]
    for step, group in {*zip(tree["step"], tree["group"], strict=True)}:
        rows = zip(tree["step"], tree["group"], tree["rank"], strict=True)
        ranks = sorted(rank for *place, rank in rows if place == [step, group] and rank)
        assert ranks == [*range(1, len(ranks) + 1)]
    assert {*tree["group"]} == {0, 1}


def test_a_saved_page_has_the_numbers_of_the_live_one() -> None:
    one = explorer()
    live, saved = one.explore(Question(TEXT)), one.record(Question(TEXT))
    target = live["hypotheses"][0]["ids"]
    assert {key: value for key, value in saved.items() if key != "importance"} == live
    for place, found in saved["importance"].items():
        assert found == one.importance(Question(TEXT), target, place)
    assert len(saved["importance"]) == len(target) + 1
