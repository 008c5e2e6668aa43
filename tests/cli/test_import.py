"""A Marian model of Hugging Face becomes a run, on which every command works."""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.tokenizers.vocabulary import BOS
from tests.support.commands import ROOT, Invoke
from tests.support.marian import (
    SOURCE,
    TARGET,
    make_marian,
    marian_arrays,
    marian_options,
    write_marian_files,
    write_npz,
)
from tests.support.pages import commands, registry_commands


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hf") / "marian"
    make_marian(folder)
    return folder


@pytest.mark.slow
def test_every_command_works_on_an_imported_model(marian: Path, invoke: Invoke, tmp_path: Path) -> None:
    """The commands of docs/pretrained.md, and others."""
    page = (ROOT / "docs" / "pretrained.md").read_text(encoding="utf-8")
    (adapted,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "adapted.yaml").write_text(adapted.replace("3 epochs", "1 update"), encoding="utf-8")
    for name in ("test", "train", "dev", "general", "general-test"):
        for side, lines in (("de", SOURCE), ("en", TARGET)):
            text = "\n".join(lines * (9 if name == "general" else 1))
            (tmp_path / f"{name}.{side}").write_text(text, encoding="utf-8")
    copy = Path(shutil.copytree(marian, tmp_path / "opus-mt-de-en"))

    of_one_pair = [command for command in commands("docs/pretrained.md") if not re.search("nllb|t5|enpt", command)]
    imported, *others, train, compare, look, export_adapted, share, train_lora = [
        shlex.split(command)[1:] for command in of_one_pair
    ]
    done = invoke(*imported, "--verify-with", "test.de")
    assert re.search(r"^greedy +3 +100.00% +100.0%", done.out, re.MULTILINE)
    assert done.err.endswith("imported to runs/de-en\n")
    shutil.rmtree(copy)  # the run has copies of its files
    tokenizer = RunDirectory(tmp_path / "runs/de-en").load_config().tokenizer
    assert [one.punctuation for one in tokenizer.per_side] == ["de", "en"]
    translate, score, export = (invoke(*command).out for command in others)
    assert "\nlayer 2" in translate and "BLEU" in score
    assert re.search(r"^greedy +3 +100.00%", export, re.MULTILINE)
    greedy = ["translate", "runs/de-en", "--greedy", "-i", "test.de"]
    assert invoke(*greedy, "--engine", "ctranslate2").out == invoke(*greedy).out
    assert invoke("doctor", "runs/de-en", "-i", "test.de", "--sentences", "2").out.count("pass") == 4
    assert re.match(r"\d+-\d+", invoke("align", "runs/de-en", "--source", "test.de", "--target", "test.en").out)

    for setting, message in (
        ("training.lora={parts: [encodr]}", "`training.lora.parts`: the model has no part `encodr`: see the names"),
        ("training.lr_scales={decodr: 2}", "`training.lr_scales`: the model has no part `decodr`: see the names"),
        ("model.embeddings.dim=8", "runs/de-en: `source_embedding.embedding.weight` is 56 x 16, expected 56 x 8"),
    ):
        error = invoke(*train, "--set", setting, "--set", "run_dir=runs/refused", code=2).err
        assert message in error and not (tmp_path / "runs/refused").exists()
    log = invoke(*train).err
    assert "tokenizers: those of " in log and "validation at update 1" in log
    compared = invoke(*compare).out
    rows = [f"{name} runs/{run}" for name in ("own", "general") for run in ("de-en", "adapted")]
    assert re.findall(r"^(\w+ runs/\S+) +\d+\.\d+ ", compared, re.MULTILINE) == rows and " p " in compared
    assert "\nlayer 2" in invoke(*look).out
    assert invoke("translate", "runs/de-en", "Das", "--ensemble", "runs/adapted").out.count("\n") == 1
    invoke(*train_lora)
    assert "now has the weights of checkpoint 00000001" in invoke("average", "runs/lora", "--last", "1").err
    before, after = (
        safetensors.torch.load_file(tmp_path / f"runs/{name}/model.safetensors") for name in ("de-en", "adapted")
    )
    changes = [(before[name] - after[name]).abs().max() for name in before]
    assert 0 < max(changes) < 1e-4  # of one update with this learning rate
    for command in (export_adapted, share):
        assert re.search(r"^greedy +3 +100.00%", invoke(*command).out, re.MULTILINE)
    readme = (tmp_path / "runs/adapted/huggingface/README.md").read_text(encoding="utf-8")
    program = (tmp_path / "runs/adapted/huggingface/translate.py").read_text(encoding="utf-8")
    assert "began with the weights of `de-en`" in readme and 'MosesPunctNormalizer("de", ' in program
    invoke("import", "runs/adapted/huggingface", "runs/again", "--verify-with", "test.de")
    beam = [invoke("translate", f"runs/{name}", "-i", "test.de").out for name in ("adapted", "again")]
    assert beam[0] == beam[1] and beam[0].count("\n") == 3
    table = after["source_embedding.embedding.weight"]  # of both sides
    assert not table[BOS].any()
    spoiled = tmp_path / "runs/de-en/model.safetensors"
    spoiled.write_bytes(spoiled.read_bytes()[:-1])
    error = invoke("translate", "runs/de-en", "Das", code=2).err
    assert f"{spoiled.relative_to(tmp_path)}: " in error and "; import the model again" in error
    assert "runs/de-en: exists; give another directory" in invoke("import", marian, "runs/de-en", code=2).err


@pytest.mark.slow
def test_files_of_marian_itself_are_imported(invoke: Invoke, tmp_path: Path) -> None:
    """The command of docs/pretrained.md."""
    model = make_marian(tmp_path / "hf", encoder_attention_heads=4, decoder_ffn_dim=32)
    write_marian_files(tmp_path / "enpt", tmp_path / "hf", "model.npz")
    write_npz(tmp_path / "enpt" / "model.npz", marian_arrays(model), marian_options())
    (command,) = [command for command in registry_commands("docs/pretrained.md") if "enpt" in command]
    assert re.search(r"^greedy +20 +100.00% +100.0%", invoke(*shlex.split(command)[1:]).out, re.MULTILINE)


@pytest.mark.parametrize("convert", [torch.Tensor.to_sparse, lambda tensor: tensor.to("meta")], ids=["sparse", "meta"])
def test_a_pickle_without_dense_values_is_an_error(
    marian: Path, invoke: Invoke, tmp_path: Path, convert: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    folder = Path(shutil.copytree(marian, tmp_path / "hf"))
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    name = "model.encoder.layers.1.fc1.weight"
    torch.save(weights | {name: convert(weights[name])}, folder / "pytorch_model.bin")
    assert (
        f"(`{name}` is sparse, nested or without values)" in invoke("import", "hf", "run", "--allow-pickle", code=2).err
    )


class Hostile:
    """A pickle that makes a file when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(__file__).with_name("hostile"),)


def test_a_pickle_is_read_only_if_allowed_and_runs_nothing(marian: Path, invoke: Invoke, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(marian, tmp_path / "hf"))
    file = folder / "pytorch_model.bin"
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    weights["lm_head.weight"] = weights["model.shared.weight"]  # one storage, as in such files
    torch.save(weights, file)
    (tmp_path / "line").write_text(SOURCE[0], encoding="utf-8")
    command = ("import", "hf", "run", "--verify-with", "line")
    assert "hf has no model.safetensors; pytorch_model.bin is a pickle: --allow-" in invoke(*command, code=2).err
    invoke(*command, "--allow-pickle")
    ours = safetensors.torch.load_file(tmp_path / "run" / "model.safetensors")
    assert ours["encoder.layers.1.feed_forward.up_proj.weight"].equal(weights["model.encoder.layers.1.fc1.weight"])
    shutil.rmtree(tmp_path / "run")
    torch.save(weights | {"a": Hostile()}, file)
    error = invoke(*command, "--allow-pickle", code=2).err
    assert f"{file.name}: cannot be converted to safetensors (Weights only" in error and error.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"hf", "line"}
    assert not Path(__file__).with_name("hostile").exists()
