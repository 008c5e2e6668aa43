"""Hugging Face's MarianMTModel: trained in a plain loop, or translating with the weights of a run of ours.

marian train DATA MODEL TOKENS --attention-dropout P
marian translate DATA RUN --source FILE --output FILE --beam N --batch N --most N [--times FILE]
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

from benchmark.programs.batches import BOS, EOS, PAD, padded, sentences, train, vocabulary
from benchmark.programs.writing import translate_all

SIZES = {
    "t": (3, 256, 4, 1024),
    "transformer-base": (6, 512, 8, 2048),
    "transformer-big": (6, 1024, 16, 4096),
}
"""Layers on either side, width, heads, width of the feed-forward part."""
DIM = 256
"""Of T, whose weights it can have."""


def built(attention_dropout: float, model: str = "t") -> Any:
    """T, or one of those for cards."""
    layers, dim, heads, hidden = SIZES[model]
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
    made = MarianMTModel(config)
    made.generation_config = GenerationConfig(**special, suppress_tokens=[PAD, BOS])
    return made


def with_our_weights(run: Path) -> Any:
    """T with the weights of a run; its table of positions becomes ours."""
    model, ours = built(0.0), load_file(run / "model.safetensors")
    taken = dict(renamed(ours))
    taken["final_logits_bias"] = ours["output_projection.bias"].unsqueeze(0)
    table = next(
        ours[name]
        for name in ("target_embedding.embedding.weight", "source_embedding.embedding.weight")
        if name in ours
    )
    for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"):
        taken[f"model.{name}.weight"] = table
    taken["lm_head.weight"] = table
    for side in ("encoder", "decoder"):
        taken[f"model.{side}.embed_positions.weight"] = our_positions(512)
    missing, unexpected = model.load_state_dict(taken, strict=False)
    if missing or unexpected:
        raise SystemExit(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    return model.eval()


def renamed(ours: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The weights of the layers under Marian's names."""
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
        *where, kind = rest
        if where[-1] == "norm":
            theirs = parts[where[0]]
        elif where[0] == "feed_forward":
            theirs = parts[".".join(where)]
        else:
            theirs = f"{parts[where[0]]}.{parts['.'.join(where[1:])]}"
        yield f"model.{side}.layers.{number}.{theirs}.{kind}", weight


def our_positions(count: int) -> Tensor:
    """[count, DIM]: sines, then cosines, with wavelengths that reach 10,000 * 2 pi."""
    half = DIM // 2
    rates = torch.exp(torch.arange(half) * (-math.log(10000.0) / (half - 1)))
    angle = torch.arange(count)[:, None] * rates
    return torch.cat([angle.sin(), angle.cos()], 1)


def translate(options: argparse.Namespace) -> None:
    """Batches of sentences, the longest first."""
    model, pieces = with_our_weights(options.run), vocabulary(options.data)

    def found(batch: list[list[int]]) -> list[str]:
        source = padded([[*row, EOS] for row in batch])
        said = model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=options.beam,
            do_sample=False,
            max_new_tokens=options.most,
        )
        rows = (row[1 : row.index(EOS, 1) if EOS in row[1:] else None] for row in said.tolist())
        return [" ".join(pieces[id] for id in row if id != PAD) for row in rows]

    with torch.inference_mode():
        translate_all(sentences(options.data, options.source), found, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="verb", required=True)
    training, translating = commands.add_parser("train"), commands.add_parser("translate")
    training.add_argument("data", type=Path)
    training.add_argument("model", choices=SIZES)
    training.add_argument("tokens", type=int)
    training.add_argument("--attention-dropout", type=float, default=0.1)
    translating.add_argument("data", type=Path)
    translating.add_argument("run", type=Path)
    for name, kind in (("source", Path), ("output", Path), ("beam", int), ("batch", int), ("most", int)):
        translating.add_argument(f"--{name}", type=kind, required=True)
    translating.add_argument("--times", type=Path)
    options = parser.parse_args()
    if options.verb == "translate":
        translate(options)
        return
    torch.manual_seed(42)
    model = built(options.attention_dropout, options.model)

    def logits(source: Tensor, read: Tensor) -> Tensor:
        said: Tensor = model(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=read,
            use_cache=False,
        ).logits
        return said

    train(model, logits, options.data, options.tokens)


if __name__ == "__main__":
    main()
