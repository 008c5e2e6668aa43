"""Options of PyTorch's CUDA backends, and out-of-memory errors by their message; no GPU is needed."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from seq2attn.nn.device import configure_cuda, is_oom_error
from seq2attn.search.captured_step import capture, capture_stream
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


def test_a_step_is_captured_once_on_its_own_gpu(monkeypatch):
    """`torch.cuda.graph` would capture on a stream of the first GPU."""
    device, calls = torch.device("cuda", 1), []

    @contextmanager
    def record(*args, **options):
        calls.append((*args, options))
        yield

    graph = SimpleNamespace(replay=lambda: calls.append("replay"))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: ("stream of", device))
    monkeypatch.setattr(torch.cuda, "device", record)
    monkeypatch.setattr(torch.cuda, "graph", record)
    replay, outputs = capture(lambda: calls.append("step") or "outputs", device)
    replay()
    options = {"stream": ("stream of", device), "capture_error_mode": "thread_local"}
    assert calls == [(device, {}), (graph, options), "step", "replay"] and outputs == "outputs"
    capture_stream.cache_clear()


@pytest.mark.parametrize(("gib", "tokens"), [(0, 2**13), (8, 2**16), (139, 2**18)])
def test_batches_of_a_search_go_by_the_memory_of_a_gpu(monkeypatch, gib, tokens):
    monkeypatch.setattr(CUDA_PROPERTIES, lambda device: SimpleNamespace(total_memory=gib * 2**30))
    assert default_batch_tokens(torch.device("cuda", 0)) == tokens
    assert default_batch_tokens(torch.device("cpu")) == 2**13


OOM_MESSAGES = [
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    "CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes",
    "std::bad_alloc",
    "[Errno 12] Cannot allocate memory",
]
OTHER_MESSAGES = [
    "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`",
    "CUDA error: device-side assert triggered",
    "mat1 and mat2 shapes cannot be multiplied (1x2 and 3x1)",
]


def test_out_of_memory_errors():
    assert [message for message in OOM_MESSAGES if not is_oom_error(RuntimeError(message))] == []
    assert [message for message in OTHER_MESSAGES if is_oom_error(RuntimeError(message))] == []
    for allocate in (lambda: torch.empty(2**60), lambda: np.empty(2**55)):
        with pytest.raises((RuntimeError, MemoryError)) as caught:
            allocate()
        assert is_oom_error(caught.value)
