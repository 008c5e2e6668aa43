"""One search for all decoders."""

from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig, SearchConfig
from seq2attn.search.length_penalty import LengthRule, Limits
from seq2attn.search.search import Hypotheses, Step, search
from seq2attn.search.strategies import Beam, Choose, Greedy, Sample

__all__ = [
    "Beam",
    "BeamConfig",
    "Choose",
    "Greedy",
    "GreedyConfig",
    "Hypotheses",
    "LengthRule",
    "LengthsConfig",
    "Limits",
    "Sample",
    "SampleConfig",
    "SearchConfig",
    "Step",
    "search",
]
