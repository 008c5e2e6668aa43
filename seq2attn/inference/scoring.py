"""Log-probabilities of given translations, by forced decoding: the work of `seq2attn score`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seq2attn.data.readers import PlainTextConfig, read_pairs
from seq2attn.engines.native import NativeEngine
from seq2attn.inference.source_line import model_source_limit
from seq2attn.io.files import output
from seq2attn.io.text_lines import escape_breaks
from seq2attn.models import Seq2Seq
from seq2attn.nn.out_of_memory import is_oom_error
from seq2attn.run_directory import RunDirectory
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.vocabulary import EOS, UNK

WINDOW = 1024
"""Pairs that are scored together."""
MAX_BATCH_TOKENS = 4096
"""Tokens of both sides in a batch, padding counted."""


@dataclass(frozen=True)
class ScoredPair:
    """A source and a translation, with the log-probability of each token and of the end; none if both are empty."""

    source: str
    target: str
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]

    @property
    def log_prob(self) -> float:
        """log p(target, end | source), as the search defines it."""
        return math.fsum(self.token_log_probs)


def score_pairs(
    model: Seq2Seq, tokenizers: tuple[Tokenizer, Tokenizer], pairs: Sequence[tuple[str, str]]
) -> Iterator[ScoredPair]:
    """The scores of `pairs` in their order; an empty pair has no tokens and the log-probability 0."""
    engine, budget = NativeEngine(model), MAX_BATCH_TOKENS
    for start in range(0, len(pairs), WINDOW):
        some = pairs[start : start + WINDOW]
        ids = [(tokenizers[0].encode(source), tokenizers[1].encode(target)) for source, target in some]
        while True:
            try:
                found = engine.token_log_probs(ids, budget=budget)
                break
            except (RuntimeError, MemoryError) as error:
                if not is_oom_error(error) or budget == 1:
                    raise
                budget //= 2
        for (source, target), (_, own), log_probs in zip(some, ids, found, strict=True):
            tokens = tokenizers[1].convert_ids_to_tokens([*own, EOS][: len(log_probs)])
            yield ScoredPair(source, target, tuple(tokens), tuple(log_probs))


def score_files(
    run: RunDirectory,
    model: Seq2Seq,
    tokenizers: tuple[Tokenizer, Tokenizer],
    corpus: PlainTextConfig,
    to: Path | None,
    *,
    as_json: bool = False,
    per_token: bool = False,
) -> None:
    """Write a line for each pair of a corpus to a file or to standard output, and a summary to standard error.

    Both files are read once and whole, so that unequal files are refused before the work. Raises: DataError.
    """
    pairs = list(read_pairs(corpus))
    _warn(run, tokenizers, pairs)
    lines, total, count = list[str](), 0.0, 0
    for pair in score_pairs(model, tokenizers, pairs):
        lines.append(_line(pair, as_json=as_json, per_token=per_token))
        total, count = total + pair.log_prob, count + len(pair.token_log_probs)
    if to is None:
        sys.stdout.writelines(lines)
        sys.stdout.flush()
    else:
        with output(to) as file:
            file.write("".join(lines).encode())
    perplexity = math.exp(min(-total / max(count, 1), 700.0))
    size = f"{len(pairs):,} pairs, {count:,} tokens with ends"
    print(f"{size}: log-probability {total:,.2f}, perplexity {perplexity:.2f}", file=sys.stderr)


def _line(pair: ScoredPair, *, as_json: bool, per_token: bool) -> str:
    if as_json:
        content = {
            "source": pair.source,
            "target": pair.target,
            "log_prob": pair.log_prob,
            "tokens": pair.tokens,
            "token_log_probs": pair.token_log_probs,
        }
        return escape_breaks(json.dumps(content, ensure_ascii=False)) + "\n"
    tokens = [f"{token} {log_prob:.4f}" for token, log_prob in zip(pair.tokens, pair.token_log_probs, strict=True)]
    return "\t".join([f"{pair.log_prob:.4f}", *(tokens if per_token else [])]) + "\n"


def _warn(run: RunDirectory, tokenizers: tuple[Tokenizer, Tokenizer], pairs: Sequence[tuple[str, str]]) -> None:
    """Name what makes log-probabilities hard to compare: long sources, unknown tokens and one empty side."""
    limit, unknown = model_source_limit(run.load_config()), 0
    for number, (source, target) in enumerate(pairs, start=1):
        if bool(source.strip()) != bool(target.strip()):
            print(f"warning: line {number:,}: one side is empty; scored all the same", file=sys.stderr)
        if (length := len(tokenizers[0].encode(source))) > limit.max_tokens:
            message = f"warning: line {number:,}: {length:,} tokens, and {limit.reason}; scored whole all the same"
            print(message, file=sys.stderr)
        unknown += tokenizers[1].encode(target).count(UNK)
    if unknown:
        print(f"warning: {unknown:,} tokens of the target are unknown, and scored as <unk>", file=sys.stderr)
