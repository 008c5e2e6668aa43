"""What is set for a card can be set without one."""

from __future__ import annotations

import pytest
import torch

from seq2attn.cuda import configure_cuda

CUDA, CUDNN = torch.backends.cuda, torch.backends.cudnn


def settings():
    reduced = CUDA.matmul.allow_bf16_reduced_precision_reduction
    return CUDA.matmul.allow_tf32, CUDNN.allow_tf32, reduced, CUDA.cudnn_sdp_enabled()


@pytest.fixture(autouse=True)
def _as_before():
    *tf32, reduced, attention = settings()
    yield
    CUDA.matmul.allow_tf32, CUDNN.allow_tf32 = tf32
    CUDA.matmul.allow_bf16_reduced_precision_reduction = reduced
    CUDA.enable_cudnn_sdp(attention)


@pytest.mark.parametrize("tf32", [True, False])
def test_products_are_rounded_everywhere_or_nowhere(tf32):
    assert settings() == (False, True, True, True)  # PyTorch's defaults
    configure_cuda(torch.device("cpu"), tf32=tf32)
    assert settings() == (False, True, True, True)
    configure_cuda(torch.device("cuda", 0), tf32=tf32)
    assert settings() == (tf32, tf32, False, False)
