"""Lines that are too long, translations that are truncated, and batches that do not fit in memory."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from seq2attn.data.collate import batch_by_length
from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.engines.source_limit import SourceLimit, model_source_limit
from seq2attn.inference.input_checks import MAX_EXAMPLES, InputChecker, InputWarning
from seq2attn.inference.translation import Translation
from seq2attn.inference.translator import Translator
from seq2attn.search.search_config import SearchConfig
from seq2attn.search.translate_ids import TokenIds
from seq2attn.tokenizers.normalize import join_sentences
from tests.support.trainings import content
from tests.support.translators import WORDS, translator

LIMIT = SourceLimit(6, "it is a test")
PARTS = ["A few words.", "Of which, not many!", "Words?"]
LONG = " ".join(PARTS)
LINES = ["a few words", LONG, "", f"{LONG} {LONG}", "not many", "a " * 40]
TRANSFORMER = {"kind": "transformer", "heads": 4}
ADDITIVE, LOCATION = {"kind": "additive"}, {"kind": "location", "max_positions": 7}


def translator_with_limit(kind: str = "luong", limit: SourceLimit | None = LIMIT) -> Translator:
    """An untrained translator with a maximum source length."""
    return translator(kind, [*WORDS, LONG], limit)


def search(kind: str = "beam", long_inputs: str = "split", **lengths: float) -> SearchConfig:
    widths = {"beam": {"beam_size": 3}, "sample": {"num_samples": 3}}
    content = {"kind": kind, "lengths": {"max_length": 12, "long_inputs": long_inputs, **lengths}}
    return TypeAdapter(SearchConfig).validate_python(content | widths.get(kind, {}))


def translate(one: Translator, lines: Sequence[str], config: SearchConfig, **options: object) -> Any:
    """Translations and warnings about lengths."""
    checker = InputChecker()
    translations = list(one.translate_iterable(lines, config, checker=checker, **options))
    return translations, list(checker.line_warnings())


def texts(translations: Sequence[Translation]) -> list[str]:
    return [translation.text for translation in translations]


@pytest.mark.parametrize(("decoder", "kind"), [("fixed", "greedy"), ("luong", "beam"), ("transformer", "beam")])
def test_a_split_line_equals_its_sentences(decoder: str, kind: str) -> None:
    one = translator_with_limit(decoder)
    (whole,), messages = translate(one, [LONG], search(kind))
    alone, _ = translate(one, PARTS, search(kind))
    assert whole.segments == tuple(PARTS) and [part.segments for part in alone] == [()] * 3
    assert messages[0] == "line 1: too many tokens: it is a test; translated in parts"
    hypotheses = [whole, *whole.alternatives]
    for rank, joined in enumerate(hypotheses):
        parts = [[part, *part.alternatives] for part in alone]
        ranked = [beam[min(rank, len(beam) - 1)] for beam in parts]
        assert joined.text == join_sentences(texts(ranked))
        assert joined.tokens == sum((part.tokens for part in ranked), ())
        assert joined.log_prob == pytest.approx(sum(part.log_prob for part in ranked))
        weights = [len(part.source_tokens) for part in alone]
        assert joined.score == pytest.approx(np.average([part.score for part in ranked], weights=weights))
    scores = [each.score for each in hypotheses]
    assert scores == sorted(scores, reverse=True) and (kind == "greedy" or len(scores) == 3)


@pytest.mark.parametrize(("kind", "long_inputs"), [("greedy", "split"), ("beam", "truncate"), ("sample", "split")])
def test_each_line_has_one_translation(kind: str, long_inputs: str) -> None:
    one = translator_with_limit()
    translations, messages = translate(one, LINES, search(kind, long_inputs), window=4)
    assert len(translations) == len(LINES)
    assert [bool(each.segments) for each in translations] == [i in (1, 3, 5) for i in range(6)]
    assert [line.split(":")[0] for line in messages if "it is a test" in line] == ["lines 2, 4, 6"]
    for line, each in zip(LINES, translations, strict=True):
        tokens = one.source.convert_ids_to_tokens(one.source.encode(line))
        assert each.source_tokens == tuple(tokens[:6] if long_inputs == "truncate" else tokens)
        assert len([each, *each.alternatives]) <= (1 if kind == "greedy" else 3)
        if each.segments and long_inputs == "truncate":
            (beginning,), _ = translate(one, each.segments, search())
            assert (each.text, each.score) == (beginning.text, pytest.approx(beginning.score))
            assert beginning.source_tokens == each.source_tokens


@pytest.mark.parametrize(
    ("encoder", "score", "limit"),
    [
        (TRANSFORMER, ADDITIVE, "12 (`data.filters.max_length`)"),  # sinusoidal
        (
            {**TRANSFORMER, "position_encoding": "learned", "max_positions": 9},
            ADDITIVE,
            "8 (`model.encoder.max_positions`)",
        ),
        ({"kind": "convolutional", "max_positions": 20}, ADDITIVE, "12 (`data.filters.max_length`)"),
        ({"kind": "gru"}, LOCATION, "6 (`model.decoder.attention.score.max_positions`)"),
    ],
)
def test_the_limit_of_a_model_is_that_of_its_training_or_its_positions(
    tmp_path: Path, encoder: dict[str, object], score: dict[str, object], limit: str
) -> None:
    model = {"encoder": encoder, "decoder": {"kind": "luong", "attention": {"score": score}}}
    config = content(tmp_path, "run", model=model)
    config["data"]["filters"] = {"max_length": 12}
    found = model_source_limit(ExperimentConfig.model_validate(config))
    assert found.reason.endswith(limit) and found.max_tokens == int(limit.split()[0])


class ShortEngine(NativeEngine):
    max_source_length = 20


def test_the_limit_is_that_of_the_search_else_of_the_model_and_at_most_that_of_the_engine() -> None:
    assert translate(translator_with_limit(), LINES, search(max_source_length=40)) == translate(
        translator_with_limit(limit=None), LINES, search()
    )
    one = translator_with_limit(limit=SourceLimit(3, "unused"))
    translations, messages = translate(one, LINES, search(max_source_length=6))
    assert texts(translations) == texts(translate(translator_with_limit(), LINES, search())[0])
    assert "`search.lengths.max_source_length` allows 6; translated in parts" in messages[0]
    one = translator_with_limit()
    one = replace(one, engine=ShortEngine(one.model))
    for long_inputs, segments in (("split", 2), ("truncate", 1)):
        config = search(long_inputs=long_inputs, max_source_length=30)
        translations, messages = translate(one, [LONG, "a " * 40], config)
        assert [len(each.segments) for each in translations] == [0, segments]
        assert messages[0].startswith("line 2: too many tokens: the engine takes no more than 20; ")
    _, messages = translate(one, ["a " * 40], search())
    assert messages[0].startswith("line 1: too many tokens: it is a test; ")  # the lower of the two


@pytest.mark.parametrize(("kind", "layers"), [("luong", 1), ("transformer", 2)])
def test_attention_weights_of_segments_are_a_block_diagonal(kind: str, layers: int) -> None:
    one = translator_with_limit(kind)
    (whole,), _ = translate(one, [LONG], search(), attention=True)
    alone, _ = translate(one, PARTS, search(), attention=True)
    assert whole.cross_attention is not None and whole.attention_weights is not None
    sizes = [(len(part.tokens) + 1, len(part.source_tokens) + 1) for part in alone]
    assert whole.cross_attention.shape == (layers, 4, *np.sum(sizes, axis=0))
    row = column = 0
    for part, (rows, columns) in zip(alone, sizes, strict=True):
        block = whole.cross_attention[..., row : row + rows, column : column + columns]
        np.testing.assert_allclose(block, part.cross_attention, rtol=1e-5)
        row, column = row + rows, column + columns
    np.testing.assert_allclose(whole.cross_attention.sum(-1), 1, rtol=1e-5)  # so all other weights are zero
    assert whole.attention_weights.source.tokens == sum((part.attention_weights.source.tokens for part in alone), ())
    words = [whole.attention_weights.target.words[word] for word in whole.attention_weights.target.word_ids]
    assert words == [p.attention_weights.target.words[w] for p in alone for w in p.attention_weights.target.word_ids]


def test_translations_of_maximum_length_cause_a_warning() -> None:
    one = translator_with_limit()
    for max_length in (1, 3, 12, 200):
        config, truncated = search("greedy", max_length=max_length), list[int]()
        translations, messages = translate(one, LINES, config)
        for number, (line, each) in enumerate(zip(LINES, translations, strict=True), 1):
            segments, _ = translate(one, each.segments or (line,), config)
            limits = [min(max_length, 3 * len(segment.source_tokens) + 10) for segment in segments]
            assert each.truncated == any(len(s.tokens) >= limit for s, limit in zip(segments, limits, strict=True))
            truncated += [number] if each.truncated else []
        messages = [line for line in messages if "may be truncated" in line]
        assert bool(messages) == bool(truncated)
        assert all(str(number) in messages[0].split(":")[0] for number in truncated[:MAX_EXAMPLES])
    _, messages = translate(one, [LONG] * 9, search("greedy", max_length=1))
    assert [line.split(":")[0] for line in messages] == ["lines 1, 2, 3, 4, 5 and 4 more"] * 2


@dataclass(frozen=True)
class SmallMemoryEngine:
    """An engine that raises `error` for batches of more than `max_tokens`."""

    inner: Engine
    max_tokens: int
    error: Exception
    max_source_length: int | None = None
    description: str = "small"

    def translate(self, sources: TokenIds, search: SearchConfig, *, budget: int, **options: Any) -> Any:
        width = search.num_hypotheses
        for rows in batch_by_length(sources, max(1, budget // width)):
            if len(rows) * (len(sources[rows[0]]) + 1) * width > self.max_tokens:
                raise self.error
        return self.inner.translate(sources, search, budget=budget, **options)


OOM_ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:116] DefaultCPUAllocator: can't allocate memory: you tried"),
    MemoryError(),
    UserError("ctranslate2: CUDA failed with error out of memory"),
]


def test_smaller_batches_after_an_out_of_memory_error() -> None:
    expected = translate(translator_with_limit(), LINES, search())
    for error in OOM_ERRORS:
        one = translator_with_limit()
        one = replace(one, engine=SmallMemoryEngine(one.engine, 40, error))
        translations, messages = translate(one, LINES, search())
        assert (texts(translations), messages) == (texts(expected[0]), expected[1])
    large = translator_with_limit(limit=None)
    one = replace(
        large, engine=SmallMemoryEngine(large.engine, 24, OOM_ERRORS[0])
    )  # three hypotheses of seven tokens and EOS
    assert translate(one, ["a few words"] * 9, search())[0]
    with pytest.raises(torch.OutOfMemoryError):  # of a line alone
        translate(one, LINES, search())
    one = replace(large, engine=SmallMemoryEngine(large.engine, 1, RuntimeError("shapes do not fit")))
    with pytest.raises(RuntimeError, match="shapes"):
        translate(one, ["a few words"], search())


def test_python_gives_warnings_at_the_end() -> None:
    one = translator_with_limit()
    with pytest.warns(InputWarning) as caught:
        one.translate([LONG, "a few unknowns"], search())
    messages = [str(warning.message) for warning in caught]
    assert any(line.startswith("line 1: too many tokens") for line in messages)
    assert any(line.endswith("1 of 15, in line 2") for line in messages)
    assert all(warning.filename == __file__ for warning in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(one.translate_iterable([WORDS[0]], search("greedy", max_length=200), checker=InputChecker()))
