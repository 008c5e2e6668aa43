"""The measures of all translations of a file or test set, for the explorer's table."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from seq2attn.experiment.evaluation_config import EvaluationConfig
from seq2attn.inference.input_checks import InputChecker
from seq2attn.inference.translation import Translation
from seq2attn.inference.translator import Translator
from seq2attn.metrics.translation_metric import References
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.tokenizers.normalize import is_blank

UNATTENDED = 0.2
"""A source token with less attention than this in all, over all target tokens, counts as unattended."""
LINES_AT_ONCE = 64
"""Lines whose attention is in memory; that of a whole test set may not fit."""
WORD = re.compile(r"\w+")


def measure_sentences(
    translator: Translator,
    sources: Sequence[str],
    references: References = (),
    evaluation: EvaluationConfig | None = None,
) -> Iterator[dict[str, Any]]:
    """Measures of each line: chrF, log-probability per token, length ratio, attention, and repeated words.

    chrF is against all references of a line, as `evaluation` of the config says. The attention is the mean of the heads
    of the top layer: its spread is the mean perplexity of the rows, the number of source tokens that a target token
    attends to. A measure that cannot be taken, as of an empty line, is None.
    """
    chrf = (evaluation or EvaluationConfig()).model_copy(update={"metrics": ("chrf",)}).build(*references)
    translations = list(translator.translate_iterable(sources, num_hypotheses=1, checker=InputChecker()))
    log_probs = translator.token_log_probs(translations)
    attention = _attention(translator, translations)
    for row, (source, translation, measures) in enumerate(zip(sources, translations, attention, strict=True)):
        given = [stream[row] for stream in references if not is_blank(stream[row])]
        score = None
        if given and not is_blank(source):
            score = round(chrf.scores([translation.text], [[one] for one in given])[0].value, 1)
        tokens, length = len(log_probs[row]), len(translation.source_tokens)
        yield {
            "source": source,
            "text": translation.text,
            "reference": given[0] if given else None,
            "chrf": score,
            "log_prob": round(sum(log_probs[row]) / tokens, 3) if tokens and math.isfinite(translation.score) else None,
            "length_ratio": round(len(translation.tokens) / length, 2) if length else None,
            **measures,
            "repeated": _num_repeated(translation.text),
        }


def _attention(translator: Translator, translations: Sequence[Translation]) -> Iterator[dict[str, float | None]]:
    """Spread of the attention, and number of unattended source tokens, of the first segment of each line."""
    for start in range(0, len(translations), LINES_AT_ONCE):
        some = translations[start : start + LINES_AT_ONCE]
        pairs = [one.ids[0] if one.ids and math.isfinite(one.score) else ((), ()) for one in some]
        is_one = len(translator.members) == 1
        found = cross_attention_weights(translator.model, pairs) if is_one else [None] * len(pairs)
        for (source, _), weights in zip(pairs, found, strict=True):
            if weights is None or not len(source):
                yield {"spread": None, "unattended": None}
                continue
            mean = weights[-1].mean(0)  # [T, S], with EOS
            entropy = -(mean * np.log(np.maximum(mean, 1e-12))).sum(-1)
            unattended = int((mean[:, :-1].sum(0) < UNATTENDED).sum())
            yield {"spread": round(float(np.exp(entropy).mean()), 2), "unattended": unattended}


def _num_repeated(text: str) -> int:
    """Words that follow themselves, and sequences of three words that occurred before."""
    words = WORD.findall(text.lower())
    pairs = sum(a == b for a, b in pairwise(words))
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    return pairs + sum(count - 1 for count in triples.values())
