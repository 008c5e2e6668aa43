"""Transformers in CTranslate2: the same probabilities, greedy translations, limits and length penalties.

The models have large initial weights, so that tokens differ in probability. Beams are compared where no sentence ends
before its limit: in untrained models the best hypothesis often ends by an unlikely EOS that CTranslate2 does not
consider. Beams that end are compared for a trained model, in tests/cli/test_export.py.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from seq2attn.errors import UserError
from seq2attn.exporters.ctranslate2_target import build_spec, save_spec
from seq2attn.inference.engines.base import EngineError
from seq2attn.inference.engines.ctranslate2_engine import CTranslate2Engine, user_errors
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.models import ModelConfig, Seq2Seq, build_model
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig, SearchConfig
from seq2attn.search.translate_ids import TokenIds
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, Vocabulary
from tests.support.marks import slow_but
from tests.support.models import MODERN, T5

SIZE = 24
SOURCE, TARGET = (Vocabulary.from_tokens([f"{side}{number}" for number in range(SIZE - 4)]) for side in "st")
PART = {"kind": "transformer", "layers": 2, "heads": 4, "ffn_dim": 32, "dropout": 0.0}
MODELS: dict[str, dict[str, dict[str, Any]]] = {
    "pre-norm": {},
    "one of each": {"encoder": {"norm_order": "post", "layers": 1}, "decoder": {"norm_order": "pre", "layers": 3}},
    "all tied": {"embeddings": {"tie": "all"}},
    "output tied, not scaled": {"embeddings": {"tie": "output", "scaled": False}},
    "short table of learned positions": {"both": {"position_encoding": "learned", "max_positions": 5}},
    "relative positions": {"both": {"position_encoding": "relative", "max_distance": 2}},
    "two kinds of positions": {
        "encoder": {"position_encoding": "rotary"},
        "decoder": {"position_encoding": "relative"},
    },
    "gelu, silu": {"encoder": {"activation": "gelu"}, "decoder": {"activation": "silu", "position_offset": 2}},
    "swiglu, relu": {"encoder": {"activation": "swiglu"}},
    "rms, post-norm": {"both": {"norm_type": "rmsnorm", "norm_order": "post"}},
    "norm of embeddings": {"both": {"embedding_norm": True}, "encoder": {"norm_order": "post"}},
    "one key for all heads": {"both": {"kv_heads": 1}, "score": {"kv_heads": 1}},
    "groups, relative": {"both": {"kv_heads": 2, "position_encoding": "relative"}, "score": {"kv_heads": 2}},
    "groups of different sizes": {"encoder": {"heads": 2}, "decoder": {"kv_heads": 2}, "score": {"kv_heads": 1}},
    "groups in cross-attention": {"score": {"kv_heads": 2}},
    "no biases, wide heads": {
        "both": {"bias": False, "head_dim": 6, "activation": "gelu_tanh"},
        "score": {"bias": False, "head_dim": 2},
    },
    "of t5": {"both": T5, "score": {"heads": 3, "bias": False, "head_dim": 6}},
    "modern": {"both": MODERN | {"position_encoding": "rotary"}, "embeddings": {"tie": "all"}},
    "odd width": {"embeddings": {"dim": 15}, "both": {"heads": 3}, "score": {"heads": 3}},
}
QUICK = {"one of each", "relative positions", "groups of different sizes", "of t5", "modern", "odd width"}
GREEDY = GreedyConfig(lengths=LengthsConfig(max_length_ratio=1.5))
Engines = tuple[NativeEngine, CTranslate2Engine]


def build(changes: dict[str, dict[str, Any]]) -> tuple[ModelConfig, Seq2Seq]:
    """A model in which tokens differ in probability and every parameter counts."""
    both = PART | changes.get("both", {})
    score = {"kind": "multi-head", "heads": 4} | changes.get("score", {})
    content = {
        "embeddings": {"dim": 16} | changes.get("embeddings", {}),
        "encoder": both | changes.get("encoder", {}),
        "decoder": both | changes.get("decoder", {}) | {"attention": {"score": score}},
    }
    config = ModelConfig.model_validate(content)
    torch.manual_seed(1)
    model = build_model(config, SIZE, SIZE).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight * 1.7 if weight.dim() > 1 else weight + torch.randn_like(weight) / 10)
        model.output_projection.bias[[PAD, BOS]] -= 20  # as after training
    return config, model


def export(config: ModelConfig, model: Seq2Seq, folder: Path, dtype: str = "float32") -> CTranslate2Engine:
    folder.mkdir(exist_ok=True)
    save_spec(build_spec(config, model, (SOURCE, TARGET)), folder, dtype)
    return CTranslate2Engine(folder, (SOURCE, TARGET), torch.device("cpu"), threads=1)


def random_ids(count: int, shortest: int, longest: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(count + longest)
    lengths = torch.randint(shortest, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(3, SIZE, (length,), generator=generator).tolist() for length in lengths]


SOURCES = random_ids(18, 1, 12)
PAIRS = list(zip(SOURCES, random_ids(18, 0, 14), strict=True))


def log_probs(engine: NativeEngine | CTranslate2Engine) -> torch.Tensor:
    """log p(target, EOS | source) of each pair."""
    return torch.tensor([sum(each) for each in engine.token_log_probs(PAIRS, budget=100)])


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Engines:
    config, model = build({})
    return NativeEngine(model), export(config, model, tmp_path_factory.mktemp("plain"))


def check_scores(
    engines: Engines, search: SearchConfig, prefixes: TokenIds | None = None
) -> list[list[tuple[int, ...]]]:
    """The translations of SOURCES, after a check that log-probabilities are those of the native model.

    That of EOS is left out where the limit truncated a hypothesis.
    """
    native, exported = engines
    output = exported.translate(SOURCES, search, budget=400, prefixes=prefixes or ())
    limits = (search.lengths.limits(torch.tensor([len(source) for source in SOURCES])).max_length - 1).tolist()
    sentences = zip(SOURCES, output, limits, prefixes or [()] * len(SOURCES), strict=True)
    for source, hypotheses, limit, prefix in sentences:
        forced = native.token_log_probs([(source, one.tokens) for one in hypotheses], budget=200)
        for one, token_log_probs in zip(hypotheses, forced, strict=True):
            assert len(one.tokens) <= max(limit, len(prefix)) and not {PAD, BOS, EOS} & {*one.tokens}
            is_truncated = len(one.tokens) == limit > len(prefix)
            length = len(one.tokens) + (not is_truncated)
            assert one.log_prob == pytest.approx(sum(token_log_probs[:length]), rel=1e-4, abs=1e-3)
            penalty = search.lengths.build_penalty().penalty(torch.tensor(length)).item()
            assert one.score == pytest.approx(one.log_prob / penalty, rel=1e-5)
        scores = [one.score for one in hypotheses]
        assert scores == sorted(scores, reverse=True)
    return [[one.tokens for one in hypotheses] for hypotheses in output]


@pytest.mark.parametrize("name", slow_but(QUICK, MODELS))
def test_probabilities_and_greedy_translations_are_the_same(name: str, tmp_path: Path) -> None:
    config, model = build(MODELS[name])
    native, exported = engines = NativeEngine(model), export(config, model, tmp_path / "model")
    torch.testing.assert_close(log_probs(exported), log_probs(native), atol=1e-3, rtol=1e-5)
    expected = [[best.tokens] for (best,) in native.translate(SOURCES, GREEDY, budget=1)]
    assert check_scores(engines, GREEDY) == expected
    assert len({best for (best,) in expected}) > 3


@pytest.mark.parametrize(
    "search",
    [
        GREEDY,
        pytest.param(GreedyConfig(lengths=LengthsConfig(max_length=6)), marks=pytest.mark.slow),
        GreedyConfig(lengths=LengthsConfig(max_length=5)),  # the longest prefix
        pytest.param(BeamConfig(beam_size=4, lengths=LengthsConfig(max_length=9)), marks=pytest.mark.slow),
        BeamConfig(beam_size=4, lengths=LengthsConfig(max_length=4)),  # below the longest prefix
    ],
)
def test_translations_begin_with_their_prefix(plain: Engines, search: SearchConfig) -> None:
    prefixes = [[], [5], [6, 7, 8, 9, 3]] * 6
    native = plain[0].translate(SOURCES, search, budget=1, prefixes=prefixes)
    for prefix, (ours, *_), (theirs, *_) in zip(prefixes, native, check_scores(plain, search, prefixes), strict=True):
        assert [*theirs[: len(prefix)]] == prefix
        assert theirs == ours.tokens or (search.kind == "beam" and len(prefix) < search.lengths.max_length)


@pytest.mark.parametrize(
    "lengths", [{"length_penalty": "none"}, {"alpha": 0.3}, {"alpha": 2.0}, {"length_penalty": "gnmt", "alpha": 2.0}]
)
def test_all_finished_hypotheses_are_ranked_by_the_length_penalty(tmp_path: Path, lengths: dict[str, Any]) -> None:
    """The reference is CTranslate2's search, with the native log-probabilities of all that it finished."""
    config, model = build({})
    with torch.no_grad():
        model.output_projection.bias[EOS] += 3  # hypotheses of different lengths
    native, exported = NativeEngine(model), export(config, model, tmp_path / "model")
    search = BeamConfig(beam_size=3, patience=4.0, lengths=LengthsConfig(**lengths, max_length=12))
    penalty, num_other = search.lengths.build_penalty(), 0
    prefixes = [[], [5], [5, 9, 17]] * 6
    output = exported.translate(SOURCES, search, budget=400, prefixes=prefixes)
    for source, prefix, best in zip(SOURCES, prefixes, output, strict=True):
        (result,) = exported._translator.translate_batch(
            *([[side.tokens[id] for id in ids]] for side, ids in ((SOURCE, source), (TARGET, prefix))),
            beam_size=3, num_hypotheses=12, patience=4.0, max_decoding_length=12, min_decoding_length=0,
        )  # fmt: skip
        finished = [tuple(map(TARGET.id, tokens)) for tokens in result.hypotheses]
        forced = native.token_log_probs([(source, ids) for ids in finished], budget=400)
        scores = {}
        for ids, log_probs in zip(finished, forced, strict=True):
            length = len(ids) + (len(ids) < 12)
            scores[ids] = sum(log_probs[:length]) / penalty.penalty(torch.tensor(length)).item()
        expected = sorted(scores.values(), reverse=True)[:3]
        assert [one.score for one in best] == pytest.approx(expected, rel=1e-3)
        num_other += finished[:3] != [one.tokens for one in best]
    assert num_other  # CTranslate2 ranks by the mean log-probability of the tokens after the prefix


@pytest.mark.parametrize("penalty", slow_but(["average"], ["none", "average", "gnmt"]))
def test_beams_are_the_same(tmp_path: Path, penalty: str) -> None:
    config, model = build({})
    with torch.no_grad():
        model.output_projection.weight.mul_(5)
        model.output_projection.bias[EOS] -= 50
    lengths = LengthsConfig(length_penalty=penalty, alpha=0.7, max_length_ratio=0.5, max_length=14)
    search = BeamConfig(beam_size=4, lengths=lengths)
    native, exported = NativeEngine(model), export(config, model, tmp_path / "model")
    ours = [{one.tokens for one in hypotheses} for hypotheses in native.translate(SOURCES, search, budget=1)]
    assert len({len(tokens) for beam in ours for tokens in beam}) > 3  # each as long as its limit
    # The order may differ: only the native scores include EOS.
    assert [{*beam} for beam in check_scores((native, exported), search)] == ours


@pytest.mark.parametrize(("penalty", "max_length"), [("none", 2), ("average", 9), ("gnmt", 256)])
def test_beams_have_different_hypotheses_within_the_limits(plain: Engines, penalty: str, max_length: int) -> None:
    lengths = LengthsConfig(length_penalty=penalty, alpha=0.7, max_length_ratio=0.5, max_length=max_length)
    for beam in check_scores(plain, BeamConfig(beam_size=4, lengths=lengths)):
        assert 1 <= len(beam) == len({*beam}) <= 4


def test_a_batch_has_sentences_with_different_limits(plain: Engines) -> None:
    sources, prefixes = random_ids(60, 1, 30), [[5] * (number % 3) for number in range(60)]
    for search in (
        GreedyConfig(lengths=LengthsConfig(max_length_ratio=0.3, max_length=16)),
        BeamConfig(beam_size=3, lengths=LengthsConfig(max_length_ratio=0.3, max_length=16)),
    ):
        together = plain[1].translate(sources, search, budget=4096, prefixes=prefixes)
        apart = plain[1].translate(sources, search, budget=1, prefixes=prefixes)
        assert [[one.tokens for one in beam] for beam in together] == [[one.tokens for one in beam] for beam in apart]
        assert len({len(beam[0].tokens) for beam in together}) > 5


def test_batches_and_threads_do_not_change_translations(plain: Engines) -> None:
    engine = plain[1]
    search = BeamConfig(beam_size=3, lengths=LengthsConfig(max_length=10))

    def translate(engine: CTranslate2Engine, budget: int) -> list[list[Sequence[int]]]:
        output = engine.translate(SOURCES, search, budget=budget)
        return [[one.tokens for one in hypotheses] for hypotheses in output]

    for threads, budget in ((1, 1), (2, 4096), (2, 40)):
        assert translate(replace(engine, threads=threads), budget) == translate(engine, 4096)
    assert engine.translate([[], []], search, budget=10)[1][0].tokens == ()
    assert engine.translate([], search, budget=10) == []


@pytest.mark.parametrize(("dtype", "min_difference"), [("float16", 0.0), ("int8", 1e-3)])
def test_quantized_weights_are_smaller_and_nearly_as_exact(tmp_path: Path, dtype: str, min_difference: float) -> None:
    config, model = build({"both": {"position_encoding": "rotary"}})
    whole, small = (export(config, model, tmp_path / name, name) for name in ("float32", dtype))
    sizes = [(engine.folder / "model.bin").stat().st_size for engine in (whole, small)]
    assert sizes[1] < 0.7 * sizes[0]
    expected = log_probs(whole)
    assert min_difference < (log_probs(small) - expected).abs().max() < 0.05 * expected.abs().max()


def test_int8_weights_have_7_bits(tmp_path: Path) -> None:
    """The sum of two products with unsigned 8-bit activations fits into 16 bits."""
    spec = build_spec(*build({}), (SOURCE, TARGET))
    save_spec(spec, tmp_path, "int8")
    variables = spec.variables()
    weights = [variables[name.removesuffix("_scale")].numpy() for name in variables if name.endswith("weight_scale")]
    assert weights and all(weight.dtype == "int8" for weight in weights)
    assert 2 * 255 * max(abs(weight.astype(int)).max() for weight in weights) < 2**15


@pytest.mark.parametrize(
    ("search", "key"),
    [
        (SampleConfig(), "search.kind"),
        (GreedyConfig(lengths=LengthsConfig(min_length=1)), "search.lengths.min_length"),
        (BeamConfig(lengths=LengthsConfig(min_length_ratio=0.1)), "search.lengths.min_length_ratio"),
        (GreedyConfig(lengths=LengthsConfig(max_length=2049)), "search.lengths.max_length"),
    ],
)
def test_an_unsupported_search_is_refused(plain: Engines, search: SearchConfig, key: str) -> None:
    engine = replace(plain[1], max_target_length=2048)
    assert [mistake.field for mistake in engine.unsupported(search)] == [key]
    with pytest.raises(EngineError, match=rf"`{key}`"):
        engine.translate([], search, budget=1)


def test_errors_of_ctranslate2_are_user_errors(tmp_path: Path, plain: Engines) -> None:
    with pytest.raises(UserError, match="ctranslate2"):
        replace(plain[1], folder=tmp_path).translate([[4]], GREEDY, budget=1)
    with pytest.raises(UserError, match="position"):
        plain[1].translate([[4] * 5000], GREEDY, budget=1)
    with pytest.raises(UserError, match=r"not found.*pip install nvidia-cublas-cu12.*``device=cpu``"), user_errors():
        raise RuntimeError("Library libcublas.so.12 is not found or cannot be loaded")
