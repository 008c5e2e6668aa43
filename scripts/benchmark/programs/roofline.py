"""GFLOP/s of a large matrix product and of the linear layers of T, printed as JSON.

On a GPU, if there is one, in bfloat16 and with larger products.
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
GPU_ROWS, GPU_SIDE = 32768, 8192


def rate(call: Callable[[], object], flops: float, seconds: float) -> dict[str, float]:
    """Best and median rate of many calls."""
    on_gpu = torch.cuda.is_available()
    for _ in range(3):
        call()
    if on_gpu:
        torch.cuda.synchronize()
    end, times = time.perf_counter() + seconds, list[float]()
    while time.perf_counter() < end or len(times) < 3:
        began = time.perf_counter()
        call()
        if on_gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return {"best": flops / min(times) / 1e9, "median": flops / statistics.median(times) / 1e9}


@torch.no_grad()
def main(seconds: float) -> None:
    """Measure each product for this many seconds."""
    rows, side = ROWS, SIDE
    if torch.cuda.is_available():
        rows, side = GPU_ROWS, GPU_SIDE
        torch.set_default_device("cuda")
        torch.set_default_dtype(torch.bfloat16)
    a, b, c = (torch.randn(side, side) for _ in range(3))
    rates = {"product": rate(lambda: torch.mm(a, b, out=c), 2 * side**3, seconds)}
    for name, (inputs, outputs) in SHAPES.items():
        x, layer = torch.randn(rows, inputs), nn.Linear(inputs, outputs, bias=False)
        rates[name] = rate(lambda x=x, layer=layer: layer(x), 2 * rows * inputs * outputs, seconds)  # type: ignore[misc]
    print(json.dumps(rates))


if __name__ == "__main__":
    main(float(sys.argv[1]))
