"""A small Marian model with random weights and SentencePiece models, as OPUS-MT's folders on Hugging Face."""

import io
import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from transformers import MarianConfig, MarianMTModel

SOURCE = ("Das rote Haus ist alt.", "„Wo ist das Boot?“, fragte er.", "Ein neues Boot liegt am blauen Fluss — heute.")
TARGET = ("The red house is old.", "Where is the boat? he asked.", "A new boat lies by the blue river today.")
SMALL = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "scale_embedding": True,
    "init_std": 0.35,  # large, so that tokens differ in probability
}
LETTERS = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "out_proj": "o"}


def train_pieces(lines: Sequence[str], path: Path, **changes: object) -> list[str]:
    """Train a SentencePiece model with its own normalization, and return its pieces without special ones."""
    model = io.BytesIO()
    options = {"vocab_size": 80, "hard_vocab_limit": False, "minloglevel": 2, **changes}
    SentencePieceTrainer.train(sentence_iterator=iter(lines * 9), model_writer=model, **options)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.getvalue())
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    ids = [id for id in range(len(processor)) if not processor.is_control(id) and not processor.is_unknown(id)]
    return [processor.id_to_piece(id) for id in ids]


def randomize(model: Any) -> None:
    """Random norms, biases and position biases in place of ones and zeros."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "bias.weight", "norm.weight", "layernorm_embedding.weight")):
                parameter.add_(torch.randn_like(parameter) / 5)


def make_vocabulary(folder: Path, *, separate: bool = False, tags: Sequence[str] = ()) -> int:
    """SentencePiece models and vocabularies in a folder. Returns the number of entries, of each side if `separate`."""
    source = train_pieces(SOURCE, folder / "source.spm")
    target = train_pieces(TARGET, folder / "target.spm")
    sides = [list(dict.fromkeys([*tags, *source, *target]))]
    if separate:
        size = max(len(source), len(target))
        sides = [[*one, *(f"x{number}" for number in range(len(one), size))] for one in (source, target)]
    for number, pieces in enumerate(sides):
        name = ("vocab.json", "target_vocab.json")[number]
        tokens = ["</s>", *pieces[:number], "<unk>", *pieces[number:], "<pad>"]  # in another order on each side
        (folder / name).write_text(json.dumps({token: id for id, token in enumerate(tokens)}), encoding="utf-8")
    names = {"source_lang": "de", "target_lang": "en", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return len(sides[0]) + 3


def make_marian(
    folder: Path,
    *,
    separate: bool = False,
    tags: Sequence[str] = (),
    shard: str = "1GB",
    dtype: torch.dtype = torch.float32,
    **changes: object,
) -> MarianMTModel:
    """A folder with a model, which is returned; `changes` override fields of the config."""
    pad = make_vocabulary(folder, separate=separate, tags=tags) - 1
    small = SMALL | {
        "vocab_size": pad + 1,
        "activation_function": "swish",
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "share_encoder_decoder_embeddings": not separate,
    }
    torch.manual_seed(0)
    model = MarianMTModel(MarianConfig(**small | changes)).eval()
    model.final_logits_bias.normal_()[0, 0] = -2  # EOS, so that no unlikely one ends a beam
    randomize(model)
    model.generation_config.update(num_beams=3, length_penalty=0.8, max_length=20)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    return model.float()


def marian_arrays(model: MarianMTModel) -> dict[str, NDArray[np.float32]]:
    """The weights of a model with the names and layouts of Marian, without the row of PAD."""
    arrays = {"Wemb": model.model.shared.weight[:-1], "decoder_ff_logit_out_b": model.final_logits_bias[:, :-1]}
    for side in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(model.model, side).layers, 1):
            scope = f"{side}_l{number}"
            for theirs, name in (("self_attn", "self"), ("encoder_attn", "context")):
                for module, letter in LETTERS.items() if hasattr(layer, theirs) else ():
                    linear = getattr(getattr(layer, theirs), module)
                    arrays[f"{scope}_{name}_W{letter}"] = linear.weight.T
                    arrays[f"{scope}_{name}_b{letter}"] = linear.bias[None]
            norms = {"self_Wo": "self_attn_layer_norm", "ffn_ffn": "final_layer_norm"}
            norms |= {"context_Wo": "encoder_attn_layer_norm"} if side == "decoder" else {}
            for name, norm in norms.items():
                arrays[f"{scope}_{name}_ln_scale"] = getattr(layer, norm).weight[None]
                arrays[f"{scope}_{name}_ln_bias"] = getattr(layer, norm).bias[None]
            for name, linear in (("1", layer.fc1), ("2", layer.fc2)):
                arrays[f"{scope}_ffn_W{name}"], arrays[f"{scope}_ffn_b{name}"] = linear.weight.T, linear.bias[None]
    return {name: np.ascontiguousarray(tensor.detach().numpy()) for name, tensor in arrays.items()}


def marian_options(**changes: object) -> dict[str, object]:
    """The options of a training that made a model of `make_marian` with equal widths of both sides."""
    return {
        "type": "transformer",
        "dim-emb": 16,
        "dim-vocabs": [54, 54],
        "enc-depth": 2,
        "dec-depth": 2,
        "transformer-heads": 4,
        "transformer-dim-ffn": 32,
        "transformer-ffn-activation": "swish",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-no-projection": False,
        "transformer-guided-alignment-layer": "last",
        "tied-embeddings-all": True,
    } | {name.replace("_", "-"): value for name, value in changes.items()}


def write_npz(file: Path, arrays: Mapping[str, NDArray[np.float32]], options: Mapping[str, object]) -> None:
    """Marian's `.npz`, in which the text of the options ends with a zero."""
    text = np.frombuffer(yaml.safe_dump(dict(options)).encode() + b"\0", np.int8)
    np.savez(file, **arrays, **{"special:model.yml": text})


def write_bin(
    file: Path, arrays: Mapping[str, NDArray[np.float32]], options: Mapping[str, object], scale: float = 0.0
) -> None:
    """Marian's `.bin`; with a `scale`, matrices are 8-bit integers, and those of products transposed."""
    text = np.frombuffer(yaml.safe_dump(dict(options)).encode() + b"\0", np.int8)
    headers, names, shapes, data = b"", b"", b"", b""
    for name, array in {**arrays, "special:model.yml": text}.items():
        kind, content = (0x404, array.tobytes()) if array.dtype == np.float32 else (0x101, array.tobytes())
        if scale and len(array) > 1 and array.dtype == np.float32:
            stored = array if name == "Wemb" else array.T
            content = np.rint(stored * scale).astype(np.int8).tobytes() + np.float32(scale).tobytes()
            kind = 0x4101
        content += b"\0" * (-len(content) % 256)
        headers += struct.pack("<4Q", len(name) + 1, kind, array.ndim, len(content))
        names, data = names + name.encode() + b"\0", data + content
        shapes += struct.pack(f"<{array.ndim}i", *array.shape)
    start = struct.pack("<2Q", 1, len(arrays) + 1) + headers + names + shapes
    padding = -(len(start) + 8) % 256
    file.write_bytes(start + struct.pack("<Q", padding) + b"\0" * padding + data)


def write_marian_files(folder: Path, original: Path, weights: str) -> None:
    """The decoder's config and the vocabularies of Marian for the model in the folder `original`."""
    ids = json.loads((original / "vocab.json").read_text(encoding="utf-8"))
    folder.mkdir(parents=True)
    (folder / "vocab.yml").write_text(
        "".join(f"{json.dumps(piece, ensure_ascii=False)}: {id}\n" for piece, id in ids.items() if piece != "<pad>"),
        encoding="utf-8",
    )
    for name in ("source.spm", "target.spm"):
        shutil.copy(original / name, folder)
    decoding = {"models": [f"/elsewhere/{weights}"], "vocabs": ["vocab.yml", "vocab.yml"], "beam-size": 3}
    (folder / "decoder.yml").write_text(
        yaml.safe_dump({**decoding, "normalize": 0.8, "max-length-factor": 2, "mini-batch": 64})
    )
