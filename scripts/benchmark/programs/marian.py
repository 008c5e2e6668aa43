"""Hugging Face's MarianMTModel: training in a plain loop, or translation with the weights of our run.

marian train DATA MODEL TOKENS --attention-dropout P
marian translate DATA MODEL RUN --source FILE --output FILE --beam N --batch N --most N --type T [--times FILE]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import GenerationConfig, MarianConfig, MarianMTModel

from benchmark.programs.batches import BOS, EOS, PAD, pad, sentences, train, vocabulary
from benchmark.programs.writing import translate_all
from benchmark.setting import TRANSFORMERS


def build_model(attention_dropout: float, model: str = "t") -> Any:
    """T, or a model for a GPU."""
    layers, dim, heads, hidden = TRANSFORMERS[model]
    sizes = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in (("layers", layers), ("attention_heads", heads), ("ffn_dim", hidden))
    }
    special = {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
    }
    config = MarianConfig(
        vocab_size=8000, d_model=dim, dropout=0.1, attention_dropout=attention_dropout, activation_dropout=0.0,
        activation_function="relu", max_position_embeddings=512, scale_embedding=True, init_std=0.02,
        share_encoder_decoder_embeddings=True, tie_word_embeddings=True, **sizes, **special,
    )  # fmt: skip
    net = MarianMTModel(config)
    net.generation_config = GenerationConfig(**special, suppress_tokens=[PAD, BOS])
    return net


def load_our_weights(run: Path, name: str) -> Any:
    """A model with the weights and positions of our run."""
    model, ours = build_model(0.0, name), load_file(run / "model.safetensors")
    weights = dict(_rename(ours))
    weights["final_logits_bias"] = ours["output_projection.bias"].unsqueeze(0)
    table = next(
        ours[name]
        for name in ("target_embedding.embedding.weight", "source_embedding.embedding.weight")
        if name in ours
    )
    for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"):
        weights[f"model.{name}.weight"] = table
    weights["lm_head.weight"] = table
    for side in ("encoder", "decoder"):
        weights[f"model.{side}.embed_positions.weight"] = sinusoidal_positions(512, table.size(1))
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if missing or unexpected:
        raise SystemExit(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    return model.eval()


def _rename(ours: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Weights of the layers with Marian's names."""
    parts = {
        "self_attention": "self_attn", "cross_attention": "encoder_attn",
        "score.query_proj": "q_proj", "score.key_proj": "k_proj", "value_proj": "v_proj", "output_proj": "out_proj",
        "self_attention_residual": "self_attn_layer_norm", "cross_attention_residual": "encoder_attn_layer_norm",
        "feed_forward_residual": "final_layer_norm", "feed_forward.up_proj": "fc1", "feed_forward.down_proj": "fc2",
    }  # fmt: skip
    for name, weight in ours.items():
        if ".layers." not in name:
            continue
        side, _, number, *rest = name.split(".")
        *path, kind = rest
        if path[-1] == "norm":
            theirs = parts[path[0]]
        elif path[0] == "feed_forward":
            theirs = parts[".".join(path)]
        else:
            theirs = f"{parts[path[0]]}.{parts['.'.join(path[1:])]}"
        yield f"model.{side}.layers.{number}.{theirs}.{kind}", weight


def sinusoidal_positions(count: int, dim: int) -> Tensor:
    """Sinusoidal positions [count, dim]: sines, then cosines, with wavelengths up to 10,000 * 2 pi."""
    half = dim // 2
    rates = torch.exp(torch.arange(half) * (-math.log(10000.0) / (half - 1)))
    angle = torch.arange(count)[:, None] * rates
    return torch.cat([angle.sin(), angle.cos()], 1)


def translate(options: argparse.Namespace) -> None:
    """Translate in batches, the longest sentences first, on a GPU if there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_our_weights(options.run, options.model).to(device, getattr(torch, options.type))
    tokens = vocabulary(options.data)

    def translate_batch(batch: list[list[int]]) -> list[str]:
        source = pad([[*row, EOS] for row in batch]).to(device)
        output = model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=options.beam,
            do_sample=False,
            max_new_tokens=options.most,
        )
        rows = (row[1 : row.index(EOS, 1) if EOS in row[1:] else None] for row in output.tolist())
        return [" ".join(tokens[id] for id in row if id != PAD) for row in rows]

    with torch.inference_mode():
        translate_all(sentences(options.data, options.source), translate_batch, options)


def argument_parser() -> argparse.ArgumentParser:
    """Options of training and translation."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="verb", required=True)
    training, translating = commands.add_parser("train"), commands.add_parser("translate")
    for command in (training, translating):
        command.add_argument("data", type=Path)
        command.add_argument("model", choices=TRANSFORMERS)
    training.add_argument("tokens", type=int)
    training.add_argument("--attention-dropout", type=float, default=0.1)
    translating.add_argument("run", type=Path)
    translating.add_argument("--type", choices=["float32", "bfloat16"], required=True)
    for name, kind in (("source", Path), ("output", Path), ("beam", int), ("batch", int), ("most", int)):
        translating.add_argument(f"--{name}", type=kind, required=True)
    translating.add_argument("--times", type=Path)
    return parser


def main() -> None:
    options = argument_parser().parse_args()
    if options.verb == "translate":
        translate(options)
        return
    torch.manual_seed(42)
    model = build_model(options.attention_dropout, options.model)

    def logits(source: Tensor, inputs: Tensor) -> Tensor:
        output: Tensor = model(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=inputs,
            use_cache=False,
        ).logits
        return output

    train(model, logits, options.data, options.tokens)


if __name__ == "__main__":
    main()
