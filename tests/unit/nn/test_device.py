"""Options of PyTorch's CUDA backends, and out-of-memory errors by their message; no GPU is needed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from seq2attn.nn.device import configure_cuda, is_oom_error
from seq2attn.search.translate_ids import default_batch_tokens

CUDA_PROPERTIES = "torch.cuda.get_device_properties"
CUDA, CUDNN = torch.backends.cuda, torch.backends.cudnn


def settings():
    reduced = CUDA.matmul.allow_bf16_reduced_precision_reduction
    return CUDA.matmul.allow_tf32, CUDNN.allow_tf32, reduced, CUDA.cudnn_sdp_enabled()


@pytest.fixture(autouse=True)
def _restore():
    *tf32, reduced, attention = settings()
    yield
    CUDA.matmul.allow_tf32, CUDNN.allow_tf32 = tf32
    CUDA.matmul.allow_bf16_reduced_precision_reduction = reduced
    CUDA.enable_cudnn_sdp(attention)


@pytest.mark.parametrize("tf32", [True, False])
def test_float32_products_are_rounded_everywhere_or_nowhere(tf32):
    defaults = (False, True, True, True)
    assert settings() == defaults
    configure_cuda(torch.device("cpu"), tf32=tf32)
    assert settings() == defaults
    configure_cuda(torch.device("cuda", 0), tf32=tf32)
    assert settings() == (tf32, tf32, False, False)


@pytest.mark.parametrize(("gib", "tokens"), [(0, 2**13), (8, 2**16), (139, 2**18)])
def test_batches_of_a_search_go_by_the_memory_of_a_gpu(monkeypatch, gib, tokens):
    monkeypatch.setattr(CUDA_PROPERTIES, lambda device: SimpleNamespace(total_memory=gib * 2**30))
    assert default_batch_tokens(torch.device("cuda", 0)) == tokens
    assert default_batch_tokens(torch.device("cpu")) == 2**13


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", True),
        ("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", True),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`", False),
        ("CUDA error: device-side assert triggered", False),
    ],
)
def test_out_of_memory_errors_of_libraries(message, expected):
    assert is_oom_error(RuntimeError(message)) == expected
