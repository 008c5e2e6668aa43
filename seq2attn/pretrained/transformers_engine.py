"""Hugging Face's `transformers` as an engine, to compare an imported model with the original."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2attn.errors import UserError
from seq2attn.inference.engines.base import Engine
from seq2attn.models.seq2seq import IdPairs
from seq2attn.search.search_config import SearchConfig
from seq2attn.search.translate_ids import Hypothesis, Phrases, TokenIds
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD


def check_tokenizer(
    folder: Path, source: Tokenizer, rows: Sequence[int], original: Callable[[str], list[int]], lines: Sequence[str]
) -> None:
    """Raises UserError if the `original` gives other ids than `source` for a line; `rows`: of the source."""
    for line in lines:
        _, line = source.split_tag(line)  # which is put before it on both sides
        theirs = original(source.normalize(line))
        ours = [rows[id] for id in (*source.encode(line), EOS)]
        if ours != theirs:
            ids = f"{ours} here, {theirs} of the original"
            raise UserError(f"{folder}: the tokenizers give other ids for {line!r}: {ids}")


@dataclass(frozen=True)
class TransformersEngine(Engine):
    """Search by `generate`, one sentence at a time, and forced decoding; tokens are ours."""

    name = "transformers"
    model: Any  # of `transformers`, in evaluation mode
    rows: tuple[Sequence[int], Sequence[int]]  # their id of each of our ids, of both sides
    max_source_length: int | None = None
    renormalize: bool = True  # after PAD and BOS, which are never decoded, are left out

    @property
    def description(self) -> str:
        """Name and precision, for reports."""
        return "transformers float32"

    @torch.no_grad()
    def translate(
        self, sources: TokenIds, search: SearchConfig, *, budget: int, prefixes: TokenIds = (), phrases: Phrases = ()
    ) -> list[list[Hypothesis]]:
        """The best hypothesis of each source, by a beam that ends when no other can become better.

        Raises UserError for phrases, and options of the search that are not compared.
        """
        from transformers import GenerationConfig

        options = search.model_dump(exclude={"kind", "beam_size", "patience", "lengths"}, exclude_defaults=True)
        options |= search.lengths.model_dump(include={"min_length", "min_length_ratio"}, exclude_defaults=True)
        if sources and (phrases or options or search.kind == "sample" or search.lengths.length_penalty == "gnmt"):
            raise UserError("transformers is compared in plain greedy and beam search only")
        lengths = torch.tensor([len(source) for source in sources])
        limits = search.lengths.limits(lengths).max_length.tolist()
        output = []
        beam, penalty = search.num_hypotheses, search.lengths.build_penalty()
        alpha = penalty.alpha if penalty.kind == "average" else 0.0
        for source, limit, prefix in zip(sources, limits, prefixes or [()] * len(sources), strict=True):
            if not source:
                output.append([Hypothesis((), 0.0, 0.0)])
                continue
            longest = max(limit, len(prefix) + 1)
            config = GenerationConfig(
                num_beams=beam,
                max_new_tokens=longest,
                **({"length_penalty": alpha, "early_stopping": "never"} if beam > 1 else {}),
                eos_token_id=self.rows[1][EOS],
                pad_token_id=self.rows[1][PAD],
                decoder_start_token_id=self._start,
            )
            constraint = _Constraint(self, longest, prefix)
            output_ids = self.model.generate(self._source(source), config, logits_processor=[constraint])
            ids = output_ids[0].tolist()
            ids = ids[1 : ids.index(self.rows[1][EOS], 1)]
            tokens = tuple(EOS + self.rows[1][EOS:].index(id) for id in ids)  # BOS may have the row of another token
            log_prob = sum(self.token_log_probs([(source, tokens)], budget=budget)[0])
            score = log_prob / penalty.penalty(torch.tensor(len(tokens) + 1)).item()
            output.append([Hypothesis(tokens, score, log_prob)])
        return output

    @torch.no_grad()
    def token_log_probs(self, pairs: IdPairs, *, budget: int) -> list[list[float]]:
        """Forced decoding: the log-probability of each target token and of EOS."""
        output = []
        for source, target in pairs:
            labels = [self.rows[1][id] for id in (*target, EOS)]
            logits = self.model(
                input_ids=self._source(source), decoder_input_ids=torch.tensor([[self._start, *labels[:-1]]])
            ).logits[0]
            if self.renormalize:
                logits[:, self.suppressed] = -torch.inf
            output.append(logits.log_softmax(-1).gather(1, torch.tensor(labels)[:, None]).squeeze(1).tolist())
        return output

    @cached_property
    def suppressed(self) -> list[int]:
        """Tokens that are never decoded: PAD and BOS, unless BOS has the row of another token."""
        return [*{self.rows[1][PAD], self.rows[1][BOS]} - {*self.rows[1][EOS:]}]

    @property
    def _start(self) -> int:
        return int(self.model.config.decoder_start_token_id)

    def _source(self, ids: Sequence[int]) -> torch.Tensor:
        return torch.tensor([[self.rows[0][id] for id in (*ids, EOS)]])


@dataclass(frozen=True)
class _Constraint:
    """Log-probabilities of the next token; in the prefix and at the limit, of one token alone.

    `transformers` inspects its signature at each step, which takes long for a `partial`.
    """

    engine: TransformersEngine
    limit: int
    prefix: Sequence[int]

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        rows, length = self.engine.rows[1], ids.size(1)  # with the first token
        scores = scores.index_fill(1, torch.tensor(self.engine.suppressed), -torch.inf)
        scores = scores.log_softmax(1) if self.engine.renormalize else scores
        if len(self.prefix) < length < self.limit:
            return scores
        forced = rows[self.prefix[length - 1]] if length <= len(self.prefix) else rows[EOS]
        return torch.full_like(scores, -torch.inf).index_copy(1, torch.tensor([forced]), scores[:, [forced]])
