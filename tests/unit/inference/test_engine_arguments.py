"""Each argument of `Engine.translate` arrives at the model or program that an engine runs, or is refused."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import seq2attn
from seq2attn.config import plugin
from seq2attn.errors import UserError
from seq2attn.exporters.ctranslate2_target import CTranslate2Target
from seq2attn.exporters.huggingface_target import HuggingFaceTarget
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.engines.onnx_engine import OnnxEngine
from seq2attn.models import Seq2Seq
from seq2attn.models.ensemble import SearchModel
from seq2attn.models.seq2seq import IdPairs
from seq2attn.options import TranslationOptions
from seq2attn.options.runs import CompareOptions, EvaluateOptions
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig, SearchConfig
from seq2attn.search.translate_ids import Hypothesis, TokenIds
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD
from tests.support.exported_runs import make_run
from tests.support.marks import slow_but
from tests.support.untrained_runs import change_weights

SOURCES = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14], [15, 16, 17, 18], [6, 5, 19, 20, 21], [7, 7, 8, 9]]
LENGTHS = LengthsConfig(max_length=16)


def greedy(**changes: Any) -> SearchConfig:
    return GreedyConfig(**{"lengths": LENGTHS, **changes})


def beam(**changes: Any) -> SearchConfig:
    return BeamConfig(**{"beam_size": 4, "lengths": LENGTHS, **changes})


ARGUMENTS: dict[str, dict[str, Any]] = {
    "max_length": {"search": greedy(lengths=LengthsConfig(max_length=5))},
    "max_length_ratio": {"search": greedy(lengths=LengthsConfig(max_length=16, max_length_ratio=0.5))},
    "prefixes": {"search": greedy(), "prefixes": [[], [6], [9, 10], [5, 5, 5], [], [11]]},
    "no_repeat_ngram_size": {"search": greedy(no_repeat_ngram_size=1)},
    "beam_size": {"search": beam()},
    "alpha": {"search": beam(lengths=LengthsConfig(max_length=16, alpha=0.3))},
    "length_penalty": {"search": beam(lengths=LengthsConfig(max_length=16, length_penalty="gnmt", alpha=3.0))},
    "num_beam_groups": {"search": beam(num_beam_groups=2, diversity_penalty=3.0)},
    "phrases": {"search": beam(), "phrases": [[], [[12, 13]], [], [[6], [20]], [], [[9]]]},
    "seed": {"search": SampleConfig(seed=3, lengths=LENGTHS)},
    "min_length": {"search": greedy(lengths=LengthsConfig(max_length=16, min_length=3))},
    "min_length_ratio": {"search": greedy(lengths=LengthsConfig(max_length=16, min_length_ratio=0.5))},
    "coverage_penalty": {"search": beam(coverage_penalty=5.0)},
}
REFUSED = {
    "native": set[str](),
    "onnx": {"coverage_penalty"},
    "ctranslate2": {
        *("phrases", "no_repeat_ngram_size", "num_beam_groups", "seed", "min_length", "min_length_ratio"),
        "coverage_penalty",
    },
}
REFUSED["transformers"] = REFUSED["ctranslate2"] | {"length_penalty"}
QUICK = {"max_length_ratio", "prefixes", "no_repeat_ngram_size", "beam_size", "phrases", "seed"}
WITHOUT_EFFECT = {"min_length", "min_length_ratio"}
"""Of this model, whose translations never end early."""


@dataclass
class RecordedModel:
    """A model that keeps its batches of sources."""

    model: SearchModel
    batches: list[TokenIds] = field(default_factory=list)

    @property
    def device(self) -> torch.device:
        return self.model.device

    def encode_sources(self, sources: TokenIds) -> tuple[Any, Any]:
        self.batches.append(sources)
        return self.model.encode_sources(sources)

    def step(self, ids: torch.Tensor, state: Any, memory: Any) -> tuple[torch.Tensor, Any]:
        return self.model.step(ids, state, memory)

    def token_log_probs(self, pairs: IdPairs) -> torch.Tensor:
        self.batches.append([[*source, *target] for source, target in pairs])
        return self.model.token_log_probs(pairs)


@dataclass
class RecordedTranslator:
    """CTranslate2's translator, which keeps its batches of sources."""

    translator: Any
    batches: list[Sequence[Any]] = field(default_factory=list)
    scored: list[int] = field(default_factory=list)

    def translate_batch(self, sources: Sequence[Any], **options: Any) -> Any:
        self.batches.append(sources)
        return self.translator.translate_batch(sources, **options)

    def score_batch(self, *sides: Sequence[Any], max_batch_size: int, **options: Any) -> Any:
        self.scored.append(max_batch_size)
        return self.translator.score_batch(*sides, max_batch_size=max_batch_size, **options)


def vary(model: Seq2Seq) -> None:
    """Weights with which tokens differ, and no translation ends before its limit."""
    torch.manual_seed(3)
    for name, weight in model.named_parameters():
        if "layers" in name and weight.dim() > 1:
            weight.mul_(3)
    model.output_projection.bias.normal_()
    model.output_projection.bias[[PAD, BOS, EOS]] -= 40


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Engine]:
    """All engines of one run; that of ONNX runs the native model, as its graphs take long to make."""
    folder = tmp_path_factory.mktemp("engines")
    run, exported = make_run(folder), dict[str, Engine]()
    change_weights(run, vary)
    for name, target in (("ctranslate2", CTranslate2Target()), ("transformers", HuggingFaceTarget())):
        (folder / name).mkdir()
        target.export(run, folder / name, "float32")
        exported[name] = target.load(run, folder / name)
    model = run.load().model
    return {"native": NativeEngine(model), "onnx": OnnxEngine(model), **exported}  # type: ignore[arg-type]


def find(engine: Engine, arguments: dict[str, Any]) -> list[list[Hypothesis]]:
    return engine.translate(SOURCES, budget=4096, **arguments)


def tokens(output: list[list[Hypothesis]]) -> list[tuple[int, ...]]:
    return [one.tokens for one, *_ in output]


def penalties(output: list[list[Hypothesis]]) -> list[float]:
    return [one.log_prob / one.score for one, *_ in output]


@pytest.mark.parametrize("argument", slow_but(QUICK, ARGUMENTS))
def test_each_argument_arrives_or_is_refused(engines: dict[str, Engine], argument: str) -> None:
    arguments = ARGUMENTS[argument]
    is_beam = arguments["search"].kind == "beam"
    expected = find(engines["native"], arguments)
    plain = find(engines["native"], {"search": beam() if is_beam and argument != "beam_size" else greedy()})
    has_effect = tokens(expected) != tokens(plain) or penalties(expected) != pytest.approx(penalties(plain), rel=0.3)
    assert has_effect or argument in WITHOUT_EFFECT
    for name, engine in engines.items():
        if argument in REFUSED[name]:
            with pytest.raises(UserError):
                find(engine, arguments)
            continue
        output = find(engine, arguments)
        # CTranslate2 has no EOS at the maximum length, so that its beam has another order.
        assert penalties(output) == pytest.approx(penalties(expected), rel=0.2), name
        assert [*map(len, tokens(output))] == [*map(len, tokens(expected))], name
        assert tokens(output) == tokens(expected) or (name == "ctranslate2" and is_beam), name
        assert [*map(len, output)] == [*map(len, expected)] or name == "transformers"


def engine_with_records(engine: Any) -> tuple[Any, Any]:
    """An engine with the same model or program, and what that is given."""
    if isinstance(engine, NativeEngine | OnnxEngine):
        model = RecordedModel(engine.model)
        return type(engine)(model), model
    engine = replace(engine)
    translator = vars(engine)["_translator"] = RecordedTranslator(engine._translator)
    return engine, translator


@pytest.mark.parametrize("name", ["native", "onnx", "ctranslate2"])
def test_a_budget_is_divided_by_the_hypotheses(engines: dict[str, Engine], name: str) -> None:
    """Of all engines but that of `transformers`, which searches one sentence at a time."""
    sources = SOURCES * 4
    lengths = LengthsConfig(max_length=9, max_length_ratio=None)
    for search in (greedy(lengths=lengths), beam(lengths=lengths)):
        counts = []
        for budget in (60, 400):
            engine, recorder = engine_with_records(engines[name])
            engine.translate(sources, search, budget=budget)
            for batch in recorder.batches:
                assert len(batch) * (1 + max(map(len, batch))) * search.num_hypotheses <= budget
            assert sum(map(len, recorder.batches)) == len(sources)
            counts.append(len(recorder.batches))
        assert counts[0] > counts[1]
    engine, recorder = engine_with_records(engines[name])
    engine.token_log_probs([(source, source) for source in sources], budget=60)
    assert all(len(batch) * max(map(len, batch)) <= 60 for batch in recorder.batches)
    assert name != "ctranslate2" or recorder.scored == [60]


@pytest.mark.parametrize(("option", "known"), [("precision", "float32"), ("long_inputs", "split")])
def test_names_that_are_misspelled_are_refused(option: str, known: str) -> None:
    with pytest.raises(UserError, match=f"``{option}=bf16``: use {known} or"):
        TranslationOptions(**{option: "bf16"})


@pytest.mark.parametrize("option", ["overrides", "allow_code", "ensemble", "rerank", "rerank_backward"])
def test_options_that_are_lists_refuse_one_value(option: str) -> None:
    for value in ("run", Path("run")):
        with pytest.raises(UserError, match=rf"``{option}`` should be a list: {option}=\['run'\]"):
            TranslationOptions(**{option: value})


def test_options_of_finished_runs_refuse_one_value_and_other_names() -> None:
    with pytest.raises(UserError, match=r"``metrics`` should be a list: metrics=\['bleu'\]"):
        EvaluateOptions(metrics="bleu")  # type: ignore[arg-type]
    for options in (EvaluateOptions, CompareOptions):
        with pytest.raises(UserError, match=r"``references`` should be a list: references=\['a'\]"):
            options(references=Path("a"))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="``test=bs``: use bootstrap or randomization"):
        CompareOptions(test="bs")  # type: ignore[arg-type]


def test_a_package_may_be_allowed_as_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_allowed", set())
    seq2attn.allow_code("my_scores")
    seq2attn.allow_code(["my_decoders:GRU"])
    assert plugin._allowed == {"my_scores", "my_decoders"}
