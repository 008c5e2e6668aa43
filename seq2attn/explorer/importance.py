"""Importance of the source words for a token of a translation, in three measures.

S source tokens without EOS, W source words, T target tokens.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2attn.data.collate import collate
from seq2attn.errors import UserError
from seq2attn.inference.scoring import token_log_probs
from seq2attn.inference.translator import Translator
from seq2attn.models import Seq2Seq
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.tokenizers.vocabulary import EOS


def measure_importance(
    translator: Translator, source: Sequence[int], target: Sequence[int], place: int, other: int | None = None
) -> dict[str, Any]:
    """For each source word, the effect of leaving it out, gradient x input, and the mean attention of the top layer.

    The first two are of the log-probability of the token at `place` (EOS after the last) given the tokens before it,
    or of the difference of its log-probability and that of the token `other`. Without attention, the third is None.

    Raises UserError for an ensemble, and for a place after EOS.
    """
    if len(translator.members) > 1:
        raise UserError("what mattered is measured for one model, not for an ensemble")
    if not 0 <= place <= len(target):
        raise UserError(f"the translation has {len(target)} tokens and EOS; there is none at {place}")
    token, prefix = [*target, EOS][place], tuple(target[:place])
    words = TokenizedText.from_ids(translator.source, source)
    ids = [*zip(source, words.word_ids, strict=True)]
    left = [[id for id, word in ids if word != number] for number in range(len(words.words))]
    tokens = [token] if other is None else [token, other]
    pairs = [(one, (*prefix, last)) for last in tokens for one in (source, *left)]  # a pair without tokens has no score
    found = token_log_probs(translator.engine, pairs, translator.max_batch_tokens)
    values = np.array([log_probs[place] for log_probs in found]).reshape(len(tokens), -1)
    whole, *without = values[0] - values[1:].sum(0)
    gradient = gradient_times_input(translator.model, source, prefix, token, other)
    (weights,) = cross_attention_weights(translator.model, [(source, target)])
    return {
        "words": words.words,
        "value": round(float(whole), 4),
        "left_out": [round(float(whole - value), 4) for value in without],
        "gradient": _by_word(gradient[: len(source)], words),
        "attention": None if weights is None else _by_word(weights[-1, :, place, : len(source)].mean(0), words),
    }


def gradient_times_input(
    model: Seq2Seq, source: Sequence[int], prefix: Sequence[int], token: int, other: int | None = None
) -> NDArray[np.float64]:
    """The product of each embedding of the source and its gradient: [S + 1], with EOS

    The gradient is that of the log-probability of `token` after `prefix`, minus that of `other`.
    """
    batch = collate([(source, prefix)]).to(model.device)
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN has no gradient in evaluation
        embedded = model.source_embedding(batch.source).detach().requires_grad_()
        memory, state = model.decoder.init_state(model.encoder(embedded, batch.sequences))
        log_probs = model.log_probs(model.decode(batch.target, state, memory).hidden[0, -1])
        value = log_probs[token] if other is None else log_probs[token] - log_probs[other]
        (gradient,) = torch.autograd.grad(value, embedded)
    return (gradient * embedded).sum(-1)[0].detach().double().cpu().numpy()


def _by_word(values: NDArray[Any], text: TokenizedText) -> list[float]:
    """The sum over the tokens of each word."""
    return [round(float(x), 4) for x in np.bincount(text.word_ids, values, minlength=len(text.words))]
