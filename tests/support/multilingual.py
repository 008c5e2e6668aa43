"""Small models with random weights, as the folders of M2M100, NLLB, mBART, BART and Pegasus on Hugging Face."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BartTokenizer,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MBartConfig,
    MBartForConditionalGeneration,
    NllbTokenizer,
    PegasusConfig,
    PegasusForConditionalGeneration,
)
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES

from tests.support.marian import SMALL as SMALL_MARIAN
from tests.support.marian import SOURCE, TARGET, make_vocabulary, randomize, train_pieces

LANGUAGES = {"nllb": ("deu_Latn", "eng_Latn", "fra_Latn"), "m2m100": ("de", "en", "fr")}
NUM_UNUSED = 3
SMALL = {
    **SMALL_MARIAN,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}


def train_model(folder: Path) -> list[str]:
    """A BPE model for both languages; returns its pieces, without special tokens."""
    return train_pieces((*SOURCE, *TARGET), folder / "sentencepiece.bpe.model", vocab_size=90, model_type="bpe")


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


def make_m2m100(folder: Path, *, nllb: bool, **changes: object) -> M2M100ForConditionalGeneration:
    """A folder with a model, which is returned; `changes` override fields of the config."""
    size = (make_nllb_tokenizer if nllb else make_m2m100_tokenizer)(folder) + NUM_UNUSED
    torch.manual_seed(0)
    return save(M2M100ForConditionalGeneration(M2M100Config(**SMALL | {"vocab_size": size} | changes)), folder)


def make_mbart(folder: Path) -> MBartForConditionalGeneration:
    pieces = train_pieces((*SOURCE, *TARGET), folder / "sentencepiece.bpe.model")
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": FAIRSEQ_LANGUAGE_CODES}))
    size = 4 + len(pieces) + len(FAIRSEQ_LANGUAGE_CODES) + 1
    torch.manual_seed(0)
    model = MBartForConditionalGeneration(MBartConfig(**SMALL | {"vocab_size": size}))
    model.final_logits_bias.normal_()[0, 2] = -2  # EOS, so that no unlikely one ends a beam
    return save(model, folder)


def make_bart_tokenizer(folder: Path) -> int:
    """The tokenizer of BART. Returns the number of its tokens."""
    bpe = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    bpe.train_from_iterator((*SOURCE, *TARGET), vocab_size=300, min_frequency=1, special_tokens=special)
    state = json.loads(bpe.to_str())["model"]
    BartTokenizer(vocab=state["vocab"], merges=[tuple(pair) for pair in state["merges"]]).save_pretrained(folder)
    return len(state["vocab"])


def make_bart(folder: Path) -> BartForConditionalGeneration:
    size = make_bart_tokenizer(folder)
    torch.manual_seed(0)
    model = BartForConditionalGeneration(BartConfig(**SMALL | {"vocab_size": size}))
    model.final_logits_bias.normal_()[0, 2] = -2
    return save(model, folder)


def make_pegasus(folder: Path, *, marian: bool = False) -> PegasusForConditionalGeneration:
    """A folder with a Pegasus, which is returned; with `marian` it has other positions, and Marian's tokenizer."""
    special = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": 1}
    if marian:
        size = make_vocabulary(folder)
        special = {"pad_token_id": size - 1, "eos_token_id": 0, "decoder_start_token_id": size - 1}
        special["forced_eos_token_id"] = 0
    else:
        ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
        size = len(train_pieces((*SOURCE, *TARGET), folder / "spiece.model", **ids)) + 3 + 103
    torch.manual_seed(0)
    pegasus = PegasusForConditionalGeneration(PegasusConfig(**SMALL | {"vocab_size": size} | special))
    pegasus.final_logits_bias.normal_()[0, special["eos_token_id"]] = -2
    if marian:
        for side in (pegasus.model.encoder, pegasus.model.decoder):
            side.embed_positions.weight.data.normal_()
        return save(pegasus, folder)
    save(pegasus, folder)
    file = folder / "model.safetensors"
    tensors = {name: tensor for name, tensor in load_file(file).items() if "embed_positions" not in name}
    save_file(tensors, file)  # as Pegasus's own files, whose positions are computed
    return pegasus


def save(model: Any, folder: Path) -> Any:
    """The model in evaluation mode with random norms and biases, saved in a folder."""
    randomize(model.eval())
    model.generation_config.update(num_beams=3, length_penalty=0.0, max_length=20, forced_eos_token_id=None)
    model.save_pretrained(folder)
    return model
