"""The device of tests that need a GPU, their marks and tolerances, and what they count there."""

import pytest
import torch

DEVICE = torch.device("cuda")
MARKS = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: pytest -m cuda"),
]
BFLOAT16 = {"rtol": 1e-2, "atol": 1e-2}
FLOAT32 = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def exact():
    """Products of float32 without TF32."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = False
    yield
    matmul.allow_tf32, cudnn.allow_tf32 = before


def relative_distance(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The relative distance |a - b| / |b|."""
    ours, theirs = (x.detach().double().cpu() for x in (ours, theirs))
    return float((ours - theirs).norm() / theirs.norm().clamp_min(1e-30))


def launches(compute) -> int:
    """Number of kernel launches; a CUDA graph is one."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        compute()
        torch.cuda.synchronize()
    names = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch")
    return sum(event.count for event in profile.key_averages() if event.key.startswith(names))
