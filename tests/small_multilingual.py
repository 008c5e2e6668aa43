"""Small multilingual models with random weights, as the folders of M2M100 and NLLB on Hugging Face."""

import io
import json
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from transformers import M2M100Config, M2M100ForConditionalGeneration, NllbTokenizer

from tests.small_marian import SOURCE, TARGET

LANGUAGES = {"nllb": ("deu_Latn", "eng_Latn", "fra_Latn"), "m2m100": ("de", "en", "fr")}
NUM_UNUSED = 3
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
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "init_std": 0.35,  # large, so that tokens differ in probability
}


def train_model(folder: Path) -> list[str]:
    """A BPE model for both languages; returns its pieces, without special tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter((*SOURCE, *TARGET) * 9),
        model_writer=model,
        vocab_size=90,
        model_type="bpe",
        minloglevel=2,
    )
    (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(id) for id in range(3, len(processor))]


def make_nllb_tokenizer(folder: Path) -> int:
    """The tokenizer of NLLB, whose `tokenizer.json` has the languages. Returns the number of its tokens."""
    pieces, languages = train_model(folder), LANGUAGES["nllb"]
    merges = NllbTokenizer.from_pretrained(folder)._merges
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces, *languages, "<mask>"]
    vocabulary = {token: id for id, token in enumerate(tokens)}
    NllbTokenizer(vocab=vocabulary, merges=merges, additional_special_tokens=[*languages]).save_pretrained(folder)
    return len(tokens)


def make_m2m100_tokenizer(folder: Path) -> int:
    """The tokenizer of M2M100, whose tags are listed. Returns the number of its tokens."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *train_model(folder)]
    (folder / "vocab.json").write_text(json.dumps({token: id for id, token in enumerate(tokens)}))
    # `transformers` knows no other lists of languages than of two models.
    codes = ["en", "ha", "is", "ja", "cs", "ru", "zh", "de"]
    (folder / "tokenizer_config.json").write_text(json.dumps({"language_codes": "wmt21"}))
    tags = [f"__{code}__" for code in codes]
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": tags}))
    return len(tokens) + len(tags)


def randomize(model: Any) -> None:
    """Random norms and biases in place of ones and zeros."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "norm.weight")):
                parameter.add_(torch.randn_like(parameter) / 5)


def make_m2m100(folder: Path, *, nllb: bool, **changes: object) -> M2M100ForConditionalGeneration:
    """A folder with a model, which is returned; `changes` override fields of the config."""
    size = (make_nllb_tokenizer if nllb else make_m2m100_tokenizer)(folder) + NUM_UNUSED
    torch.manual_seed(0)
    model = M2M100ForConditionalGeneration(M2M100Config(**SMALL | {"vocab_size": size} | changes)).eval()
    randomize(model)
    model.generation_config.update(num_beams=3, length_penalty=0.0, max_length=20)
    model.save_pretrained(folder)
    return model
