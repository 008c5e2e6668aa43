"""One search for all decoders."""

from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig, SearchConfig
from seq2attn.search.length_penalty import LengthLimits, LengthPenalty
from seq2attn.search.search import Hypotheses, Step, search
from seq2attn.search.strategies import BeamSearch, GreedySearch, Sampling, SearchStrategy

__all__ = [
    "BeamConfig",
    "BeamSearch",
    "GreedyConfig",
    "GreedySearch",
    "Hypotheses",
    "LengthLimits",
    "LengthPenalty",
    "LengthsConfig",
    "SampleConfig",
    "Sampling",
    "SearchConfig",
    "SearchStrategy",
    "Step",
    "search",
]
