"""What is set for a card, and known of its errors, shown without one."""

from __future__ import annotations

import pytest
import torch

from seq2attn.nn.device import configure_cuda
from seq2attn.nn.out_of_memory import is_oom_error

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


@pytest.mark.parametrize(
    ("said", "is_memory"),
    [
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", True),
        ("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", True),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`", False),
        ("CUDA error: device-side assert triggered", False),
    ],
)
def test_a_card_without_memory_is_known_by_what_its_libraries_say(said, is_memory):
    assert is_oom_error(RuntimeError(said)) == is_memory
