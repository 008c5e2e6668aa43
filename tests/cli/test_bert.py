"""BERT on the command line: errors have their place before training, and a run needs no checkpoint."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2attn.experiment.experiment_config import load_config
from seq2attn.sweep.record import ExperimentFingerprints
from tests.support.bert import make_bert
from tests.support.commands import CONFIG, WORDS, Invoke, write_toy

TEXT = "tokenizer:\n  source: {kind: wordpiece, path: bert}\n  target: {kind: words}\n"
ENCODER = "  encoder: {kind: bert, path: bert, frozen: 1}\n"
BERT = CONFIG.replace("tokenizer:\n  joint: {kind: bpe, vocab_size: 300}\n", TEXT).replace(
    "  encoder: {kind: gru, dim: 32}\n", ENCODER
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config, its text and its checkpoint."""
    folder = tmp_path_factory.mktemp("bert")
    write_toy(folder, BERT)
    make_bert(folder / "bert", [*WORDS])
    return folder


@pytest.fixture
def home(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path, dirs_exist_ok=True))


def test_a_run_translates_when_the_checkpoint_is_gone(invoke: Invoke, home: Path) -> None:
    short = ["--set", "training.max_duration=[10 updates]", "--set", "training.validation.every=5 updates"]
    assert invoke("config", "check", "toy.yaml").err == ""
    assert "encoder.bert.encoder.layer.1." in invoke("train", "toy.yaml", "--dry-run", "-v").out
    trained = invoke("train", "toy.yaml", *short)
    assert f"encoder: pretrained weights of {home / 'bert'}" in trained.err
    assert "transformers" not in trained.err  # it would report unused weights
    shutil.rmtree(home / "bert")
    assert invoke("translate", "runs/toy", "rot haus", "blau " * 99, "").out.count("\n") == 3
    resumed = invoke("train", "runs/toy/config.yaml", "--resume", "--set", "training.max_duration=[15 updates]")
    assert "validation at update 15" in resumed.err


def test_its_weights_count_in_a_sweep_and_not_their_place(home: Path) -> None:
    config, moved = home / "toy.yaml", home / "moved"
    overrides = [f"{key}.path={moved}" for key in ("tokenizer.source", "model.encoder")]
    before = ExperimentFingerprints().fingerprint(load_config(config))
    shutil.copytree(home / "bert", moved)
    experiment = load_config(config, overrides)
    assert ExperimentFingerprints().fingerprint(experiment) == before
    (moved / "model.safetensors").write_bytes(b"other weights")
    after = ExperimentFingerprints().fingerprint(experiment)
    assert [part for part in before if after[part] != before[part]] == ["input files"]


def remove(*names: str) -> Callable[[Path], object]:
    return lambda bert: [(bert / name).unlink() for name in names]


def change(**fields: object) -> Callable[[Path], object]:
    def spoil(bert: Path) -> None:
        content = json.loads((bert / "config.json").read_text())
        (bert / "config.json").write_text(json.dumps(content | fields))

    return spoil


def write(name: str, content: str) -> Callable[[Path], object]:
    return lambda bert: (bert / name).write_text(content)


def split(part: str) -> Callable[[Path], object]:
    def spoil(bert: Path) -> None:
        remove("model.safetensors")(bert)
        index = {"weight_map": {"embeddings.word_embeddings.weight": part}}
        write("model.safetensors.index.json", json.dumps(index))(bert)

    return spoil


FOLDERS = {
    "nothing": (remove("config.json", "model.safetensors"), "{bert} has no config.json and no model.safetensors"),
    "a pickle": (
        lambda bert: (bert / "model.safetensors").rename(bert / "pytorch_model.bin"),
        "{bert} has no model.safetensors; pytorch_model.bin is not read: convert it with `save_pretrained`",
    ),
    "a missing part": (
        split("model-1.safetensors"),
        "{bert} has no model-1.safetensors, which model.safetensors.index.json names",
    ),
    "a part elsewhere": (split("../part"), "{bert}/model.safetensors.index.json: '../part' is not the name of a file"),
    "a pointer": (write("model.safetensors", "version 1"), "{bert}/model.safetensors (9 bytes) is not a complete"),
    "no JSON": (write("config.json", "{"), "{bert}/config.json: is not JSON (Expecting"),
    "another model": (change(model_type="roberta"), "{bert}/config.json is not of a `bert` but of a `roberta`"),
    "a decoder": (change(is_decoder=True), "{bert}/config.json is of a BERT with causal attention"),
    "no width": (change(hidden_size=None), "{bert}/config.json: `hidden_size`: Input should be"),
    "odd heads": (change(num_attention_heads=3), "{bert}/config.json: 3 heads do not divide 16"),
    "other rows": (change(vocab_size=99), "{bert}: the embeddings are 13 x 16, and 99 x 16 in config.json"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_errors_of_a_checkpoint_have_the_place_of_its_path(invoke: Invoke, home: Path, name: str) -> None:
    spoil, message = FOLDERS[name]
    spoil(home / "bert")
    error = invoke("train", "toy.yaml", code=2).err
    assert f"toy.yaml:13:31: `model.encoder.path`: {message.format(bert=home / 'bert')}" in error
    assert error.rstrip().endswith("\n\n1 mistake in toy.yaml")
    assert "Traceback" not in error
    assert not (home / "runs").exists()


def test_errors_of_the_folder_and_the_vocabulary_have_their_places(invoke: Invoke, home: Path) -> None:
    remove("vocab.txt")(home / "bert")
    message = f"toy.yaml:9:35: `tokenizer.source.path`: {home / 'bert'} has neither vocab.txt nor tokenizer.json"
    assert message in invoke("train", "toy.yaml", code=2).err
    shutil.rmtree(home / "bert")
    error = invoke("train", "toy.yaml", code=2).err
    message = f"there is no folder {home / 'bert'}; expected that of a BERT checkpoint"
    assert f"toy.yaml:9:35: `tokenizer.source.path`: {message}" in error
    assert f"toy.yaml:13:31: `model.encoder.path`: {message}" in error


OVERRIDES = {
    "`tokenizer.source`: BERT needs its own tokenizer: set `source: {{kind: wordpiece, path: {bert}}}`": [
        "tokenizer.source={kind: words}"
    ],
    "`tokenizer.joint`: BERT needs its own tokenizer: set `source: ": [
        "tokenizer.source=null", "tokenizer.target=null", "tokenizer.joint={kind: words}",
    ],
    "`tokenizer.source.path`: should be the folder of `model.encoder`, {bert}": ["tokenizer.source.path=other"],
    "`tokenizer.target.kind`: `wordpiece` is for the source": ["tokenizer.target={kind: wordpiece, path: bert}"],
    "`tokenizer.joint.kind`: `wordpiece` is for the source": [
        "tokenizer.source=null", "tokenizer.target=null", "tokenizer.joint={kind: wordpiece, path: bert}",
    ],
    "`model.embeddings.tie`: BERT has its own source embeddings": ["model.embeddings.tie=all"],
    "`model.embeddings.source_vectors`: BERT has its own source embeddings": ["model.embeddings.source_vectors=v.txt"],
    "`model.encoder.frozen`: there are 2 layers to freeze, not 3": ["model.encoder.frozen=3"],
    "`model.encoder.frozen` should be ": ["model.encoder.frozen=true"],
    "`training.lr_scales.encoder` should be greater than 0": ["training.lr_scales={encoder: 0}"],
    "`model.decoder.attention.score`: `dot` compares the decoder, 8 wide, with an encoder 16 wide": [
        "model.decoder={kind: luong, dim: 8, attention: {score: {kind: dot}}}"
    ],
}  # fmt: skip


@pytest.mark.parametrize("message", OVERRIDES)
def test_options_that_bert_does_not_support(invoke: Invoke, home: Path, message: str) -> None:
    shutil.copytree(home / "bert", home / "other")
    overrides = [argument for override in OVERRIDES[message] for argument in ("--set", override)]
    error = invoke("train", "toy.yaml", *overrides, code=2).err
    assert message.format(bert=home / "bert") in error, error
    first = next(line for line in error.splitlines() if not line.endswith(": dropped"))
    assert first.startswith(("toy.yaml:", "<command line>:"))


def test_without_transformers_the_message_names_the_extra(
    invoke: Invoke, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    error = invoke("train", "toy.yaml", code=2).err
    message = "needs the package transformers: pip install 'seq2attn[bert]'"
    assert f"toy.yaml:9:18: `tokenizer.source.kind`: {message}" in error
    assert f"toy.yaml:13:19: `model.encoder.kind`: {message}" in error
