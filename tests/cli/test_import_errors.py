"""Models that cannot be imported: one line with the place of the mistake, and nothing is left behind."""

import json
import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from tests.support.commands import Invoke
from tests.support.marian import SOURCE, make_marian, train_pieces
from tests.support.multilingual import make_bart, make_m2m100, make_mbart, make_pegasus
from tests.support.t5 import TASKS, make_t5

FAMILIES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "marian": (make_marian, []),
    "nllb": (partial(make_m2m100, nllb=True), ["--from", "deu_Latn", "--to", "fra_Latn"]),
    "t5": (partial(make_t5, task_specific_params=TASKS), ["--to", "en"]),
    "m2m100": (partial(make_m2m100, nllb=False), ["--from", "de", "--to", "en"]),
    "mbart": (make_mbart, ["--from", "de_DE", "--to", "en_XX"]),
    "pegasus": (make_pegasus, []),
    "bart": (make_bart, []),
}
"""A function that writes a model, and the usual options of its import."""
TABLE, LAYER = torch.ones(55, 16), "model__encoder__layers__1__fc1__weight"


def content(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def replace_text(name: str, old: str, new: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text((folder / name).read_text("utf-8").replace(old, new), "utf-8")


def change(name: str, **fields: Any) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8")) | fields
        content = {key: value for key, value in content.items() if value != "remove"}
        (folder / name).write_text(json.dumps(content), encoding="utf-8")

    return spoil


def weights(**tensors: torch.Tensor | None) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        file = folder / "model.safetensors"
        content = safetensors.torch.load_file(file) | {name.replace("__", "."): t for name, t in tensors.items()}
        safetensors.torch.save_file({name: t for name, t in content.items() if t is not None}, file)

    return spoil


def truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-9])


config = partial(change, "config.json")
MISTAKES: dict[str, dict[str, tuple[Any, ...]]] = {}
"""Of each family: a change of the folder, the message, and options in place of the usual ones."""
MISTAKES["marian"] = {
    "no config": (lambda hf: (hf / "config.json").unlink(), "{hf} has no config.json"),
    "another model": (config(model_type="gpt2"), "{hf}/config.json: `model_type` is `gpt2`; only `m"),
    "no width": (config(d_model="remove"), "{hf}/config.json: `d_model`: Field required"),
    "pre-norm": (config(normalize_before=True), "{hf}/config.json: `normalize_before`: Input should be"),
    "heads": (config(encoder_attention_heads=3), "{hf}: `model`: "),
    "negative penalty": (
        change("generation_config.json", length_penalty=-1), "{hf}/generation_config.json: `length_penalty`: Input"
    ),
    "truncated": (truncate, "{hf}/model.safetensors ("),
    "not equal": (weights(lm_head__weight=TABLE), "{hf}: `model.shared.weight` and `lm_head.weight` differ"),
    "missing": (weights(**{LAYER: None}), "{hf}: its weights lack `model.encoder.layers.1.fc1.weight`"),
    "no table": (weights(model__shared__weight=None), "{hf}: its weights lack `model.shared.weight`"),
    "unknown": (weights(model__adapter=TABLE), "{hf}: its weights have `model.adapter`, which is not of this"),
    "shape": (weights(**{LAYER: TABLE}), "`model.encoder.layers.1.fc1.weight` is 55 x 16, and 32 x 16 by config.json"),
    "integers": (weights(model__shared__weight=TABLE.int()), "`model.shared.weight` is of I32, expected one of F64"),
    "not finite": (weights(model__shared__weight=TABLE / 0), "`model.shared.weight` has values that are NaN or inf"),
    "positions": (
        weights(model__encoder__embed_positions__weight=TABLE), "`model.encoder.embed_positions.weight` is not a"
    ),
    "vocabulary": (change("vocab.json", extra=55), "{hf}/vocab.json: has 56 entries, and the model 55 by config.json"),
    "special token": (config(eos_token_id=1), "`</s>` has the id 0, expected `eos_token_id`, 1"),
    "task": (Path.exists, "{hf}: --source-prefix has no effect on this model (`marian`)", ["--source-prefix", "to:"]),
    "known positions": (
        config(wavelengths="paper"), "{hf}: --positions has no effect on this model", ["--positions", "transformers"]
    ),
    "start": (config(decoder_start_token_id=55), "{hf}/config.json: `decoder_start_token_id` is 55 of 55 entries"),
    "layers": (config(encoder_layers=10**6), "{hf}/config.json: `encoder_layers`: Input should be less than or equal"),
    "size": (config(d_model=10**30), "{hf}/config.json: `d_model`: Input should be less than"),
    "no name": (config(model_type=["marian"]), "{hf}/config.json: `model_type` is `['marian']`; only `marian`"),
    "language": (Path.exists, "{hf}: the model has no tags of languages; leave it out (--to LANG)", ["--to", "fra"]),
    "tokenizer": (Path.exists, "{hf}: the tokenizers give other ids for 'Das</s>Haus'", ["--verify-with", "hf/lines"]),
    "no pieces": (lambda hf: (hf / "source.spm").write_bytes(b"x"), "{hf}/source.spm: is not a SentencePiece model"),
    "no vocabulary": (lambda hf: (hf / "vocab.json").unlink(), "{hf}/vocab.json"),
}  # fmt: skip
MISTAKES["nllb"] = {
    "no language": (Path.exists, "{hf}: the model has the languages deu_Latn, eng_Latn, fra_Latn; give one (", []),
    "other pieces": (
        lambda hf: train_pieces(SOURCE, hf / "sentencepiece.bpe.model"), "{hf}: the ids of its languages do not follow"
    ),
    "no pieces": (lambda hf: (hf / "sentencepiece.bpe.model").unlink(), "{hf}/sentencepiece.bpe.model"),
    "no tags": (lambda hf: (hf / "tokenizer.json").unlink(), "special_tokens_map.json lacks `additional_special_tok"),
    "bad tags": (change("tokenizer.json", added_tokens=[5]), "{hf}: the tokens in one of tokenizer_config.json, "),
    "added word": (
        change("tokenizer_config.json", added_tokens_decoder={"95": {"content": "Haus", "special": False}}),
        "{hf}: its tokenizer has added tokens of text, such as `Haus` (95)",
    ),
    "size": (config(vocab_size=199), "{hf}/sentencepiece.bpe.model: has 95 entries, and the model 199"),
    "too small": (config(vocab_size=90), "{hf}/sentencepiece.bpe.model: has 95 entries, and the"),
    "padding": (config(pad_token_id=0), "`<pad>` has the id 1, expected `pad_token_id`, 0"),
    "activation": (config(activation_function="relu2"), "{hf}/config.json: `activation_function`: "),
    "tensor": (weights(model__encoder__layer_norm__weight=None), "{hf}: its weights lack `model.encoder.layer_norm"),
}  # fmt: skip
MISTAKES["t5"] = {
    "task": (Path.exists, "{hf}: the model has the languages en; give one (--to LANG)", []),
    "language": (Path.exists, "{hf}: the model has the languages en; give one (--to LANG)", ["--to", "fr"]),
    "source": (Path.exists, "{hf}: the model has the languages de; give one (--from", ["--from", "fr", "--to", "en"]),
    "positions": (Path.exists, "{hf}: --positions has no effect", ["--to", "en", "--positions", "transformers"]),
    "punctuation": (Path.exists, "{hf}: --no-punctuation has no effect on this", ["--to", "en", "--no-punctuation"]),
    "no tasks": (config(task_specific_params=None), "{hf}: the model has no tags of languages", ["--to", "fr"]),
    "prefix": (Path.exists, "the model does not know all tokens of the `prefix` 'Ω'", ["--source-prefix", "Ω"]),
    "added word": (
        content("tokenizer.json", '{"added_tokens": [{"id": 169, "content": "{", "special": false}]}'),
        "{hf}: its tokenizer has added tokens of text, such as `{{` (169)",
    ),
    "rows": (config(vocab_size=60), "{hf}/spiece.model: has 69 entries, and"),
    "activation": (config(feed_forward_proj="gelu"), "{hf}/config.json: `feed_forward_proj`: Input should be 'relu'"),
    "epsilon": (config(layer_norm_epsilon=1e-05), "{hf}/config.json: `layer_norm_epsilon`: Input should be less than"),
    "buckets": (config(relative_attention_max_distance=4), "max_distance: 4, but 4 of the 8 buckets have"),
    "heads": (config(d_kv=7), "SelfAttention.k.weight` is 12 x 16, and 14 x 16 by config.json"),
    "gate": (config(feed_forward_proj="gated-gelu"), "{hf}: its weights lack `encoder.block.0.layer.1.De"),
    "kind": (config(model_type="marian"), "{hf}/config.json: "),
}  # fmt: skip
MISTAKES["m2m100"] = {
    "SMaLL-100": (
        content("tokenizer_config.json", '{"tokenizer_class": "SMALL100Tokenizer"}'),
        "{hf}/tokenizer_config.json: `tokenizer_class` is that of SMaLL-100",
    ),
}  # fmt: skip
MISTAKES["mbart"] = {
    "the first": (
        content("tokenizer_config.json", '{"tokenizer_class": "MBartTokenizer"}'),
        "{hf}/tokenizer_config.json: `tokenizer_class` is that of the first mBART",
    ),
    "a translation model of the first": (
        config(decoder_start_token_id=9),
        "{hf}/config.json: `decoder_start_token_id` is not EOS, as in translation models of the first mBART",
    ),
}  # fmt: skip
MISTAKES["pegasus"] = {
    "language": (Path.exists, "has no tags of languages; leave it out", ["--to", "x"]),
    "norm": (
        weights(model__encoder__layernorm_embedding__weight=TABLE), "`model.encoder.layernorm_embedding.weight`"
    ),
    "positions": (
        weights(model__encoder__embed_positions__weight=TABLE), "positions.weight` is 55 x 16, and 64 x 16 by config"
    ),
    "pieces": (content("spiece.model", "x"), "spiece.model: is not a SentencePiece model"),
    "no pieces": (lambda hf: (hf / "spiece.model").unlink(), "spiece.model"),
}  # fmt: skip
MISTAKES["bart"] = {
    "no object": (content("tokenizer.json", "[]"), "is not a tokenizer of Hugging Face"),
    "no keys": (content("tokenizer.json", "{}"), "is not a tokenizer of Hugging Face"),
    "no tokenizer": (lambda hf: (hf / "tokenizer.json").unlink(), "tokenizer.json cannot be read"),
    "id": (replace_text("tokenizer.json", ": 299", ": 999"), "tokenizer.json: its ids are not 0 to 299, each once"),
}  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function from a family to a folder of a model, which is written once."""

    @cache
    def write(family: str) -> Path:
        folder = tmp_path_factory.mktemp("original") / family
        FAMILIES[family][0](folder)
        return folder

    return write


@pytest.mark.parametrize(("family", "name"), [(family, name) for family in MISTAKES for name in MISTAKES[family]])
def test_a_bad_folder_leaves_nothing_behind(
    family: str, name: str, original: Callable[[str], Path], invoke: Invoke, tmp_path: Path
) -> None:
    spoil, message, *options = MISTAKES[family][name]
    folder = Path(shutil.copytree(original(family), tmp_path / "hf"))
    (folder / "lines").write_text("Das</s>Haus")  # which `transformers` reads as two sentences
    spoil(folder)
    error = invoke("import", folder, "run", *(options[0] if options else FAMILIES[family][1]), code=2).err
    assert message.format(hf=folder) in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]
