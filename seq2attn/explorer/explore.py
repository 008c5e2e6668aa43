"""The content of the explorer's page for one sentence: docs/explorer.md describes its JSON.

Log-probabilities are natural logarithms with three digits, attention weights thousandths.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from seq2attn.errors import UserError
from seq2attn.evaluation.head_selection import ALIGNMENT_HINT, AttentionHead, default_head
from seq2attn.explorer.importance import measure_importance
from seq2attn.explorer.recorder import SearchRecorder
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.input_checks import InputChecker, check_finite
from seq2attn.inference.scoring import token_log_probs
from seq2attn.inference.source_line import SourceLine
from seq2attn.inference.translation import Translation
from seq2attn.inference.translator import Translator
from seq2attn.io.terminal import plural
from seq2attn.models.attention_weights import AttentionWeights, cross_attention_weights
from seq2attn.models.seq2seq import IdPairs
from seq2attn.search.search_config import SearchConfig, beam_search
from seq2attn.tokenizers.normalize import is_blank
from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.tokenizers.vocabulary import BOS, EOS, UNK
from seq2attn.visualization.attention_map import KIND_NAMES, MEAN, AttentionMap
from seq2attn.visualization.page import map_content

Json = dict[str, Any]
DIGITS = 3
"""Decimals of log-probabilities."""
MAX_TEXT = 20_000
"""Characters of a text, or of a reference, that a page asks about."""
MIN_PERCENT = 5
"""The smallest weight of an alignment."""
MAX_SHORT = 30
"""Tokens of a side with EOS; less is recorded of longer sentences."""


@dataclass(frozen=True)
class Question:
    """A sentence to explore, and what is changed about its search; the limits are those of a page's questions."""

    text: str
    prefix: Annotated[tuple[int, ...], Field(max_length=1024)] = ()  # ids of the first tokens of the translation
    masked: tuple[int, ...] = ()  # numbers of source words that are replaced by <unk>
    beam: Annotated[int, Field(ge=1, le=1000)] | None = None  # in place of the search of the run
    reference: Annotated[str, Field(max_length=MAX_TEXT)] | None = None  # a translation to compare with


@dataclass(frozen=True)
class Explorer:
    """A translator whose searches are recorded."""

    name: str
    translator: Translator
    alignment_head: AttentionHead | None = None  # of the cross-attention

    def explore(self, question: Question, *, all_heads: bool = True) -> Json:
        """The search for a sentence with all candidates, its n-best list, and the attention of the best translation.

        Without `all_heads`, a long sentence has the mean of the heads of each layer.

        Raises UserError for text without words, and for a model that gives no finite log-probabilities.
        """
        search = self._search(question)
        checker, record = InputChecker(self.translator.known_characters), SearchRecorder()
        line = self._encode(question, search)
        if not line.segments[0]:
            raise UserError("there is no text to translate")
        (translation,) = self._recording(record, question).translate_encoded([line], search, checker)
        check_finite(checker.not_finite)
        record.finish()
        return {
            "run": self.name,
            "text": question.text,
            "source": asdict(TokenizedText.from_ids(self.translator.source, [*line.segments[0], EOS]))
            | {"is_reversed": self.translator.source.is_right_to_left},
            "search": self._describe(search),
            "prefix": question.prefix,
            "masked": question.masked,
            "hypotheses": self._hypotheses(translation, search, record),
            "tree": {name: _rounded(vars(node)[name] for node in record.nodes) for name in vars(record.nodes[0])},
            "considered": {str(node): [*map(_rounded, rows)] for node, rows in record.considered.items()},
            "tokens": self._token_texts(record),
            "attention": self._attention(*translation.ids[0], all_heads=all_heads),
            "alignment_head": self.alignment_head and asdict(self.alignment_head),
            "notes": [*checker.warnings()],
            "diagnosis": self._diagnosis(question, line, translation, search),
        }

    def record(self, question: Question, *, all_heads: bool = False) -> Json:
        """An exploration for a page without a server: of a short sentence with what mattered for each token.

        Of a long one it has the words considered along the n-best list, and without `all_heads` few heads.
        """
        content = self.explore(question, all_heads=all_heads)
        target = content["hypotheses"][0]["ids"]
        if max(len(target) + 1, len(content["source"]["tokens"])) > MAX_SHORT:
            parents, kept = content["tree"]["parent"], {one["leaf"] for one in content["hypotheses"]}
            for node in range(len(parents) - 1, 0, -1):
                if node in kept:
                    kept.add(parents[node])
            content["considered"] = {node: rows for node, rows in content["considered"].items() if int(node) in kept}
        elif len(self.translator.members) == 1:
            places = range(len(target) + 1)
            content["importance"] = {place: self.importance(question, target, place) for place in places}
        return content

    def _attention(self, source: Sequence[int], target: Sequence[int], *, all_heads: bool) -> Json | None:
        """Attention of every kind for a source and a translation, as ids; None for an ensemble."""
        if len(self.translator.members) > 1:
            return None
        weights = AttentionWeights.compute(self.translator.model, self.translator.tokenizers, source, target)
        kinds = [kind for kind in KIND_NAMES if weights.by_kind(kind)[2] is not None]
        maps: dict[str, AttentionMap] = {kind: AttentionMap.from_weights(weights, kind) for kind in kinds}
        cross, chosen = maps.get("cross"), self.alignment_head
        if not all_heads and max(len(source), len(target)) + 1 > MAX_SHORT:
            maps = {kind: one.head(MEAN) for kind, one in maps.items()}
        if cross is not None and chosen is not None:
            aligned = self._align(cross.weights)[None, None]
            maps["alignment"] = replace(cross.layer(chosen.layer).head(chosen.head), weights=aligned)
        return {name: map_content(one) for name, one in maps.items()}

    def _align(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """The weights of the head for alignment, else of the mean of the top layer: [L, H, T, S] -> [T, S]

        Raises UserError for a head that the model does not have.
        """
        as_input = np.pad(weights[:, :, 1:], [(0, 0), (0, 0), (0, 1), (0, 0)])  # of the next step; none reads EOS
        steps = np.stack([weights, as_input])
        head = self.alignment_head or default_head(steps, None)
        if not head.exists_in(steps):
            raise UserError(f"the model has no {head}; {ALIGNMENT_HINT}")
        return head.select(steps)

    def importance(self, question: Question, target: Sequence[int], place: int, other: int | None = None) -> Json:
        """Effects of the source words on the token at a place of a translation, or on it in place of `other`."""
        line = self._encode(question, self._search(question))
        self._check_ids([*target, EOS if other is None else other])
        return measure_importance(self.translator, line.segments[0], target, place, other)

    def _diagnosis(
        self, question: Question, line: SourceLine, translation: Translation, search: SearchConfig
    ) -> Json | None:
        """The cause of a translation that is not the reference: the search, if the reference has the better score.

        Scores have the length penalty of the search, but no penalty of coverage. None without a reference; for a
        forced beginning, terms of a glossary, and a part of a line, which constrain the search; for samples; and for a
        translation that was chosen from the n-best list by another score.
        """
        is_constrained = question.prefix or self.translator.glossary or line.warning is not None
        has_other_score = search.kind == "sample" or search.mbr or self.translator.rerankers
        if question.reference is None or is_constrained or has_other_score:
            return None
        if is_blank(question.reference):
            raise UserError("the reference is empty")
        ids = tuple(self.translator.target.encode(question.reference))
        source, best = translation.ids[0]
        pairs = [(source, best), (source, ids)]
        output, forced = token_log_probs(self.translator.engine, pairs, self.translator.max_batch_tokens)
        scores = [math.fsum(values) / _penalty(len(values), search) for values in (output, forced)]
        differ = (place for place, (a, b) in enumerate(zip((*best, EOS), (*ids, EOS), strict=False)) if a != b)
        return {
            "reference": asdict(TokenizedText.from_ids(self.translator.target, [*ids, EOS])),
            "log_probs": _rounded(forced),
            "output_log_probs": _rounded(output),
            "score": round(scores[1], DIGITS),
            "output_score": round(scores[0], DIGITS),
            "parts_at": next(differ, None),
            "cause": "equal" if ids == tuple(best) else "search" if scores[1] > scores[0] else "model",
            "unknown": ids.count(UNK),
        }

    def _search(self, question: Question) -> SearchConfig:
        self._check_ids(question.prefix)
        search = self.translator.search if question.beam is None else beam_search(self.translator.search, question.beam)
        if EOS in question.prefix:  # the user ends the sentence, at any length
            return search.with_value("lengths.min_length", 0).with_value("lengths.min_length_ratio", 0.0)
        return search

    def _check_ids(self, ids: Sequence[int]) -> None:
        size = len(self.translator.target.vocabulary)
        if not all(BOS < id < size for id in ids):
            raise UserError(f"a token of a translation is a number above {BOS} and below {size:,}, the vocabulary size")

    def _encode(self, question: Question, search: SearchConfig) -> SourceLine:
        """The first part of the line, with masked words and the prefix."""
        line = self.translator.encode(question.text, search.lengths)
        ids = list(line.segments[0])
        if question.masked:
            if len(self.translator.members) > 1:
                raise UserError("words are masked for one model, not for an ensemble")
            words = TokenizedText.from_ids(self.translator.source, ids).word_ids
            tokens = zip(ids, words, strict=True)  # a masked word of several tokens becomes one
            ids = [
                UNK if word in question.masked else id
                for place, (id, word) in enumerate(tokens)
                if word not in question.masked or words.index(word) == place
            ]
        first = replace(line, line=line.texts[0], segments=(tuple(ids),), segment_texts=line.segment_texts[:1])
        if line.warning is not None:
            reason = line.warning.rpartition("; ")[0]  # without what `translate` does with the other parts
            part = f"{len(first.line):,} of {len(question.text):,} characters"
            first = replace(first, warning=f"{reason}; only the first part of the text is shown, {part}")
        return replace(first, prefix=question.prefix)

    def _recording(self, record: SearchRecorder, question: Question) -> Translator:
        engine = self.translator.engine
        if type(engine) is not NativeEngine:
            raise UserError(f"the search of the engine {engine.name} cannot be recorded; use ``engine=native``")
        glossary = None if EOS in question.prefix else self.translator.glossary  # the user ends the sentence, as it is
        return replace(self.translator, engine=replace(engine, observer=record, cuda_graphs=False), glossary=glossary)

    def _describe(self, search: SearchConfig) -> Json:
        """The search in words, and the name of its scores."""
        kind, size = search.kind, search.num_hypotheses
        texts = {"greedy": "greedy search", "sample": plural(size, "sample"), "beam": f"beam search of {size}"}
        score = "score of reranking" if self.translator.rerankers else "expected chrF" if search.mbr else "score"
        return {"kind": kind, "size": size, "description": texts[kind], "score": score}

    def _hypotheses(self, best: Translation, search: SearchConfig, record: SearchRecorder) -> list[Json]:
        """The n-best list; those after the best, which has all attention, with theirs for alignment."""
        leaves = {record.tokens(n): n for n, node in enumerate(record.nodes) if node.score is not None}
        alignments = self._alignments([one.ids[0] for one in best.alternatives])
        return [
            {
                "text": one.text,
                "ids": list(ids := one.ids[0][1]),
                "target": asdict(TokenizedText.from_ids(self.translator.target, [*ids, EOS])),
                "log_prob": round(one.log_prob, DIGITS),
                "penalty": round(_penalty(len(ids) + 1, search), DIGITS),
                "score": round(one.score, DIGITS),
                "token_log_probs": _rounded(node.log_prob for node in record.path(leaves[*ids, EOS])),
                "leaf": leaves[*ids, EOS],
                "alignment": alignment,
            }
            for one, alignment in zip((best, *best.alternatives), (None, *alignments), strict=True)
        ]

    def _alignments(self, pairs: IdPairs) -> list[Json | None]:
        """For each translation of one source its weights [T][S] in percent; None without attention.

        Small weights, which pointing at a word hardly shows, are 0, so that a file is small.
        """
        if len(self.translator.members) > 1:
            return [None] * len(pairs)
        found = cross_attention_weights(self.translator.model, pairs)
        percent = (None if weights is None else np.rint(100 * self._align(weights)).astype(int) for weights in found)
        return [None if one is None else np.where(one < MIN_PERCENT, 0, one).tolist() for one in percent]

    def _token_texts(self, record: SearchRecorder) -> dict[int, str]:
        considered = {row[0] for rows in record.considered.values() for row in rows}
        ids = sorted(considered | {node.token for node in record.nodes})
        return dict(zip(ids, self.translator.target.convert_ids_to_tokens(ids), strict=True))


def _penalty(length: int, search: SearchConfig) -> float:
    """The divisor of the log-probability of a translation with EOS."""
    return search.lengths.build_penalty().penalty(torch.tensor(length)).item()


def _rounded(values: Iterable[Any]) -> list[Any]:
    """The values, with numbers that are not whole rounded."""
    return [round(x, DIGITS) if isinstance(x, float) else x for x in values]
