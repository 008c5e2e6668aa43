"""A small T5 model with random weights and a SentencePiece model, as in folders on Hugging Face."""

import json
from pathlib import Path

import safetensors.torch
import torch
from transformers import MT5Config, MT5ForConditionalGeneration, T5Config, T5ForConditionalGeneration

from tests.support.marian import SOURCE, TARGET, randomize, train_pieces

PREFIX = "translate German to English: "
NUM_UNUSED = 3
"""Rows of the tables without a token."""
TASKS = {
    "summarization": {"prefix": "summarize: "},
    "translation_de_to_en": {"prefix": PREFIX, "num_beams": 3, "max_length": 20, "length_penalty": 0.8},
}


def make_t5(
    folder: Path, *, gated: bool = False, tied: bool = False, multilingual: bool = False, **changes: object
) -> T5ForConditionalGeneration | MT5ForConditionalGeneration:
    """A folder with T5 1.0, or with 1.1 if `gated`, which is returned; `changes` override fields of the config.

    `tied`: without an own output, as `transformers` 5 saves a T5 1.1 that it made.
    """
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    pieces = train_pieces([*SOURCE, *TARGET, PREFIX], folder / "spiece.model", vocab_size=120, **ids)
    small = {
        "vocab_size": len(pieces) + 3 + 100 + NUM_UNUSED,
        "d_model": 16,
        "d_kv": 6,
        "d_ff": 24,
        "num_layers": 3,
        "num_decoder_layers": 2,
        "num_heads": 2,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 12,
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "n_positions": 64,
        "decoder_start_token_id": 0,
        "tie_word_embeddings": not gated,
        "initializer_factor": 0.9,
    }
    torch.manual_seed(0)
    config, kind = (MT5Config, MT5ForConditionalGeneration) if multilingual else (T5Config, T5ForConditionalGeneration)
    model = kind(config(**small | changes)).eval()
    randomize(model)
    if gated and not tied:
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.shared.weight) / 3)
    model.save_pretrained(folder)
    fields = json.loads((folder / "config.json").read_text())
    if not gated:  # of the first files, without effect
        weights = safetensors.torch.load_file(folder / "model.safetensors")
        weights["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.ones(8, 2)
        safetensors.torch.save_file(weights, folder / "model.safetensors")
    if gated and not tied:  # as in the files of Google, which `transformers` 5 no longer writes
        fields = {key: value for key, value in fields.items() if key != "scale_decoder_outputs"}
        fields["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(fields | changes))
    return model
