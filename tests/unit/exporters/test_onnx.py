"""Models in ONNX Runtime: the same probabilities and translations by every search, for each family of decoders.

Slow: a quicker export is in tests/cli/test_onnx.py.
"""

from pathlib import Path

import pytest
import torch

from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.exporters.onnx_graphs import build_graphs
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.engines.onnx_engine import ENCODE_FILE, STEP_FILE, OnnxEngine, OnnxModel, OnnxState, load_onnx
from seq2attn.models import build_model
from seq2attn.nn.decoding_state import select_rows
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig, SearchConfig
from seq2attn.tokenizers.vocabulary import BOS, PAD
from tests.support import models as parts

Parts = tuple[str, str, str, str]
MODELS: list[Parts] = [
    ("gru-forward", "transformer-post-learned", "multi-head-2-groups", "global"),
    ("gru-forward", "bahdanau-gru", "general-4-heads", "local-m"),
    ("transformer-relative", "transformer-rotary", "multi-head-2-groups", "global"),
    ("gru", "fixed-gru", "none", "none"),
    ("convolutional", "convolutional", "scaled-dot", "global"),
    ("lstm", "luong-feeding", "coverage-2-heads", "monotonic"),
    ("transformer-post-learned", "bahdanau-lstm", "additive-4-heads", "local-p"),
    ("bert", "luong", "multi-head", "sparsemax"),
    ("gru", "recurrent-all", "cosine-2-heads", "entmax15"),
    ("transformer", "recurrent-previous-fed", "location-2-heads", "hard-reinforce"),
    ("gru", "recurrent-previous-whole", "offset", "hard-gumbel"),
    ("gru", "transformer-post-learned", "coverage", "local-p-renormalized"),
    ("gru", "transformer-relative", "coverage-2-heads", "monotonic"),
    ("transformer-t5", "transformer-t5", "multi-head-wide", "global"),
    ("lstm", "fixed-lstm", "none", "none"),
    ("transformer", "ssru", "multi-head", "global"),
]
"""Each encoder, each decoder, each alignment, and a score of each kind."""
LENGTHS = LengthsConfig(max_length=12, min_length=2)
SEARCHES: list[SearchConfig] = [
    GreedyConfig(lengths=LENGTHS),
    BeamConfig(beam_size=4, lengths=LENGTHS),
    SampleConfig(num_samples=3, seed=5, lengths=LENGTHS),
]


def random_ids(lengths: tuple[int, ...]) -> list[list[int]]:
    generator = torch.Generator().manual_seed(len(lengths))
    return [torch.randint(3, parts.WORDS, (length,), generator=generator).tolist() for length in lengths]


SOURCES, PREFIXES = random_ids((1, 12, 3, 0, 7, 5, 5)), random_ids((0, 2, 0, 0, 1, 3, 0))
PAIRS = list(zip(SOURCES, random_ids((4, 0, 5, 2, 13, 5, 1)), strict=True))


def export(names: Parts, folder: Path) -> tuple[NativeEngine, OnnxEngine]:
    """Both engines of a model in which tokens differ in probability."""
    torch.manual_seed(2)
    model = build_model(parts.config(*names), parts.WORDS, parts.WORDS).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight * 1.5 if weight.dim() > 1 else weight + torch.randn_like(weight) / 10)
        model.output_projection.bias[[PAD, BOS]] -= 20  # as after training
    native, encoder = NativeEngine(model), model.encoder
    for graph, name in zip(build_graphs(model), (ENCODE_FILE, STEP_FILE), strict=True):
        graph.save(folder / name)
    model.encoder = encoder
    return native, OnnxEngine(OnnxModel(folder))


@pytest.mark.slow
@pytest.mark.parametrize("names", MODELS)
def test_probabilities_and_translations_are_the_same(names: Parts, tmp_path: Path) -> None:
    native, exported = export(names, tmp_path)
    assert exported.description == "onnx float32"
    ours, theirs = (engine.token_log_probs(PAIRS, budget=40) for engine in (native, exported))
    for one, other in zip(ours, theirs, strict=True):
        assert other == pytest.approx(one, rel=1e-4, abs=1e-4)
    found = set()
    for search in SEARCHES:
        for prefixes in (None, PREFIXES):
            native_best, best = (
                engine.translate(SOURCES, search, budget=80, prefixes=prefixes) for engine in (native, exported)
            )
            for expected, hypotheses in zip(native_best, best, strict=True):
                assert [one.tokens for one in hypotheses] == [one.tokens for one in expected]
                scores = [[one.score for one in side] for side in (hypotheses, expected)]
                assert scores[0] == pytest.approx(scores[1], rel=1e-4, abs=1e-4)
                found.update(one.tokens for one in hypotheses)
    assert len(found) > 20
    check_selected_rows(exported.model)


def check_selected_rows(model: OnnxModel) -> None:
    """Rows of a state in the middle of a beam search continue alone as they do together."""
    memory, state = model.encode_sources(SOURCES[1:5])
    state = model.step(parts.targets(8, 1)[:, 0], state.repeat_rows(2), memory)[1]
    tokens, rows = parts.targets(8, 2)[:, 1], torch.tensor([1, 6, 7])
    alone: OnnxState = state.select_rows(rows)
    expected, _ = model.step(tokens, state, memory)
    found, _ = model.step(tokens[rows], alone, select_rows(memory, rows // 2))
    torch.testing.assert_close(found, expected[rows], atol=1e-4, rtol=1e-4)


def test_a_gpu_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the engine onnx runs on the CPU only; give ``device=cpu``"):
        load_onnx(RunDirectory(tmp_path), tmp_path, torch.device("cuda"))
