"""The programs of every model find what the model finds, whatever is plugged in and however large a batch is."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from seq2attn.engines.native import Native
from seq2attn.engines.probe import LEAST, probe
from seq2attn.engines.programs.reader import ProgramReader
from seq2attn.engines.programs.target import compile_programs, open_programs
from seq2attn.engines.programs.trace import Traced, trace
from seq2attn.model import Seq2Seq
from seq2attn.search.batched import translate_ids
from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig
from tests.laws.parts import DECODERS, ENCODERS, EVERY_DECODER, FIXED, model
from tests.laws.test_search import chance

LINES = [[4, 5, 6], [], [7], [3, 4, 5, 6, 7, 8, 9], [10, 9], [4, 5, 6]]
SEARCHES = {
    "greedy": GreedyConfig(kind="greedy", lengths=LengthsConfig(max_length=6)),
    "beam": BeamConfig(kind="beam", width=3, lengths=LengthsConfig(max_length=6)),
    "sample": SampleConfig(kind="sample", width=2, lengths=LengthsConfig(max_length=6)),
}
PLUGGED = {
    "bahdanau-gru": ("gru", "coverage-2-heads", "global"),
    "bahdanau-lstm": ("convolutional", "additive-4-heads", "entmax15"),
    "luong-feeding": ("bert", "general-4-heads", "hard-gumbel"),
    "luong": ("lstm", "cosine-2-heads", "local-p"),
    "recurrent-all": ("transformer", "offset", "global"),
    "recurrent-previous-fed": ("convolutional", "scaled-dot", "monotonic"),
    "recurrent-previous-whole": ("gru-forward", "location-2-heads", "sparsemax"),
    "transformer": ("transformer-post-learned", "multi-head", "global"),
    "transformer-post-learned": ("convolutional", "multi-head-2-groups", "local-p-renormalised"),
    "transformer-rotary": ("transformer-relative", "multi-head-2-groups", "local-m"),
    "convolutional": ("convolutional", "dot-2-heads", "global"),
    "fixed-gru": ("convolutional", "none", "none"),
    "fixed-lstm": ("gru-forward", "none", "none"),
}
"""With each decoder an encoder, a score and an alignment."""
LATER = (
    "bahdanau-lstm",
    "recurrent-all",
    "recurrent-previous-fed",
    "recurrent-previous-whole",
    "transformer-post-learned",
    "fixed-lstm",
)
"""Those that have a near relative among the others: a trace takes seconds."""


def plugged(decoder: str) -> Seq2Seq:
    encoder, score, align = PLUGGED[decoder]
    return chance(model(encoder, decoder, score, align)).float()


def interpreted(traced: Traced) -> ProgramReader:
    """The programs as torch.export has them, uncompiled."""
    encode, step = (program.module(check_guards=False) for program in (traced.encode, traced.step))
    return ProgramReader(
        lambda given: encode(*given),
        lambda given: step(*given),
        traced.memories,
        traced.own,
        traced.output,
        torch.device("cpu"),
    )


def assert_same(net: Seq2Seq, reader: ProgramReader) -> None:
    """The same hypotheses by each search, together or alone, and the same scores of them."""
    for name, budget in (("greedy", 1000), ("beam", 1000), ("sample", 1)):
        ours = translate_ids(net, LINES, SEARCHES[name], budget=budget)
        theirs = reader.translate(LINES, SEARCHES[name], budget=budget)
        assert [[h.tokens for h in one] for one in theirs] == [[h.tokens for h in one] for one in ours]
        scores = [h.score for one in ours for h in one]
        assert [h.score for one in theirs for h in one] == pytest.approx(scores, abs=1e-4)
    read = [(line, one[0].tokens) for line, one in zip(LINES, ours, strict=True) if line]
    assert reader.score(read, budget=100) == pytest.approx(Native(net).score(read, budget=100), abs=1e-4)


def test_every_part_is_plugged():
    assert list(PLUGGED) == EVERY_DECODER == [*DECODERS, *FIXED]
    assert {encoder for encoder, _, _ in PLUGGED.values()} == {*ENCODERS}


@pytest.mark.parametrize(
    "decoder", [pytest.param(d, marks=pytest.mark.slow if d in LATER else ()) for d in PLUGGED]
)
def test_programs_find_what_the_model_finds(decoder):
    net = plugged(decoder)
    assert_same(net, interpreted(trace(net)))


@pytest.mark.slow
@pytest.mark.parametrize("decoder", EVERY_DECODER)
def test_compiled_programs_find_what_the_model_finds(decoder, tmp_path: Path):
    net = plugged(decoder)
    compile_programs(trace(net), tmp_path)
    assert_same(net, open_programs(tmp_path))


def test_a_probe_sees_programs_of_other_weights():
    net = plugged("fixed-gru")
    reader = interpreted(trace(net))
    searches = [(name, SEARCHES[name]) for name in ("greedy", "beam")]
    found = probe(Native(net), reader, LINES, searches)
    assert found.tokens == 1.0 and found.forced is not None and found.forced.largest < 1e-4
    other = copy.deepcopy(net)  # the programs hold the model's own weights
    with torch.no_grad():
        other.output.bias[5] += 3
    assert probe(Native(other), reader, LINES, searches).tokens < LEAST
