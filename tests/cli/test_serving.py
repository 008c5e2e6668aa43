"""The promises of docs/serving.md: calls from several threads, and the service that batches what waits."""

import asyncio
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor
from torch.nn import Module

import seq2attn
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig, SampleConfig, SearchConfig
from tests.support.commands import invoke_in
from tests.support.pages import blocks
from tests.support.untrained_runs import CONFIG, TRANSFORMER_CONFIG, WORDS, untrained_run

LENGTHS = LengthsConfig(max_length=8)
SEARCHES: list[SearchConfig] = [
    GreedyConfig(lengths=LENGTHS),
    BeamConfig(beam_size=3, lengths=LENGTHS),
    SampleConfig(num_samples=2, lengths=LENGTHS),
]
LINES = [" ".join(WORDS[start : start + 1 + start % 5]) for start in range(len(WORDS))]
pytestmark = pytest.mark.filterwarnings("ignore:.*the translation has the maximum length")
Found = list[tuple[str, float]]


@pytest.mark.parametrize("engine", ["native", "ctranslate2", pytest.param("onnx", marks=pytest.mark.slow)])
def test_calls_from_several_threads_give_what_they_give_alone(tmp_path: Path, engine: str) -> None:
    run = untrained_run(tmp_path, TRANSFORMER_CONFIG if engine == "ctranslate2" else CONFIG).folder
    if engine != "native":
        invoke_in(tmp_path, "export", "run", "--to", engine, "--quantization", "int8")
    translator = seq2attn.load(run, seq2attn.TranslationOptions(engine=engine, device="cpu"))
    calls = [(lines, search) for lines in ([line] for line in LINES) for search in SEARCHES]
    calls += [(LINES[:size], search) for size in (4, 9) for search in SEARCHES]
    calls = [call for call in calls if engine != "ctranslate2" or call[1].kind != "sample"]
    start = threading.Barrier(6)

    def translate(call: tuple[list[str], SearchConfig]) -> Found:
        lines, search = call
        return [(one.text, one.score) for one in translator.translate(lines, search)]

    alone = [*map(translate, calls)]
    assert len({text for found in alone for text, _ in found}) > 5
    with ThreadPoolExecutor(6, initializer=start.wait) as pool:
        together = [*pool.map(translate, calls)]
    for one, other in zip(alone, together, strict=True):
        assert [text for text, _ in one] == [text for text, _ in other]
        assert [score for _, score in one] == pytest.approx([score for _, score in other], abs=1e-5)


def test_the_service_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("fastapi")
    (code,) = (block for block in blocks("docs/serving.md", "python") if "FastAPI" in block)
    assert len([line for line in code.splitlines() if line and not line.startswith(("import", "from"))]) <= 26
    run = untrained_run(tmp_path).folder
    (tmp_path / "service.py").write_text(code.replace('"runs/phrasebook"', f'"{run}"'), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("service", None)
    import service

    sizes = []
    translate = service.translator.translate
    vars(service.translator)["translate"] = lambda lines: sizes.append(len(lines)) or translate(lines)

    async def ask(requests: Sequence[object]) -> list[tuple[int, Any]]:
        transport = httpx.ASGITransport(app=service.app, raise_app_exceptions=False)  # which uvicorn writes to its log
        async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            answers = await asyncio.gather(*(client.post("/translate", json=request) for request in requests))
            return [(answer.status_code, answer.json() if answer.is_success else None) for answer in answers]

    requests = [LINES[start : start + 2] for start in range(len(LINES))]
    expected = [(200, [one.text for one in translate(request)]) for request in requests]
    assert asyncio.run(ask(requests)) == expected
    assert sum(sizes) == sum(map(len, requests)) and len([*filter(None, sizes)]) < len(requests)

    word = service.translator.source.vocabulary.id(WORDS[-1])

    def fail(embedding: Module, inputs: tuple[Tensor]) -> None:
        if (inputs[0] == word).any():
            raise ArithmeticError("at a word")

    service.translator.model.source_embedding.register_forward_pre_hook(fail)
    failing = [WORDS[-1] in " ".join(request).split() for request in requests]
    assert 0 < sum(failing) < len(failing)
    answers = asyncio.run(ask([*requests, [], ["", ""], "no list", [1]]))
    assert answers[: len(requests)] == [
        (500, None) if fails else answer for fails, answer in zip(failing, expected, strict=True)
    ]
    assert answers[len(requests) :] == [(200, []), (200, ["", ""]), (422, None), (422, None)]
