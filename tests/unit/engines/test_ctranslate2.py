"""Our Transformers in CTranslate2: the same probabilities, the same greedy translations, limits and rules for lengths.

The models have first weights made so large that words stand out. Beams are compared where no sentence ends by itself:
in models that know nothing the likeliest sentence is often one that ends by chance, with a word so unlikely that
CTranslate2 does not look at it. What beams find that end is compared for a trained model, in tests/cli/test_export.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from seq2attn.engines import EngineError
from seq2attn.engines.ctranslate2.engine import CTranslate2Engine, user_errors
from seq2attn.engines.ctranslate2.spec import build_spec
from seq2attn.engines.native import NativeEngine
from seq2attn.errors import UserError
from seq2attn.models import ModelConfig, Seq2Seq, build_model
from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig, SearchConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, Vocabulary

SIZE = 24
VOCABULARY = Vocabulary.from_tokens([f"w{number}" for number in range(SIZE - 4)])
PART = {"kind": "transformer", "layers": 2, "heads": 4, "ffn_dim": 32, "dropout": 0.0}
MODELS = {
    "pre-norm": {},
    "post-norm": {"both": {"norm_order": "post"}},
    "one of each": {
        "encoder": {"norm_order": "post", "layers": 1},
        "decoder": {"norm_order": "pre", "layers": 3},
    },
    "all tied": {"embeddings": {"tie": "all"}},
    "output tied, not scaled": {"embeddings": {"tie": "output", "scaled": False}},
    "learned positions, too few": {"both": {"position_encoding": "learned", "max_positions": 5}},
    "relative positions": {"both": {"position_encoding": "relative", "max_distance": 2}},
    "rotary positions": {"both": {"position_encoding": "rotary"}},
    "positions of every kind": {
        "encoder": {"position_encoding": "rotary"},
        "decoder": {"position_encoding": "relative"},
    },
    "gelu": {"both": {"activation": "gelu"}},
    "swiglu, relu": {"encoder": {"activation": "swiglu"}},
    "rms, post-norm": {"both": {"norm_type": "rmsnorm", "norm_order": "post"}},
    "one key for all heads": {"both": {"kv_heads": 1}, "score": {"kv_heads": 1}},
    "groups, relative": {"both": {"kv_heads": 2, "position_encoding": "relative"}, "score": {"kv_heads": 2}},
    "groups of each their own": {
        "encoder": {"heads": 2},
        "decoder": {"kv_heads": 2},
        "score": {"kv_heads": 1},
    },
    "groups of the source alone": {"score": {"kv_heads": 2}},
    "modern": {
        "both": {
            "position_encoding": "rotary",
            "norm_type": "rmsnorm",
            "activation": "swiglu",
            "kv_heads": 2,
        },
        "embeddings": {"tie": "all"},
    },
    "an odd width": {"embeddings": {"dim": 15}, "both": {"heads": 3}, "score": {"heads": 3}},
}
GREEDY = GreedyConfig(kind="greedy", lengths=LengthsConfig(max_length_ratio=1.5))


def built(about: dict[str, dict]) -> tuple[ModelConfig, Seq2Seq]:
    """A model in which words stand out and every vector counts."""
    both = PART | about.get("both", {})
    score = {"kind": "multi-head", "heads": 4} | about.get("score", {})
    content = {
        "embeddings": {"dim": 16} | about.get("embeddings", {}),
        "encoder": both | about.get("encoder", {}),
        "decoder": both | about.get("decoder", {}) | {"attention": {"score": score}},
    }
    config = ModelConfig.model_validate(content)
    torch.manual_seed(1)
    model = build_model(config, SIZE, SIZE).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight * 1.7 if weight.dim() > 1 else weight + torch.randn_like(weight) / 10)
        model.output_projection.bias[[PAD, BOS]] -= 20  # as training leaves them
    return config, model


def exported(
    config: ModelConfig, model: Seq2Seq, folder: Path, threads: int = 1, type_: str = "float32"
) -> CTranslate2Engine:
    spec = build_spec(config, model, (VOCABULARY, VOCABULARY))
    spec.validate()
    spec.optimize(type_)
    folder.mkdir(exist_ok=True)
    spec.save(str(folder))
    return CTranslate2Engine(folder, (VOCABULARY, VOCABULARY), torch.device("cpu"), threads)


def drawn(number: int, shortest: int, longest: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(number + longest)
    lengths = torch.randint(shortest, longest + 1, (number,), generator=draw).tolist()
    return [torch.randint(3, SIZE, (length,), generator=draw).tolist() for length in lengths]


SOURCES = drawn(30, 1, 12)


def log_probs(
    engine: NativeEngine | CTranslate2Engine, pairs: Sequence[tuple[list[int], Sequence[int]]], budget: int
) -> Tensor:
    """log p(target, end | source) of each pair."""
    return torch.tensor([sum(each) for each in engine.token_log_probs(pairs, budget=budget)])


@pytest.fixture(params=MODELS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[NativeEngine, CTranslate2Engine]:
    config, model = built(MODELS[request.param])
    return NativeEngine(model), exported(config, model, tmp_path / "model")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[NativeEngine, CTranslate2Engine]:
    config, model = built({})
    return NativeEngine(model), exported(config, model, tmp_path_factory.mktemp("plain"))


def test_the_same_sentences_are_as_likely(pair: tuple[NativeEngine, CTranslate2Engine]) -> None:
    ours, theirs = pair
    given = list(zip(SOURCES, drawn(30, 0, 14), strict=True))
    expected = log_probs(ours, given, 100)
    found = log_probs(theirs, given, 100)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-5)


def found_with(
    engine: CTranslate2Engine, search: SearchConfig, prefixes: Sequence[Sequence[int]] | None = None
) -> list[list[tuple[Hypothesis, bool]]]:
    """What is found for SOURCES, each with whether the limit of its call cut it off.

    A budget of 1 makes a call of each source, which then has its own limit.
    """
    found = engine.translate(SOURCES, search, budget=1, prefixes=prefixes)
    most = (search.lengths.limits(torch.tensor([len(source) for source in SOURCES])).max_length - 1).tolist()
    if prefixes is not None:
        most = [max(limit, len(prefix) + 1) for limit, prefix in zip(most, prefixes, strict=True)]
    return [[(one, len(one.tokens) == limit) for one in some] for some, limit in zip(found, most, strict=True)]


def test_the_likeliest_words_are_the_same(pair: tuple[NativeEngine, CTranslate2Engine]) -> None:
    ours, theirs = (engine.translate([*SOURCES, []], GREEDY, budget=1) for engine in pair)
    assert [best.tokens for (best,) in theirs] == [best.tokens for (best,) in ours]
    assert len({best.tokens for (best,) in ours}) > 5
    check_scores(pair[0], pair[1], GREEDY)


def check_scores(
    ours: NativeEngine,
    theirs: CTranslate2Engine,
    search: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> None:
    """Log-probabilities are those that our model gives to the words, and to the end if it came."""
    for row, hypotheses in enumerate(found_with(theirs, search, prefixes)):
        read = ours.token_log_probs([(SOURCES[row], one.tokens) for one, _ in hypotheses], budget=200)
        for (one, cut_off), log_probs in zip(hypotheses, read, strict=True):
            end = len(one.tokens) + (not cut_off)
            assert one.log_prob == pytest.approx(sum(log_probs[:end]), rel=1e-4, abs=1e-3)
            penalty = search.lengths.build_penalty().penalty(torch.tensor(end)).item()
            assert one.score == pytest.approx(one.log_prob / penalty, rel=1e-5)
        scores = [one.score for one, _ in hypotheses]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    "search",
    [
        GREEDY,
        BeamConfig(kind="beam", beam_size=4, lengths=LengthsConfig(max_length=9)),
        BeamConfig(kind="beam", beam_size=4, lengths=LengthsConfig(max_length=4)),  # fewer than the longest prefix
    ],
)
def test_prefixes_are_the_same(plain: tuple[NativeEngine, CTranslate2Engine], search: SearchConfig) -> None:
    prefixes = [[], [5], [6, 7, 8, 9, 3]] * 10
    ours, theirs = (engine.translate(SOURCES, search, budget=1, prefixes=prefixes) for engine in plain)
    for prefix, (mine, *_), (other, *_) in zip(prefixes, ours, theirs, strict=True):
        assert [*other.tokens[: len(prefix)]] == prefix
        assert other.tokens == mine.tokens or search.kind == "beam"
    check_scores(*plain, search, prefixes)


@pytest.mark.parametrize("normalise", ["none", "average", "gnmt"])
def test_beams_are_the_same(tmp_path: Path, normalise: str) -> None:
    config, model = built({})
    with torch.no_grad():
        model.output_projection.weight.mul_(5)
        model.output_projection.bias[EOS] -= 50
    lengths = LengthsConfig(length_penalty=normalise, alpha=0.7, max_length_ratio=0.5, max_length=14)
    search = BeamConfig(kind="beam", beam_size=4, lengths=lengths)
    native, engine = NativeEngine(model), exported(config, model, tmp_path / "model")
    ours, theirs = (one.translate(SOURCES, search, budget=1) for one in (native, engine))
    assert len({len(one.tokens) for some in ours for one in some}) > 3  # as long as each may be
    # In an order of their own: ours knows how likely each end is.
    assert [{one.tokens for one in some} for some in theirs] == [{one.tokens for one in some} for some in ours]
    check_scores(native, engine, search)


@pytest.mark.parametrize("normalise", ["none", "average", "gnmt"])
@pytest.mark.parametrize("most", [2, 9, 256])
def test_a_beam_keeps_our_rules(plain: tuple[NativeEngine, CTranslate2Engine], normalise: str, most: int) -> None:
    lengths = LengthsConfig(length_penalty=normalise, alpha=0.7, max_length_ratio=0.5, max_length=most)
    search = BeamConfig(kind="beam", beam_size=4, lengths=lengths)
    limits = lengths.limits(torch.tensor([len(source) for source in SOURCES])).max_length.tolist()
    for hypotheses, limit in zip(found_with(plain[1], search), limits, strict=True):
        words = [one.tokens for one, _ in hypotheses]
        assert 1 <= len(words) == len({*words}) <= 4
        assert all(len(some) < limit and not {PAD, BOS, EOS} & {*some} for some in words)
    check_scores(*plain, search)


def test_the_limit_of_a_call_is_its_loosest(plain: tuple[NativeEngine, CTranslate2Engine]) -> None:
    lengths = LengthsConfig(max_length_ratio=1.0, max_length=18)
    search = GreedyConfig(kind="greedy", lengths=lengths)
    sources = drawn(120, 1, 30)
    limits = lengths.limits(torch.tensor([len(source) for source in sources])).max_length.tolist()
    ours, theirs = (engine.translate(sources, search, budget=4096) for engine in plain)
    for (mine,), (other,), limit in zip(ours, theirs, limits, strict=True):
        assert other.tokens[: limit - 1] == mine.tokens
        assert len(other.tokens) <= 18


def test_batches_and_threads_do_not_change_answers(plain: tuple[NativeEngine, CTranslate2Engine]) -> None:
    theirs = plain[1]
    search = BeamConfig(kind="beam", beam_size=3, lengths=LengthsConfig(max_length=10))  # of all
    expected = [[one.tokens for one in some] for some in theirs.translate(SOURCES, search, budget=4096)]
    for engine, budget in ((theirs, 1), (replace(theirs, threads=2), 4096), (replace(theirs, threads=2), 40)):
        found = engine.translate(SOURCES, search, budget=budget)
        assert [[one.tokens for one in some] for some in found] == expected
    assert theirs.translate([[], []], search, budget=10)[1][0].tokens == ()
    assert theirs.translate([], search, budget=10) == []


@pytest.mark.parametrize(("type_", "least"), [("float16", 0.0), ("int8", 1e-3)])
def test_smaller_numbers_are_nearly_as_exact(tmp_path: Path, type_: str, least: float) -> None:
    config, model = built({"both": {"position_encoding": "rotary"}})
    given = list(zip(SOURCES, drawn(30, 1, 14), strict=True))
    whole, small = (
        exported(config, model, tmp_path / "whole"),
        exported(config, model, tmp_path / "small", 1, type_),
    )
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("whole", "small")]
    assert sizes[1] < 0.7 * sizes[0]
    expected, found = (log_probs(engine, given, 500) for engine in (whole, small))
    assert least < (found - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.parametrize(
    ("search", "key"),
    [
        (SampleConfig(kind="sample"), "search.kind"),
        (GreedyConfig(kind="greedy", lengths=LengthsConfig(min_length=1)), "search.lengths.min_length"),
        (
            BeamConfig(kind="beam", lengths=LengthsConfig(min_length_ratio=0.1)),
            "search.lengths.min_length_ratio",
        ),
    ],
)
def test_a_search_that_cannot_be_done_is_refused(
    plain: tuple[NativeEngine, CTranslate2Engine], search, key: str
) -> None:
    with pytest.raises(EngineError, match=rf"`{key}`") as refused:
        plain[1].translate([], search, budget=1)
    assert [mistake.field for mistake in refused.value.errors] == [key]


def test_what_it_cannot_read_is_no_bug_of_ours(tmp_path: Path, plain: tuple[NativeEngine, CTranslate2Engine]) -> None:
    with pytest.raises(UserError, match="ctranslate2"):
        replace(plain[1], folder=tmp_path).translate([[4]], GREEDY, budget=1)
    with pytest.raises(UserError, match="position"):
        plain[1].translate([[4] * 5000], GREEDY, budget=1)


def test_where_a_card_has_no_cublas_it_is_said_which() -> None:
    with (
        pytest.raises(UserError, match=r"not found.*pip install nvidia-cublas-cu12.*--device cpu"),
        user_errors(),
    ):
        raise RuntimeError("Library libcublas.so.12 is not found or cannot be loaded")
