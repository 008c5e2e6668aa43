"""How fast this machine multiplies: a large product, and the linear layers of T. Prints a JSON object, GFLOP/s.

Where a card is to be seen it is asked, in bfloat16, with larger products.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

SHAPES = {
    "linear 256 -> 1024": (256, 1024),
    "linear 1024 -> 256": (1024, 256),
    "linear 256 -> 256": (256, 256),
    "linear 256 -> 8000": (256, 8000),
}
ROWS, SIDE = 4096, 2048
CARD_ROWS, CARD_SIDE = 32768, 8192


def rate(call: Callable[[], object], flops: float, seconds: float) -> dict[str, float]:
    """The best and the median of the rates of many calls."""
    on_card = torch.cuda.is_available()
    for _ in range(3):
        call()
    if on_card:
        torch.cuda.synchronize()
    end, times = time.perf_counter() + seconds, list[float]()
    while time.perf_counter() < end or len(times) < 3:
        began = time.perf_counter()
        call()
        if on_card:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return {"best": flops / min(times) / 1e9, "median": flops / statistics.median(times) / 1e9}


@torch.no_grad()
def main(seconds: float) -> None:
    """Each for so many seconds."""
    rows, side = ROWS, SIDE
    if torch.cuda.is_available():
        rows, side = CARD_ROWS, CARD_SIDE
        torch.set_default_device("cuda")
        torch.set_default_dtype(torch.bfloat16)
    a, b, c = (torch.randn(side, side) for _ in range(3))
    found = {"product": rate(lambda: torch.mm(a, b, out=c), 2 * side**3, seconds)}
    for name, (enter, leave) in SHAPES.items():
        x, layer = torch.randn(rows, enter), nn.Linear(enter, leave, bias=False)
        found[name] = rate(lambda x=x, layer=layer: layer(x), 2 * rows * enter * leave, seconds)  # type: ignore[misc]
    print(json.dumps(found))


if __name__ == "__main__":
    main(float(sys.argv[1]))
