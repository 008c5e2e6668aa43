"""BERT on the command line: what is wrong is told at its place before training, and a run is whole."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import CONFIG, WORDS, Invoke, write_toy
from tests.small_bert import make_bert

TEXT = "tokenizer:\n  source: {kind: wordpiece, path: bert}\n  target: {kind: words}\n"
ENCODER = "  encoder: {kind: bert, path: bert, frozen: 1}\n"
BERT = CONFIG.replace("tokenizer:\n  joint: {kind: bpe, vocab_size: 300}\n", TEXT).replace(
    "  encoder: {kind: gru, dim: 32}\n", ENCODER
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_toy(tmp_path, BERT)
    make_bert(tmp_path / "bert", [*WORDS])
    return tmp_path


def test_a_run_translates_when_the_checkpoint_is_gone(invoke: Invoke, home: Path) -> None:
    short = ["--set", "training.max_duration=[20 updates]", "--set", "training.validation.every=10 updates"]
    assert invoke("config", "check", "toy.yaml").err == ""
    assert "encoder.bert.encoder.layer.1." in invoke("train", "toy.yaml", "--dry-run").out
    done = invoke("train", "toy.yaml", *short)
    assert f"encoder: pretrained weights of {home / 'bert'}" in done.err
    assert "transformers" not in done.err  # it would tell at length what it left out
    shutil.rmtree(home / "bert")
    asked = ["translate", "runs/toy", "rot haus", "blau " * 99, ""]
    assert invoke(*asked).out.count("\n") == 3
    on = invoke("train", "runs/toy/config.yaml", "--resume", "--set", "training.max_duration=[30 updates]")
    assert "validation at update 30" in on.err


def remove(*names: str) -> Callable[[Path], None]:
    def spoil(bert: Path) -> None:
        for name in names:
            (bert / name).unlink()

    return spoil


def change(**content: object) -> Callable[[Path], None]:
    def spoil(bert: Path) -> None:
        shape = json.loads((bert / "config.json").read_text())
        (bert / "config.json").write_text(json.dumps(shape | content))

    return spoil


def write(name: str, content: str) -> Callable[[Path], None]:
    return lambda bert: (bert / name).write_text(content) and None


def pickled(bert: Path) -> None:
    (bert / "model.safetensors").rename(bert / "pytorch_model.bin")


def scattered(bert: Path) -> None:
    remove("model.safetensors")(bert)
    index = {"weight_map": {"embeddings.word_embeddings.weight": "model-1.safetensors"}}
    write("model.safetensors.index.json", json.dumps(index))(bert)


FOLDERS = {
    "no shape": (remove("config.json"), "{bert} has no config.json"),
    "nothing": (
        remove("config.json", "model.safetensors"),
        "{bert} has no config.json and no model.safetensors",
    ),
    "a pickle": (
        pickled,
        "{bert} has no model.safetensors; pytorch_model.bin is not read: convert it with `save_pretrained`",
    ),
    "a part": (scattered, "{bert} has no model-1.safetensors, which model.safetensors.index.json names"),
    "a pointer": (
        write("model.safetensors", "version 1"),
        "{bert}/model.safetensors (9 bytes) is not a complete safetensors",
    ),
    "no JSON": (write("config.json", "{"), "{bert}/config.json cannot be read: Expecting"),
    "another model": (
        change(model_type="roberta"),
        "{bert}/config.json is not of a `bert` but of a `roberta`",
    ),
    "a decoder": (change(is_decoder=True), "{bert}/config.json is of a BERT with causal attention"),
    "no width": (
        change(hidden_size=None),
        "{bert}/config.json is not of a BERT: `hidden_size`: Input should be",
    ),
    "odd heads": (change(num_attention_heads=3), "{bert}/config.json: 3 heads do not divide 16"),
    "other rows": (change(vocab_size=99), "{bert}: the embeddings are 13 x 16, and 99 x 16 in config.json"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_wrong_with_a_folder_is_told_at_its_place(invoke: Invoke, home: Path, name: str) -> None:
    spoil, message = FOLDERS[name]
    spoil(home / "bert")
    for command in (["config", "check", "toy.yaml"], ["train", "toy.yaml"]):
        said = invoke(*command, code=2).err
        assert f"toy.yaml:13:31: `model.encoder.path`: {message.format(bert=home / 'bert')}" in said
        assert said.rstrip().endswith("\n\n1 mistake in toy.yaml")
        assert "Traceback" not in said
    assert not (home / "runs").exists()


def test_a_folder_that_is_missing_is_told_at_both_places(invoke: Invoke, home: Path) -> None:
    shutil.rmtree(home / "bert")
    said = invoke("train", "toy.yaml", code=2).err
    message = f"there is no folder {home / 'bert'}; expected that of a BERT checkpoint"
    assert f"toy.yaml:9:35: `tokenizer.source.path`: {message}" in said
    assert f"toy.yaml:13:31: `model.encoder.path`: {message}" in said


def test_a_vocabulary_that_is_missing(invoke: Invoke, home: Path) -> None:
    remove("vocab.txt")(home / "bert")
    assert (
        f"toy.yaml:9:35: `tokenizer.source.path`: {home / 'bert'} has neither vocab.txt nor tokenizer.json"
        in invoke("train", "toy.yaml", code=2).err
    )


PARTS = {
    "words": (
        "tokenizer.source={kind: words}",
        "`tokenizer.source`: BERT needs its own tokenizer: set `source: {{kind: wordpiece, path: {bert}}}`",
    ),
    "joint": (
        "tokenizer.source=null --set tokenizer.target=null --set tokenizer.joint={kind: words}",
        "`tokenizer.joint`: BERT needs its own tokenizer: set `source: ",
    ),
    "other pieces": (
        "tokenizer.source.path=other",
        "`tokenizer.source.path`: should be the folder of `model.encoder`, {bert}",
    ),
    "target": (
        "tokenizer.target={kind: wordpiece, path: bert}",
        "`tokenizer.target.kind`: `wordpiece` is for the source",
    ),
    "tied": (
        "model.embeddings.tie=all",
        "`model.embeddings.tie`: BERT has its own source embeddings",
    ),
    "vectors": (
        "model.embeddings.source_vectors=v.txt",
        "`model.embeddings.source_vectors`: BERT has its own source embeddings",
    ),
    "frozen": ("model.encoder.frozen=3", "`model.encoder.frozen`: there are 2 layers to freeze, not 3"),
    "frozen by halves": ("model.encoder.frozen=half", "`model.encoder.frozen` should be "),
    "frozen or not": ("model.encoder.frozen=true", "`model.encoder.frozen` should be "),
    "rate": ("model.encoder.lr_scale=0", "`model.encoder.lr_scale` should be greater than 0"),
    "dot": (
        "model.decoder={kind: luong, dim: 8, attention: {score: {kind: dot}}}",
        "`model.decoder.attention.score`: `dot` compares the decoder, 8 wide, with an encoder 16 wide",
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_do_not_go_with_bert(invoke: Invoke, home: Path, name: str) -> None:
    override, message = PARTS[name]
    shutil.copytree(home / "bert", home / "other")
    overrides = [word for part in override.split(" --set ") for word in ("--set", part)]
    said = invoke("train", "toy.yaml", *overrides, code=2).err
    assert message.format(bert=home / "bert") in said, said
    mistake = next(line for line in said.splitlines() if not line.endswith(": dropped"))
    assert mistake.startswith(("toy.yaml:", "<command line>:"))


def test_without_transformers_it_is_told_what_to_install(
    invoke: Invoke, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    said = invoke("train", "toy.yaml", code=2).err
    message = "needs the package transformers: pip install 'seq2attn[bert]'"
    assert f"toy.yaml:9:18: `tokenizer.source.kind`: {message}" in said
    assert f"toy.yaml:13:19: `model.encoder.kind`: {message}" in said
