"""A small Marian model with random weights and SentencePiece models, as OPUS-MT's folders on Hugging Face."""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from transformers import MarianConfig, MarianMTModel

SOURCE = ("Das rote Haus ist alt.", "„Wo ist das Boot?“, fragte er.", "Ein neues Boot liegt am blauen Fluss — heute.")
TARGET = ("The red house is old.", "Where is the boat? he asked.", "A new boat lies by the blue river today.")


def train_pieces(lines: Sequence[str], path: Path) -> list[str]:
    """Train a SentencePiece model with its own normalization, and return its pieces."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 9), model_writer=model, vocab_size=80, hard_vocab_limit=False, minloglevel=2
    )
    path.write_bytes(model.getvalue())
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(id) for id in range(3, len(processor))]


def make_vocabulary(folder: Path, *, separate: bool = False, tags: Sequence[str] = ()) -> int:
    """SentencePiece models and vocabularies in a folder. Returns the number of entries, of each side if `separate`."""
    folder.mkdir(parents=True, exist_ok=True)
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
    small = {
        "vocab_size": pad + 1,
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 24,
        "max_position_embeddings": 64,
        "activation_function": "swish",
        "scale_embedding": True,
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "share_encoder_decoder_embeddings": not separate,
        "init_std": 0.35,  # large, so that tokens differ in probability
    }
    torch.manual_seed(0)
    model = MarianMTModel(MarianConfig(**small | changes)).eval()
    with torch.no_grad():
        model.final_logits_bias.normal_()[0, 0] = -2  # EOS, so that no unlikely one ends a beam
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "norm.weight")):
                parameter.add_(torch.randn_like(parameter) / 5)
    model.generation_config.update(num_beams=3, length_penalty=0.8, max_length=20)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    return model.float()
