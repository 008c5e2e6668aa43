"""Lines that are too long: in parts they give what the parts give alone, and memory is no reason to fail."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from seq2attn.data.batch_planner import batch_by_length
from seq2attn.engines.base import Engine
from seq2attn.engines.native import NativeEngine
from seq2attn.errors import UserError
from seq2attn.inference.input_checks import MAX_EXAMPLES, InputChecker, InputWarning
from seq2attn.inference.source_line import SourceLimit, join_sentences
from seq2attn.inference.translator import Translator
from seq2attn.models import ModelConfig, build_model
from seq2attn.models.config import EmbeddingsConfig
from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig, SearchConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.unit.inference.test_translator import DECODERS, GRU, WORDS

LIMIT = SourceLimit(6, "it is a test")
PARTS = ["A few words.", "Of which, not many!", "Words?"]
LONG = " ".join(PARTS)
LINES = ["a few words", LONG, "", f"{LONG} {LONG}", "not many", "a " * 40]


def limited(kind: str = "luong", limit: SourceLimit | None = LIMIT) -> Translator:
    """One with first weights that knows all words of the lines, and reads so many at once."""
    torch.manual_seed(3)
    words = WordTokenizerConfig().train([*WORDS, LONG])
    size = len(words.vocabulary)
    config = ModelConfig(embeddings=EmbeddingsConfig(dim=16), encoder=GRU, decoder=DECODERS[kind])
    return Translator(build_model(config, size, size).eval(), words, words, search(), source_limit=limit)


def search(kind: str = "beam", long_inputs: str = "split", **lengths: float) -> SearchConfig:
    limits = LengthsConfig.model_validate({"max_length": 12, "long_inputs": long_inputs, **lengths})
    if kind == "greedy":
        return GreedyConfig(kind="greedy", lengths=limits)
    if kind == "sample":
        return SampleConfig(kind="sample", num_samples=3, lengths=limits)
    return BeamConfig(kind="beam", beam_size=3, lengths=limits)


def translated(one: Translator, lines: Sequence[str], how: SearchConfig, **options: object):
    checker = InputChecker()
    found = list(one.translate_iterable(lines, how, checker=checker, **options))
    return found, list(checker.length_warnings())


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("how", ["greedy", "beam"])
def test_parts_give_what_they_give_alone(kind: str, how: str) -> None:
    one = limited(kind)
    (whole, *_), said = translated(one, [LONG], search(how))
    alone, _ = translated(one, PARTS, search(how))
    assert whole.segments == tuple(PARTS) and [part.segments for part in alone] == [()] * 3
    assert said[0].startswith("line 1: 12 tokens, and it is a test; translated in 3 parts")
    for rank in range(1 + len(whole.alternatives)):
        joined = [whole, *whole.alternatives][rank]
        ranks = [[part, *part.alternatives] for part in alone]
        theirs = [some[min(rank, len(some) - 1)] for some in ranks]
        assert joined.text == join_sentences([part.text for part in theirs])
        assert joined.tokens == sum((part.tokens for part in theirs), ())
        assert joined.log_prob == pytest.approx(sum(part.log_prob for part in theirs))
        weights = [len(part.source_tokens) for part in alone]
        assert joined.score == pytest.approx(np.average([p.score for p in theirs], weights=weights))
    scores = [each.score for each in (whole, *whole.alternatives)]
    assert scores == sorted(scores, reverse=True) and (how == "greedy" or len(scores) == 3)


@pytest.mark.parametrize("how", ["greedy", "beam", "sample"])
@pytest.mark.parametrize("long_inputs", ["split", "truncate"])
def test_as_many_lines_come_out_and_each_is_treated(how: str, long_inputs: str) -> None:
    one = limited()
    found, said = translated(one, LINES, search(how, long_inputs), window=4)
    assert len(found) == len(LINES)
    assert [bool(each.segments) for each in found] == [i in (1, 3, 5) for i in range(6)]
    assert [line.split(":")[0] for line in said if "it is a test" in line] == ["line 2", "line 4", "line 6"]
    for line, each in zip(LINES, found, strict=True):
        tokens = one.source.convert_ids_to_tokens(one.source.encode(line))
        if long_inputs == "truncate":
            tokens = tokens[:6]
        assert each.source_tokens == tuple(tokens)
        assert len([each, *each.alternatives]) <= (1 if how == "greedy" else 3)


def test_truncated_is_what_its_beginning_gives() -> None:
    one = limited()
    (found,), said = translated(one, [LONG], search(long_inputs="truncate"))
    begin = one.source.decode(one.source.encode(LONG)[:6])
    (alone,), _ = translated(one, [begin], search())
    assert (found.text, found.score, found.segments) == (alone.text, alone.score, (begin,))
    assert said[0] == "line 1: 12 tokens, and it is a test; only the first 6 are translated"


def test_a_higher_limit_translates_lines_whole() -> None:
    found, said = translated(limited(), LINES, search(max_source_length=40))
    free, nothing = translated(limited(limit=None), LINES, search())
    assert found == free and said == nothing
    assert [line for line in said if "tokens" in line] == []


def test_what_the_search_says_comes_first() -> None:
    one = limited(limit=SourceLimit(3, "never said"))
    found, said = translated(one, LINES, search(max_source_length=6))
    assert [each.text for each in found] == [each.text for each in translated(limited(), LINES, search())[0]]
    assert "`search.lengths.max_source_length` allows 6; translated in 3 parts" in said[0]


@pytest.mark.parametrize("long_inputs", ["split", "truncate"])
def test_an_engine_has_its_own_limit_whatever_is_asked_for(long_inputs: str) -> None:
    one = limited()
    one.engine = NativeEngine(one.model, max_source_length=20)
    found, said = translated(one, [LONG, "a " * 40], search(long_inputs=long_inputs, max_source_length=30))
    assert [len(each.segments) for each in found] == [0, 2 if long_inputs == "split" else 1]
    assert said[0].startswith("line 2: 40 tokens, and the engine takes no more than 20; ")
    _, said = translated(one, ["a " * 40], search())
    assert said[0].startswith("line 1: 40 tokens, and it is a test; ")  # the lower of the two


def test_windows_and_batches_do_not_change_answers() -> None:
    one = limited()
    together, _ = translated(one, LINES, search())
    for window in (1, 2, 5):
        again, said = translated(one, LINES, search(), window=window)
        assert [each.text for each in again] == [each.text for each in together]
        assert [line.split(":")[0] for line in said[:3]] == ["line 2", "line 4", "line 6"]


@pytest.mark.parametrize(("kind", "heads"), [("luong", 1), ("transformer", 8)])
def test_attention_of_parts_stands_side_by_side(kind: str, heads: int) -> None:
    one = limited(kind)
    (found,), _ = translated(one, [LONG], search(), attention=True)
    alone, _ = translated(one, PARTS, search(), attention=True)
    assert found.cross_attention is not None and found.attention_weights is not None
    sizes = [(len(part.tokens) + 1, len(part.source_tokens) + 1) for part in alone]
    assert found.cross_attention.shape == (1, heads, *np.sum(sizes, axis=0))
    row = column = 0
    for part, (rows, columns) in zip(alone, sizes, strict=True):
        block = found.cross_attention[..., row : row + rows, column : column + columns]
        np.testing.assert_allclose(block, part.cross_attention, rtol=1e-5)
        row, column = row + rows, column + columns
    np.testing.assert_allclose(found.cross_attention.sum(-1), 1, rtol=1e-5)  # so that all else is zero
    assert found.attention_weights.source.tokens == sum((part.attention_weights.source.tokens for part in alone), ())
    words = [found.attention_weights.target.words[place] for place in found.attention_weights.target.word_ids]
    assert len(words) == found.cross_attention.shape[2]
    assert words == [p.attention_weights.target.words[w] for p in alone for w in p.attention_weights.target.word_ids]


class TestCutOff:
    def test_translations_as_long_as_they_may_be_are_told(self) -> None:
        one = limited()
        for most in (1, 3, 12, 200):
            found, said = translated(one, LINES, search("greedy", max_length=most))
            cut = []
            for number, (line, each) in enumerate(zip(LINES, found, strict=True), 1):
                parts = each.segments or (line,)
                alone, _ = translated(one, parts, search("greedy", max_length=most))
                limit = [min(most, 3 * len(part.source_tokens) + 10) for part in alone]
                is_cut = any(
                    part.source_tokens and len(part.tokens) >= longest
                    for part, longest in zip(alone, limit, strict=True)
                )
                assert each.truncated == is_cut
                cut += [number] if is_cut else []
            told = [line for line in said if "may be truncated" in line]
            assert bool(told) == bool(cut)
            assert all(str(number) in told[0] for number in cut[:MAX_EXAMPLES])

    def test_of_many_lines_the_number_is_told(self) -> None:
        _, said = translated(limited(), [LONG] * 9, search("greedy", max_length=1))
        assert len(said) == MAX_EXAMPLES + 2
        assert said[MAX_EXAMPLES] == "4 more lines are too long"
        assert said[-1].endswith("and may be truncated: lines 1, 2, 3, 4, 5 and 4 more")


@dataclass(frozen=True)
class Small:
    """An engine for which there is memory for so many tokens at once, and the error that it fails with."""

    inner: Engine
    most: int
    error: Exception
    max_source_length: int | None = None

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        search: SearchConfig,
        *,
        budget: int,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        width = getattr(search, "beam_size", 1)
        for rows in batch_by_length(sources, max(1, budget // width)):
            if len(rows) * (len(sources[rows[0]]) + 1) * width > self.most:
                raise self.error
        return self.inner.translate(sources, search, budget=budget, prefixes=prefixes)


FAILURES = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:116] DefaultCPUAllocator: can't allocate memory: you tried"),
    MemoryError(),
    UserError("ctranslate2: CUDA failed with error out of memory"),
]


class TestMemory:
    @pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
    def test_fewer_at_once_give_the_same(self, error: Exception) -> None:
        expected, quiet = translated(limited(), LINES, search())
        one = limited()
        one.engine = Small(one.engine, 40, error)
        found, said = translated(one, LINES, search())
        assert [each.text for each in found] == [each.text for each in expected]
        assert said == quiet

    def test_a_line_that_does_not_fit_alone_is_an_error_of_memory(self) -> None:
        one = limited(limit=None)
        one.engine = Small(one.engine, 24, FAILURES[0])  # three hypotheses of seven tokens and an end
        assert translated(one, ["a few words"] * 9, search())[0]
        with pytest.raises(torch.OutOfMemoryError):
            translated(one, LINES, search())

    def test_other_errors_are_none_of_memory(self) -> None:
        one = limited()
        one.engine = Small(one.engine, 1, RuntimeError("shapes do not fit"))
        with pytest.raises(RuntimeError, match="shapes"):
            translated(one, ["a few words"], search())


def test_python_is_warned_in_the_end() -> None:
    one = limited()
    with pytest.warns(InputWarning) as warned:
        one.translate([LONG, "a few unknowns"], search())
    said = [str(one.message) for one in warned]
    assert any(line.startswith("line 1: 12 tokens") for line in said)
    assert any(line.endswith("1 of 15, in line 2") for line in said)
    assert all(one.filename == __file__ for one in warned)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(one.translate_iterable([WORDS[0]], search("greedy", max_length=200), checker=InputChecker()))
