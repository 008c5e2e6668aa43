"""The promises of docs/serving.md: calls from several threads, and the service that batches what waits."""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

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

    async def ask() -> list[list[str]]:
        transport = httpx.ASGITransport(app=service.app)
        async with service.lifespan(service.app), httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            requests = [client.post("/translate", json=LINES[start : start + 2]) for start in range(len(LINES))]
            return [answer.json() for answer in await asyncio.gather(*requests)]

    answers = asyncio.run(ask())
    expected = [one.text for one in translate(LINES)]
    assert answers == [expected[start : start + 2] for start in range(len(LINES))]
    assert sum(sizes) == sum(map(len, answers)) and len(sizes) < len(LINES)
