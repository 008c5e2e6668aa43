"""Marian's own files become the run that the same model of Hugging Face becomes; bad files leave nothing behind."""

import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
import yaml
from numpy.typing import NDArray

from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.weights import load_tensors
from seq2attn.options.runs import ImportOptions
from seq2attn.pretrained.import_run import import_model
from seq2attn.search.search_config import BeamConfig
from seq2attn.tokenizers.vocabulary import BOS
from tests.support.commands import Invoke
from tests.support.marian import (
    SOURCE,
    make_marian,
    marian_arrays,
    marian_options,
    train_pieces,
    write_bin,
    write_marian_files,
    write_npz,
)
from tests.support.memory import refusal

TRANSFORMERS = ImportOptions("transformers", punctuation=True)
NOT_INSTALLED = "not verified: transformers is not installed (pip install '.[pretrained]')"
NO_SUCH_MODEL = "not verified: transformers has no such model"
Arrays = dict[str, NDArray[np.float32]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Arrays]:
    """A folder of Hugging Face, and the arrays of the same model."""
    folder = tmp_path_factory.mktemp("hf") / "marian"
    return folder, marian_arrays(make_marian(folder, encoder_attention_heads=4, decoder_ffn_dim=32, dropout=0.0))


@pytest.fixture
def npz(original: tuple[Path, Arrays], tmp_path: Path) -> Path:
    write_marian_files(tmp_path / "marian", original[0], "model.npz")
    write_npz(tmp_path / "marian" / "model.npz", original[1], marian_options())
    return tmp_path / "marian"


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_tensors(run / "model.safetensors")


def test_a_run_of_an_npz_is_that_of_hugging_face(
    original: tuple[Path, Arrays], npz: Path, sentence: Path, tmp_path: Path
) -> None:
    report = import_model(npz, tmp_path / "ours", TRANSFORMERS, verify_with=sentence)
    assert report is not None and report.searches[0].token_agreement == 1
    import_model(original[0], tmp_path / "hf", TRANSFORMERS, verify_with=sentence)
    ours, hf = weights(tmp_path / "ours"), weights(tmp_path / "hf")
    torch.testing.assert_close(ours, hf, rtol=0, atol=0)
    both = [RunDirectory(tmp_path / name).load_config() for name in ("ours", "hf")]
    assert both[0].model == both[1].model
    search = both[0].search
    assert isinstance(search, BeamConfig) and (search.beam_size, search.patience) == (3, 1)
    assert search.lengths.alpha == 0.8
    assert search.lengths.max_length == both[0].data.filters.max_length  # each has as many positions
    assert [one.search.lengths.max_length_ratio for one in both] == [2.0, None]


def test_probabilities_are_those_of_ctranslate2(npz: Path, sentence: Path, tmp_path: Path) -> None:
    """Its converter reads the same files; it has the positions of `transformers`."""
    import_model(npz, tmp_path / "run", TRANSFORMERS, verify_with=sentence)
    vocabularies = [str(npz / "vocab.yml")] * 2
    ctranslate2.converters.MarianConverter(str(npz / "model.npz"), vocabularies).convert(str(tmp_path / "ct2"))
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"))
    loaded = RunDirectory(tmp_path / "run").load()
    model, (source, target) = loaded.model, loaded.tokenizers
    for line in SOURCE:
        ids = source.encode(line)
        tokens = [source.vocabulary.tokens[id] for id in ids]
        (score,) = theirs.score_batch([tokens], [tokens[:5]])
        log_probs = model.token_log_probs([(ids, [target.vocabulary.id(token) for token in tokens[:5]])])
        np.testing.assert_allclose(score.log_probs, log_probs[0].detach(), atol=1e-4)


@pytest.mark.parametrize("scale", [pytest.param(0.0, marks=pytest.mark.slow), 60.0])
def test_a_binary_file_is_its_npz(
    original: tuple[Path, Arrays], npz: Path, sentence: Path, tmp_path: Path, scale: float
) -> None:
    arrays = dict(original[1])
    write_marian_files(tmp_path / "binary", original[0], "model.bin")
    write_bin(tmp_path / "binary" / "model.bin", arrays, marian_options(), scale)
    for name in [name for name, array in arrays.items() if scale and len(array) > 1]:
        arrays[name] = np.rint(arrays[name] * scale).astype(np.int8) / np.float32(scale)
    write_npz(npz / "model.npz", arrays, marian_options())
    for name in ("marian", "binary"):
        import_model(tmp_path / name, tmp_path / f"run-{name}", TRANSFORMERS, verify_with=sentence)
    torch.testing.assert_close(weights(tmp_path / "run-binary"), weights(tmp_path / "run-marian"), rtol=0, atol=0)


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_decoder_with_recurrent_units(
    original: tuple[Path, Arrays], npz: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    """`transformers` has none, installed or not, so the import is not verified."""
    if not is_installed:
        monkeypatch.setitem(sys.modules, "transformers", None)
    arrays = {name: array for name, array in original[1].items() if not re.match(r"decoder_l\d_self", name)}
    random = np.random.default_rng(0)
    for scope in ("decoder_l1_rnn", "decoder_l2_rnn"):
        shapes = {"W": (16, 16), "Wf": (16, 16), "bf": (1, 16), "ffn_ln_scale": (1, 16), "ffn_ln_bias": (1, 16)}
        arrays |= {f"{scope}_{name}": random.normal(size=shape).astype("f") for name, shape in shapes.items()}
    write_npz(npz / "model.npz", arrays, marian_options(transformer_decoder_autoreg="rnn", dec_cell="ssru"))
    assert re.findall("not verified.*", invoke("import", npz, "run").err) == [NO_SUCH_MODEL]
    layer = {name: tensor.numpy() for name, tensor in weights(npz.parent / "run").items() if "layers.1.ssru" in name}
    scope, prefix = "decoder_l2_rnn", "decoder.layers.1.ssru"
    np.testing.assert_array_equal(layer[f"{prefix}.input_proj.weight"], arrays[f"{scope}_W"].T)
    np.testing.assert_array_equal(layer[f"{prefix}.forget_gate.weight"], arrays[f"{scope}_Wf"].T)
    np.testing.assert_array_equal(layer[f"{prefix}.forget_gate.bias"], arrays[f"{scope}_bf"][0])
    np.testing.assert_array_equal(layer[f"{prefix}_residual.norm.weight"], arrays[f"{scope}_ffn_ln_scale"][0])
    np.testing.assert_array_equal(layer[f"{prefix}_residual.norm.bias"], arrays[f"{scope}_ffn_ln_bias"][0])


def test_a_sentencepiece_model_may_be_the_vocabulary(
    original: tuple[Path, Arrays], npz: Path, sentence: Path, tmp_path: Path
) -> None:
    decoder(vocabs=["vocab.spm", "vocab.spm"])(npz, {})
    tokens = ["</s>", "<unk>", *train_pieces(SOURCE, npz / "vocab.spm", bos_id=-1, eos_id=0, unk_id=1)]
    tables = {"Wemb": np.random.default_rng(0).normal(size=(len(tokens), 16)).astype("f")}
    tables["decoder_ff_logit_out_b"] = np.arange(len(tokens), dtype="f")[None] / 99
    write_npz(npz / "model.npz", original[1] | tables, marian_options(dim_vocabs=[len(tokens)] * 2))
    import_model(npz, tmp_path / "run", TRANSFORMERS, verify_with=sentence)
    vocabulary, ours = RunDirectory(tmp_path / "run").load_tokenizers().source.vocabulary, weights(tmp_path / "run")
    ids = [tokens.index(token) for token in vocabulary.tokens[2:]]
    np.testing.assert_array_equal(ours["source_embedding.embedding.weight"][2:], tables["Wemb"][ids])
    np.testing.assert_array_equal(ours["output_projection.bias"][2:], tables["decoder_ff_logit_out_b"][0, ids])
    assert not ours["source_embedding.embedding.weight"][BOS].any()  # Marian starts from zeros


def test_a_target_vocabulary_that_is_smaller(
    original: tuple[Path, Arrays], npz: Path, sentence: Path, tmp_path: Path
) -> None:
    """The rows that only the source has are no tokens of a translation."""
    ids, size = yaml.safe_load((npz / "vocab.yml").read_text("utf-8")), 50
    few = {piece: id for piece, id in ids.items() if id < size}
    (npz / "target.yml").write_text(yaml.safe_dump(few, allow_unicode=True), "utf-8")
    decoder(vocabs=["vocab.yml", "target.yml"])(npz, {})
    arrays = dict(original[1])
    arrays["encoder_Wemb"] = arrays.pop("Wemb")
    arrays["decoder_Wemb"] = arrays["encoder_Wemb"][:size]
    arrays["decoder_ff_logit_out_b"] = arrays["decoder_ff_logit_out_b"][:, :size] - 30  # all are below a row of zeros
    shared = {"tied_embeddings_all": False, "tied_embeddings": True}
    write_npz(npz / "model.npz", arrays, marian_options(dim_vocabs=[len(ids), size], **shared))
    report = import_model(npz, tmp_path / "run", TRANSFORMERS, verify_with=sentence)
    assert report is not None and report.searches[0].token_agreement == 1


def options(**changes: Any) -> Callable[[Path, Arrays], object]:
    return lambda folder, arrays: write_npz(folder / "model.npz", arrays, marian_options(**changes))


def with_arrays(**changes: Any) -> Callable[[Path, Arrays], object]:
    return lambda folder, arrays: write_npz(folder / "model.npz", arrays | changes, marian_options())


def decoder(**changes: Any) -> Callable[[Path, Arrays], object]:
    def spoil(folder: Path, _: Arrays) -> None:
        content = yaml.safe_load((folder / "decoder.yml").read_text()) | changes
        (folder / "decoder.yml").write_text(yaml.safe_dump(content))

    return spoil


def binary(spoil: Callable[[bytes], bytes]) -> Callable[[Path, Arrays], object]:
    def write(folder: Path, arrays: Arrays) -> None:
        write_bin(folder / "model.bin", arrays, marian_options())
        (folder / "model.bin").write_bytes(spoil((folder / "model.bin").read_bytes()))
        decoder(models=["model.bin"])(folder, arrays)

    return write


def compress(folder: Path, arrays: Arrays) -> None:
    np.savez_compressed(folder / "model.npz", **arrays)


def archive(offset: int, value: int) -> Callable[[Path, Arrays], object]:
    """Another byte in the last entry of the archive's directory."""

    def spoil(folder: Path, _: Arrays) -> None:
        data = bytearray((folder / "model.npz").read_bytes())
        data[data.rindex(b"PK\1\2") + offset] = value
        (folder / "model.npz").write_bytes(data)

    return spoil


BAD: dict[str, tuple[Callable[[Path, Arrays], object], str]] = {
    "no weights": (lambda folder, _: (folder / "model.npz").unlink(), "model.npz: there is no such file"),
    "several": (lambda folder, _: shutil.copy(folder / "decoder.yml", folder / "config.yml"), "has several models"),
    "two models": (decoder(models=["a.npz", "b.npz"]), "decoder.yml: `models`: "),
    "no mapping": (lambda folder, _: (folder / "decoder.yml").write_text("- a"), "decoder.yml: cannot be read (line 1"),
    "no YAML": (lambda folder, _: (folder / "decoder.yml").write_text("a: ["), "decoder.yml: cannot be read"),
    "no date": (lambda folder, _: (folder / "decoder.yml").write_text("a: 2026-99-99"), "decoder.yml: `models`: Field"),
    "deep": (lambda folder, _: (folder / "decoder.yml").write_text("[" * 2000), "decoder.yml: cannot be read"),
    "penalty": (decoder(normalize=20), "decoder.yml: `normalize`: Input should be less than or equal to 10"),
    "large": (
        binary(lambda _: struct.pack("<6Q2s3iQ", 1, 1, 2, 0x404, 3, 4, b"a", *[2**31 - 1] * 3, 0)), "model.bin: is not"
    ),
    "truncated": (
        lambda folder, _: (folder / "model.npz").write_bytes((folder / "model.npz").read_bytes()[:-50]), "model.npz: is"
    ),
    "compressed": (compress, "model.npz: is not a complete model of Marian (it is compressed"),
    "encrypted": (archive(8, 1), "model.npz: is not a complete model of Marian (File"),
    "newer archive": (archive(6, 99), "model.npz: is not a complete model of Marian (zip file version"),
    "number": (with_arrays(extra=np.array(1, "f")), "model.npz: is not a complete model of Marian (`extra` has the sh"),
    "text": (with_arrays(decoder_l1_ffn_b1=np.array([["a"]])), "`decoder_l1_ffn_b1` has the shape (1, 1) and the type"),
    "no table": (with_arrays(Wemb=np.ones(16, "f")), "(`Wemb` has the shape (16,) and the type float32"),
    "pickle": (with_arrays(extra=np.array([{}], object)), "model.npz: is not a complete model of Marian (Object"),
    "no options": (lambda folder, arrays: np.savez(folder / "model.npz", **arrays), "special:model.yml"),
    "pre-norm": (options(transformer_preprocess="n"), "model.npz: `transformer_preprocess`: "),
    "another cell": (
        options(transformer_decoder_autoreg="rnn", dec_cell="gru"), "model.npz: `dec_cell` is `gru`, expected `ssru`"
    ),
    "no width": (options(dim_emb=None), "model.npz: `dim_emb`: "),
    "unknown array": (with_arrays(decoder_l9_self_Wz=np.ones((1, 2), "f")), "have `decoder_l9_self_Wz`, which is not"),
    "another shape": (with_arrays(decoder_l1_ffn_W1=np.ones((32, 16), "f")), "fc1.weight` is 16 x 32, and 32 x 16"),
    "not finite": (with_arrays(decoder_l1_ffn_b1=np.full((1, 32), np.nan, "f")), "`model.decoder.layers.0.fc1.bias`"),
    "vocabulary": (options(dim_vocabs=[53, 53]), "vocab.yml: has 54 entries, and the model 53 by its `dim-vocabs`"),
    "size": (options(dim_vocabs=[2**31 - 1, 54]), "vocab.yml: has 54 entries, and the model 2147483647 by its `dim"),
    "no vocabulary": (lambda folder, _: (folder / "vocab.yml").unlink(), "vocab.yml: cannot be read"),
    "ids": (lambda folder, _: (folder / "vocab.yml").write_text("a: b"), "vocab.yml: is not a vocabulary of Marian"),
    "version": (binary(lambda data: b"\x07" + data[1:]), "model.bin: is not a complete model of Marian (version 7"),
    "short": (binary(lambda data: data[:-300]), "model.bin: is not a complete model of Marian"),
    "shorter": (binary(lambda data: data[:99]), "model.bin: is not a complete model of Marian"),
    "type": (binary(lambda data: data[:24] + b"\x09" + data[25:]), "`Wemb` has the shape (54, 16) and the type 0x409"),
    "count": (binary(lambda data: data[:8] + b"\xff" * 8 + data[16:]), "model.bin: is not a complete model of Marian"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_leave_nothing_behind(name: str, original: tuple[Path, Arrays], npz: Path, tmp_path: Path) -> None:
    spoil, message = BAD[name]
    spoil(npz, original[1])
    with pytest.raises(UserError) as caught:
        import_model(npz, tmp_path / "run", TRANSFORMERS)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_sizes_are_compared_with_the_vocabularies_before_memory_is_taken(
    original: tuple[Path, Arrays], npz: Path, tmp_path: Path
) -> None:
    options(dim_vocabs=[54, 10**6])(npz, original[1])
    message = refusal(lambda: import_model(npz, tmp_path / "run"), (npz / "model.npz").stat().st_size)
    assert "vocab.yml: has 54 entries, and the model 1000000 by its `dim-vocabs`" in message


def test_an_import_to_a_link_is_behind_it(npz: Path, sentence: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    import_model(npz, tmp_path / "link", TRANSFORMERS, verify_with=sentence)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real/model.safetensors").is_file()


def test_an_import_without_transformers_says_so(npz: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert NOT_INSTALLED in invoke("import", npz, "run").err


WITHOUT_TRANSFORMERS = """
from importlib.machinery import PathFinder
find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == "transformers" else find_spec(name, *more)
"""


@pytest.mark.slow
def test_no_module_of_an_import_needs_transformers(tmp_path: Path, npz: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TRANSFORMERS, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-m", "seq2attn", "import", str(npz), str(tmp_path / "run")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert NOT_INSTALLED in done.stderr
