"""Random attention weights, and the data in pages of them."""

import base64
import gzip
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
    """The data in a page: `explorations` and more."""
    (data,) = re.findall('<script type="text/plain" id="data">(.*)</script>', page)
    content: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(data)))
    return content


CELLS = """(() => {
  const canvas = document.querySelector("#attention .maps canvas");
  const status = document.querySelector("#attention .status");
  const [rows, columns] = canvas.ariaLabel.match(/\\d+/g).map(Number);
  const press = key => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const found = [];
  press("ArrowUp");
  for (let row = 0; row < rows; row++) {
    for (let i = 0; i < columns; i++) press("ArrowLeft");
    found.push([]);
    for (let column = 0; column < columns; column++) {
      press("ArrowRight");
      found[row].push(Number(status.textContent.match(/: (\\d\\.\\d+)\\. /)[1]));
    }
    press("ArrowDown");
  }
  return found;
})()"""
"""The weights of the large map, as its status line tells them cell by cell, by keyboard."""
