"""Adapters of the package `peft`: imported with the same logits, and refused where they do not fit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import MarianMTModel, MarianTokenizer

from seq2attn.data.collate import collate_source
from seq2attn.errors import DataError
from seq2attn.pretrained.family import ImportOptions
from seq2attn.pretrained.import_run import import_run
from seq2attn.run_directory import RunDirectory
from seq2attn.tokenizers.vocabulary import BOS, EOS
from tests.small_marian import SOURCE, TARGET, make_marian

peft = pytest.importorskip("peft")
OPTIONS = ImportOptions("transformers", punctuation=False)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A model and an adapter of it."""
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
    ids, mask = collate_source([source.encode(SOURCE[0])])
    hidden = model(ids, mask, torch.tensor([[BOS, *map(target.vocabulary.id, words)]])).hidden
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
