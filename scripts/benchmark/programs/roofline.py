"""How fast this machine multiplies: a large product, and the linear layers of T. Prints a JSON object, GFLOP/s."""

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


def rate(call: Callable[[], object], flops: float, seconds: float) -> dict[str, float]:
    """The best and the median of the rates of many calls."""
    for _ in range(3):
        call()
    end, times = time.perf_counter() + seconds, list[float]()
    while time.perf_counter() < end or len(times) < 3:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return {"best": flops / min(times) / 1e9, "median": flops / statistics.median(times) / 1e9}


@torch.no_grad()
def main(seconds: float) -> None:
    """Each for so many seconds."""
    a, b, c = (torch.randn(SIDE, SIDE) for _ in range(3))
    found = {"product": rate(lambda: torch.mm(a, b, out=c), 2 * SIDE**3, seconds)}
    for name, (enter, leave) in SHAPES.items():
        x, layer = torch.randn(ROWS, enter), nn.Linear(enter, leave, bias=False)
        found[name] = rate(lambda x=x, layer=layer: layer(x), 2 * ROWS * enter * leave, seconds)  # type: ignore[misc]
    print(json.dumps(found))


if __name__ == "__main__":
    main(float(sys.argv[1]))
