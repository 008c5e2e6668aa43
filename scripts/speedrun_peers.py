"""BLEU of another toolkit after minutes of training on the text of a run of ours: `speedrun_peers.py RUN hf`.

A Transformer of 3 + 3 layers of 256, by Hugging Face (MarianMTModel) or torch.nn.Transformer, is trained by the plain
loop of the benchmark, with the tokenizer of RUN. After each of the minutes it translates the dev set and the first test
set by our beam search, so that all have the same search, and sacreBLEU scores the text. That time does not count.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from benchmark.programs import marian, plain
from benchmark.programs.batches import EOS, pad, updates
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor, nn

from seq2attn.data.prepared_data import PreparedData, load_prepared
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.search.search_config import BeamConfig
from seq2attn.search.translate_ids import default_batch_tokens, translate_ids

TOKENS = 4096
"""Rows times the longer side of a batch."""
TOOLKITS = ("hf", "plain")


class Peer:
    """A Transformer of another toolkit, for our search. A step decodes the whole prefix again.

    Shapes: B sentences, N = B*K rows, S source tokens, t tokens of a prefix.
    """

    def __init__(self, toolkit: str, vocab_size: int) -> None:
        torch.manual_seed(1)
        build = marian.build_model if toolkit == "hf" else plain.Transformer
        self.model: nn.Module = build(vocab_size=vocab_size)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.model.parameters()).device

    def logits(self, source: Tensor, inputs: Tensor) -> Tensor:
        """ids [N, S], [N, t] -> logits [N, t, V]"""
        output: Tensor = self.model(source, inputs)
        return output

    def encode_sources(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """ids without EOS -> ids [B, S] as the memory, and empty prefixes [B, 0] as the state"""
        ids = pad([[*source, EOS] for source in sources]).to(self.device)
        return ids, ids.new_zeros(len(ids), 0)

    def step(self, ids: Tensor, prefix: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        """[N], [N, t], [B, S] -> log-probabilities [N, V] of the next token, and longer prefixes [N, t + 1]"""
        prefix = torch.cat([prefix, ids.unsqueeze(1)], 1)
        rows = source.repeat_interleave(len(ids) // len(source), 0)
        return F.log_softmax(self.logits(rows, prefix)[:, -1].float(), -1), prefix

    def token_log_probs(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Tensor:
        """Not used by a search."""
        raise NotImplementedError

    def translate(self, prepared: PreparedData, lines: Sequence[str]) -> list[str]:
        """Translations by beam search."""
        self.model.eval()
        sources = [prepared.source.encode(line) for line in lines]
        budget = default_batch_tokens(self.device)
        hypotheses = translate_ids(self, sources, BeamConfig(beam_size=5), budget=budget)
        return [prepared.target.decode(best[0].tokens) for best in hypotheses]


def main() -> None:
    """Train, and print a line of JSON for each of the minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run of ours with a joint tokenizer and a test set")
    parser.add_argument("toolkit", choices=TOOLKITS)
    parser.add_argument("--minutes", type=float, nargs="+", default=[10.0, 30.0], help="when to translate")
    parser.add_argument("--bfloat16", action="store_true", help="train in bfloat16")
    arguments = parser.parse_args()
    prepared, experiment = load_prepared(arguments.run), RunDirectory(arguments.run).load_config()
    assert experiment.tokenizer.joint is not None, "the toolkits share one table of embeddings"
    test = [pair.text for pair in next(iter(experiment.data.test.values())).pairs()]
    sets = {"dev": (prepared.dev_sources, prepared.dev_references[0]), "test": tuple(zip(*test, strict=True))}
    corpus = prepared.train.corpus
    pairs = [tuple(side.tolist() for side in corpus[row]) for row in range(len(corpus))]
    peer, remaining = Peer(arguments.toolkit, len(prepared.target.vocabulary)), sorted(arguments.minutes)
    start = time.monotonic()
    for update in updates(peer.model, peer.logits, pairs, TOKENS, bfloat16=arguments.bfloat16):
        seconds = time.monotonic() - start
        if seconds < 60 * remaining[0]:
            continue
        record = {"toolkit": arguments.toolkit, "minutes": remaining.pop(0), "updates": update.number}
        record |= {"target_tokens": update.num_tokens, "loss": round(update.loss.item(), 3)}
        for name, (sources, references) in sets.items():
            bleu = BLEU()
            record[f"{name}_bleu"] = round(bleu.corpus_score(peer.translate(prepared, sources), [references]).score, 2)
        print(json.dumps(record | {"signature": str(bleu.get_signature())}), flush=True)
        if not remaining:
            return
        start = time.monotonic() - seconds  # translation does not count


if __name__ == "__main__":
    main()
