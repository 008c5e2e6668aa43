"""Random attention weights, and the data in pages of them."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.tokenizers.tokenized_text import TokenizedText
from tests.support.browser import Browser

Show = Callable[..., Browser]
SOURCE = TokenizedText(
    ("▁Die", "▁Kat", "ze", "</script>", "</s>"),
    ("Die", "Katze</script>", "</s>"),
    (0, 1, 1, 1, 2),
    "Die Katze</script>",
)
TARGET = TokenizedText(
    ("▁The", "▁c", "at", "<!--", "</s>"), ("The", "cat", "<!--", "</s>"), (0, 1, 1, 2, 3), "The cat <!--"
)


def random_weights(
    layers: int = 2, heads: int = 3, *, decoder: bool = True, encoder: bool = True, seed: int = 0
) -> AttentionWeights:
    """Weights whose rows are distributions."""
    rng = np.random.default_rng(seed)

    def weights(queries: TokenizedText) -> np.ndarray:
        size = (layers, heads, len(queries.tokens))
        return rng.dirichlet([0.3] * len(SOURCE.tokens), size=size).astype(np.float32)

    cross, self_attention = weights(TARGET) if decoder else None, weights(SOURCE) if encoder else None
    return AttentionWeights(SOURCE, TARGET, TARGET, cross, self_attention, None)


def page_data(page: str) -> dict[str, Any]:
    """The data in an attention page: `run`, `scale`, `sentences` and more."""
    (data,) = re.findall(r"const data = (.*);$", page, re.MULTILINE)
    content: dict[str, Any] = json.loads(data)
    return content


def alphas(colors: list[str]) -> np.ndarray:
    return np.array([float(re.split(r"/|rgba.*,", color.rstrip(")") + "/1")[1]) for color in colors])
