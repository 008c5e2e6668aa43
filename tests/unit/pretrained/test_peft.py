"""Adapters of the package `peft`: imported and exported with the same logits, and refused where they do not fit."""

import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, MarianMTModel, MarianTokenizer

from seq2attn.config.load import load
from seq2attn.data.collate import collate_source
from seq2attn.errors import ConfigError, DataError, RunError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.export.export_run import export_run
from seq2attn.export.huggingface_target import HuggingFaceTarget
from seq2attn.export.peft_target import PeftTarget
from seq2attn.io.weights import load_tensors
from seq2attn.pretrained.family import ImportOptions
from seq2attn.pretrained.import_run import import_run
from seq2attn.tokenizers.vocabulary import BOS, EOS
from tests.support.exported_runs import adapt, make_run
from tests.support.marian import SOURCE, TARGET, make_marian

OPTIONS = ImportOptions("transformers", punctuation=False)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    model = make_marian(tmp_path / "hf")
    model.name_or_path = str(tmp_path / "hf")
    layers = ["q_proj", "v_proj", "fc2"]
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=layers, init_lora_weights=False)
    adapted = peft.get_peft_model(model, config)
    adapted.save_pretrained(tmp_path / "adapter")
    return tmp_path / "hf", tmp_path / "adapter"


@torch.no_grad()
def assert_same_logits(run: RunDirectory, hf: Path, theirs: Any) -> None:
    """Of each word of a translation by forced decoding."""
    model, source, target = run.load_model()
    tokenizer = MarianTokenizer.from_pretrained(hf)
    (start,), words = [tokenizer.pad_token_id], [target.vocabulary.tokens[id] for id in target.encode(TARGET[0])]
    decoder_ids = torch.tensor([[start, *map(tokenizer.encoder.__getitem__, words)]])
    expected = theirs(**tokenizer(SOURCE[0], return_tensors="pt"), decoder_input_ids=decoder_ids).logits
    ids, sequences = collate_source([source.encode(SOURCE[0])])
    hidden = model(ids, sequences, torch.tensor([[BOS, *map(target.vocabulary.id, words)]])).hidden
    columns = [tokenizer.encoder[token] for token in target.vocabulary.tokens[EOS:]]
    torch.testing.assert_close(model.output_projection(hidden)[..., EOS:], expected[..., columns], rtol=1e-5, atol=1e-5)


def test_an_adapter_is_imported_with_its_model(folders: tuple[Path, Path], tmp_path: Path) -> None:
    hf, adapter = folders
    (tmp_path / "lines").write_text("\n".join(SOURCE), encoding="utf-8")
    report = import_run(adapter, tmp_path / "run", OPTIONS, verify_with=tmp_path / "lines")
    assert report is not None and report.searches[0].token_agreement == 1
    model = MarianMTModel.from_pretrained(hf).eval()
    plain = model.state_dict()["model.encoder.layers.0.fc2.weight"].clone()
    adapted = peft.PeftModel.from_pretrained(model, adapter).eval()
    assert_same_logits(RunDirectory(tmp_path / "run"), hf, adapted)
    ours = load_file(tmp_path / "run" / "model.safetensors")["encoder.layers.0.feed_forward.down_proj.weight"]
    assert (ours - plain).abs().max() > 0.01


NAME = "base_model.model.model.encoder.layers.0.fc2.lora_A.weight"
SHARED = "base_model.model.model.shared"
MISTAKES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "other method": ({"peft_type": "IA3"}, {}, "adapter_config.json: `peft_type`: Input should be 'LORA'"),
    "ranks": ({"rank_pattern": {"fc2": 2}}, {}, "adapter_config.json: `rank_pattern`: "),
    "scale": ({"use_rslora": True}, {}, "adapter_config.json: `use_rslora`: "),
    "changed model": ({"init_lora_weights": "pissa_niter_4"}, {}, "adapter_config.json: `init_lora_weights`: "),
    "no model": (
        {"base_model_name_or_path": "Helsinki-NLP/opus"}, {}, "`base_model_name_or_path`: there is no folder Helsinki"
    ),
    "rank": ({"r": 2}, {}, "B and A of `.*` are 16 x 3, 3 x .*, and 16 x 2, 2 x "),
    "width": ({}, {NAME: torch.ones(3, 9)}, "are 16 x 3, 3 x 9, and 16 x 3, 3 x 32 by adapter_config.json and .*hf"),
    "one of two": ({}, {NAME: None}, "fc2.lora_B.weight` is not A or B of a layer of .*hf"),
    "layer": ({}, {NAME.replace("layers.0", "layers.9"): torch.ones(3, 32)}, "layers.9.fc2.lora_A.weight` is not A"),
    "magnitude": ({}, {NAME.replace("A.weight", "magnitude_vector"): torch.ones(9)}, "vector` is not A or B of"),
    "table": ({}, {f"{SHARED}.lora_{one}.weight": torch.ones(3, 3) for one in "AB"}, "shared.lora_A.weight` is not"),
    "not finite": ({}, {NAME: torch.full((3, 32), torch.nan)}, "fc2` has values that are NaN or infinite"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_adapters_that_do_not_fit_are_refused(name: str, folders: tuple[Path, Path], tmp_path: Path) -> None:
    fields, tensors, message = MISTAKES[name]
    config, weights = (folders[1] / f"adapter_{part}" for part in ("config.json", "model.safetensors"))
    config.write_text(json.dumps(json.loads(config.read_text()) | fields))
    save_file({name: tensor for name, tensor in (load_file(weights) | tensors).items() if tensor is not None}, weights)
    with pytest.raises(DataError, match=message) as error:
        import_run(folders[1], tmp_path / "run", OPTIONS)
    assert str(folders[1]) in str(error.value) and not (tmp_path / "run").exists()


@pytest.fixture
def pegasus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run that becomes a Pegasus model, in the working directory, and its export."""
    monkeypatch.chdir(tmp_path)
    make_run(Path())
    export_run(RunDirectory(Path("run")), HuggingFaceTarget(), Path("run/huggingface"), verify_with=Path("lines"))
    return RunDirectory(Path("run"))


def assert_exported(base: RunDirectory, run: RunDirectory, rank: int) -> None:
    """`transformers` with the adapter computes what the run does, and so does its import."""
    report = export_run(run, PeftTarget(), Path("peft"), verify_with=Path("train.de"))
    assert report.searches[0].token_agreement == 1 and report.max_forced_difference < 1e-4
    assert {
        tensor.size(int("lora_B" in name)) for name, tensor in load_file("peft/adapter_model.safetensors").items()
    } == {rank}
    adapted = peft.PeftModel.from_pretrained(AutoModelForSeq2SeqLM.from_pretrained(base.folder / "huggingface"), "peft")
    model, source, target = run.load_model()
    ids, sequences = collate_source([source.encode(line) for line in SOURCE])
    target_ids = torch.tensor([[BOS, *target.encode(TARGET[0])]]).expand(len(SOURCE), -1)
    theirs = adapted.eval()(input_ids=ids, attention_mask=sequences.mask.long(), decoder_input_ids=target_ids).logits
    ours = model.output_projection(model(ids, sequences, target_ids).hidden)
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-5)
    import_run(Path("peft"), Path("again"), ImportOptions(), verify_with=Path("train.de"))
    again, before, after = (load_tensors(Path(one) / "model.safetensors") for one in ("again", base.folder, run.folder))
    layers = {f"{name}.weight" for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)}
    for name in {name for name in after if not before[name].equal(after[name])} | {*again} & layers:
        torch.testing.assert_close(again[name], after[name], rtol=1e-5, atol=1e-6)
    assert RunDirectory(Path("again")).load_tokenizers()[0].vocabulary == source.vocabulary


def test_an_adapter_of_a_run_is_exported_for_the_export_of_its_first_run(pegasus: RunDirectory) -> None:
    """A is of the rank of the mean of two updates, more than the layers have rows."""
    assert_exported(pegasus, adapt(Path()), 18)


@pytest.mark.slow
def test_an_adapter_of_an_imported_model_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_marian(Path("hf"))
    for suffix, lines in (("de", SOURCE), ("en", TARGET)):
        Path(f"train.{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    import_run(Path("hf"), Path("run"), OPTIONS, verify_with=Path("train.de"))
    base = RunDirectory(Path("run"))
    run = adapt(Path(), "training.lora.parts=[decoder.layers.1.feed_forward]", "training.checkpoints.average=none")
    with pytest.raises(RunError, match="run/huggingface: has no exported model; make it: seq2attn export run --to "):
        export_run(run, PeftTarget(), Path("peft"), verify_with=Path("train.de"))
    export_run(base, HuggingFaceTarget(), Path("run/huggingface"), verify_with=Path("train.de"))
    assert_exported(base, run, 9)
    assert_same_logits(
        run, Path("hf"), peft.PeftModel.from_pretrained(MarianMTModel.from_pretrained("hf"), "peft").eval()
    )


REFUSED = {
    "training.lora=null": r"adapted/config.yaml:\d+:\d+: `training.lora`: peft has adapters of runs trained with",
    "training.init_from=null": r"adapted/config.yaml:\d+:\d+: `training.init_from`: peft has adapters of runs that",
    "model.decoder.norm_type=rmsnorm": r"adapted/config.yaml:\d+:\d+: `model.decoder.norm_type`: huggingface has no",
}


def test_what_is_no_adapter_of_an_export_is_refused(pegasus: RunDirectory) -> None:
    run = adapt(Path())
    experiment, config = run.load_config(), run.config_path.read_text()
    for change, message in REFUSED.items():
        run.save_config(load(Path("adapted/config.yaml"), ExperimentConfig, [change]))
        with pytest.raises(ConfigError, match=message):
            export_run(run, PeftTarget(), Path("peft"), verify_with=Path("train.de"))
        run.config_path.write_text(config)
    vocabularies = [tokenizer.vocabulary for tokenizer in run.load_tokenizers()]
    before, after = (load_tensors(one.weights_path) for one in (pegasus, run))
    bias = "encoder.layers.0.feed_forward.up_proj.bias"
    for weights, message in (
        (
            after | {bias: after[bias] + 1},
            f"`training.init_from`: `{bias}` differs from that of run; peft has adapters",
        ),
        (before, "`training.init_from`: no weight differs from those of run; peft has adapters"),
    ):
        run.save_model(weights, (vocabularies[0], vocabularies[1]), {"checkpoints": ["00000001"]})
        with pytest.raises(ConfigError, match=message):
            export_run(run, PeftTarget(), Path("peft"), verify_with=Path("train.de"))
    assert not Path("peft").exists() and experiment.training.lora is not None
