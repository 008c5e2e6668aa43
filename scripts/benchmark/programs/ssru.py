"""CPU time of T with self-attention and with SSRUs in the decoder, in turn: `python ssru.py [TOKENS] [ROUNDS]`.

Random weights and words; every sentence and every translation has TOKENS tokens, by default 14 as in Multi30k. The CPU
time of the process is measured, so that it may run beside others; one thread.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch

from seq2attn.data.collate import collate
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.models import ModelConfig, Seq2Seq, build_model
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig, SearchConfig

VOCABULARY, BATCH_TOKENS, SENTENCES = 8000, 3400, 100
LAYERS = {"layers": 3, "ffn_dim": 1024, "norm_order": "post"}
SELF_ATTENTION = {"kind": "transformer", "heads": 4, **LAYERS}
ATTENTION = {"attention": {"score": {"kind": "multi-head", "heads": 4}}}
DECODERS = {"self-attention": {**SELF_ATTENTION, **ATTENTION}, "ssru": {"kind": "ssru", **LAYERS, **ATTENTION}}


def build(decoder: str) -> Seq2Seq:
    """T of configs/bench/t.yaml, with one of the decoders."""
    embeddings = {"dim": 256, "tie": "all"}
    config = {"embeddings": embeddings, "encoder": SELF_ATTENTION, "decoder": DECODERS[decoder]}
    torch.manual_seed(0)
    return build_model(ModelConfig.model_validate(config), VOCABULARY, VOCABULARY)


def training(model: Seq2Seq, tokens: int) -> tuple[Callable[[], None], int]:
    """Forward and backward pass of a batch, and its target tokens."""
    objective = TrainingLoss(model, 0.1).train()
    pairs = [(words(tokens), words(tokens)) for _ in range(BATCH_TOKENS // (tokens + 1))]
    batch = collate(pairs)
    return lambda: objective(batch).loss.backward(), len(pairs) * (tokens + 1)


def search(model: Seq2Seq, config: SearchConfig, tokens: int) -> tuple[Callable[[], None], int]:
    """Translation of sentences, and their number."""
    engine, sources = NativeEngine(model.eval()), [words(tokens) for _ in range(SENTENCES)]

    def run() -> None:
        engine.translate(sources, config, budget=8192)

    return run, SENTENCES


def words(tokens: int) -> list[int]:
    """Random ids."""
    return torch.randint(4, VOCABULARY, (tokens,)).tolist()


def main(tokens: int = 14, rounds: int = 7) -> None:
    """Print medians, ranges, and the ratios of the pairs of each round."""
    torch.set_num_threads(1)
    lengths = LengthsConfig(min_length=tokens, max_length=tokens)
    searches: dict[str, SearchConfig] = {
        "greedy, sentences/s": GreedyConfig(kind="greedy", lengths=lengths),
        "beam 5, sentences/s": BeamConfig(kind="beam", beam_size=5, lengths=lengths),
    }
    tasks = {("training, target tokens/s", name): training(build(name), tokens) for name in DECODERS}
    tasks |= {
        (case, name): search(build(name), config, tokens) for case, config in searches.items() for name in DECODERS
    }
    speeds: dict[tuple[str, str], list[float]] = {key: [] for key in tasks}
    for number in range(rounds + 1):  # the first is not counted
        for key, (run, count) in tasks.items():
            start = time.process_time()
            run()
            speeds[key] += [count / (time.process_time() - start)] * (number > 0)
    for case in dict.fromkeys(case for case, _ in tasks):
        one, other = (speeds[case, name] for name in DECODERS)
        ratios = [b / a for a, b in zip(one, other, strict=True)]
        print(
            case,
            *(f"{statistics.median(x):,.2f} [{min(x):,.2f}-{max(x):,.2f}]" for x in (one, other, ratios)),
            sep=" | ",
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
