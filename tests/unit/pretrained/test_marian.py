"""An imported Marian model has the logits and the translations of the original in `transformers`."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import MarianMTModel, MarianTokenizer

import seq2attn
from seq2attn.data.collate import collate_source
from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.agreement import AgreementReport, SearchAgreement
from seq2attn.options.runs import ImportOptions
from seq2attn.pretrained.import_run import import_model
from seq2attn.search.search_config import BeamConfig, GreedyConfig, LengthsConfig
from seq2attn.tokenizers.vocabulary import BOS, EOS
from tests.support.marian import SOURCE, make_marian
from tests.support.marks import slow_but

MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "joint vocabulary": ({}, {}),
    "positions of transformers": ({"scale_embedding": False}, {"positions": "transformers"}),
    "a vocabulary for each side, GELU": ({"separate": True, "activation_function": "gelu"}, {}),
    "untied, shards": ({"tie_word_embeddings": False, "shard": "9KB"}, {}),
    "float16, languages": ({"dtype": torch.float16, "tags": [">>fra<<", ">>eng<<"]}, {"target_language": "fra"}),
}


def tensor2tensor(length: int, dim: int) -> torch.Tensor:
    """Sinusoids as in Marian's C++: exponents from 0 to -1."""
    angles = np.arange(length)[:, None] * np.exp(-np.arange(dim // 2) * np.log(1e4) / (dim // 2 - 1))
    return torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], 1)).float()


@pytest.mark.parametrize("name", slow_but(("joint vocabulary", "a vocabulary for each side, GELU"), MODELS))
def test_logits_and_translations_are_those_of_the_original(name: str, tmp_path: Path) -> None:
    made, options = MODELS[name]
    make_marian(tmp_path / "hf", **made)
    (tmp_path / "lines").write_text(f"{SOURCE[0]}\n{SOURCE[0] * 9}")  # the second has more tokens than positions
    choices = ImportOptions(punctuation=False, **options)
    report = import_model(tmp_path / "hf", tmp_path / "run", choices, verify_with=tmp_path / "lines")
    assert report is not None and report.searches[0].token_agreement == 1

    theirs: Any = MarianMTModel.from_pretrained(
        tmp_path / "hf", dtype=torch.float32, attn_implementation="eager"
    ).eval()
    if "positions" not in options:
        for side in (theirs.model.encoder, theirs.model.decoder):
            side.embed_positions.weight.data = tensor2tensor(64, 16)
    pad = theirs.config.pad_token_id
    tokenizer = MarianTokenizer.from_pretrained(tmp_path / "hf")
    tag = f">>{options['target_language']}<< " if "target_language" in options else ""
    inputs = tokenizer([tag + line for line in SOURCE], return_tensors="pt", padding=True)
    translator = seq2attn.load(tmp_path / "run")
    lengths = LengthsConfig(alpha=0.8, max_length=18, max_length_ratio=None, source_language="de")
    assert translator.search == BeamConfig(beam_size=3, lengths=lengths)
    greedy = GreedyConfig(lengths=lengths)
    for search, beam in ((None, {"early_stopping": "never"}), (greedy, {"num_beams": 1})):
        output = theirs.generate(**inputs, **beam, max_length=20, renormalize_logits=True, bad_words_ids=[[pad]])
        for ours, ids in zip(translator.translate(list(SOURCE), search), output.tolist(), strict=True):
            assert list(ours.tokens) == tokenizer.convert_ids_to_tokens([id for id in ids if id not in (0, pad)])

    _, target = (one.vocabulary for one in (translator.source, translator.target))
    words = [target.tokens[-5], *target.tokens[4:9], "</s>"]
    encoder = tokenizer.target_encoder if made.get("separate") else tokenizer.encoder
    decoder_ids = torch.tensor([[pad, *map(encoder.__getitem__, words)]]).expand(len(SOURCE), -1)
    expected = theirs(**inputs, decoder_input_ids=decoder_ids, output_attentions=True)
    source, sequences = collate_source([translator.source.encode(line) for line in SOURCE])
    target_ids = torch.tensor([[BOS, *map(target.id, words)]]).expand(len(SOURCE), -1)
    logits = translator.model.output_projection(translator.model(source, sequences, target_ids).hidden)
    columns = [encoder[token] for token in target.tokens[EOS:]]
    torch.testing.assert_close(logits[..., EOS:], expected.logits[..., columns], rtol=1e-5, atol=1e-5)
    weights = translator.model.encoder_self_attention(source, sequences)
    attentions = torch.stack(expected.encoder_attentions, 1)
    is_query = sequences.mask[:, None, None, :, None].expand_as(weights)
    torch.testing.assert_close(weights[is_query], attentions[is_query], rtol=1e-4, atol=1e-5)
    assert logits.softmax(-1)[..., :EOS].max() < 1e-12  # PAD and BOS, which the original has not


@pytest.mark.parametrize("file", slow_but(["config.json"], ["generation_config.json", "config.json"]))
def test_the_search_is_that_of_the_original(file: str, sentence: Path, tmp_path: Path) -> None:
    """Its settings are in a file of their own, whatever is in the config, or in an older config."""
    make_marian(tmp_path / "hf")
    weights = load_file(tmp_path / "hf" / "model.safetensors")
    weights["final_logits_bias"][0, 0] = 3  # EOS is likely
    save_file(weights, tmp_path / "hf" / "model.safetensors", {"format": "pt"})
    config = json.loads((tmp_path / "hf" / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "hf" / "generation_config.json").unlink()
    (tmp_path / "hf" / "config.json").write_text(json.dumps(config | {"num_beams": 3}), encoding="utf-8")
    pad = config["pad_token_id"]
    settings = {"max_length": 20, "min_length": 12, "no_repeat_ngram_size": 2}
    content = settings | {"decoder_start_token_id": pad, "eos_token_id": 0, "bad_words_ids": [[pad]]}
    old = {} if file == "generation_config.json" else config
    (tmp_path / "hf" / file).write_text(json.dumps(old | content), encoding="utf-8")
    options = ImportOptions("transformers", punctuation=False)
    import_model(tmp_path / "hf", tmp_path / "run", options, verify_with=sentence)
    theirs: Any = MarianMTModel.from_pretrained(tmp_path / "hf").eval()
    tokenizer = MarianTokenizer.from_pretrained(tmp_path / "hf")
    output = theirs.generate(**tokenizer(list(SOURCE), return_tensors="pt", padding=True)).tolist()
    for ours, ids in zip(seq2attn.load(tmp_path / "run").translate(list(SOURCE)), output, strict=True):
        assert list(ours.tokens) == tokenizer.convert_ids_to_tokens([id for id in ids if id not in (0, pad)])
        assert 11 <= len(ours.tokens) < 18


def test_dropout_is_imported_by_its_place(sentence: Path, tmp_path: Path) -> None:
    sides = {"encoder_layerdrop": 0.3, "decoder_layerdrop": 0.4}
    make_marian(tmp_path / "hf", dropout=0.1, attention_dropout=0.2, activation_dropout=0.15, **sides)
    import_model(tmp_path / "hf", tmp_path / "run", ImportOptions(punctuation=False), verify_with=sentence)
    model: Any = RunDirectory(tmp_path / "run").load_config().model
    for part, layer_dropout in ((model.encoder, 0.3), (model.decoder, 0.4)):
        found = part.dropout, part.attention_dropout, part.activation_dropout, part.layer_dropout
        assert found == (0.1, 0.2, 0.15, layer_dropout)
    assert model.decoder.attention.dropout == 0.2


def test_a_model_that_differs_from_the_original_is_refused() -> None:
    greedy = SearchAgreement("greedy", 9, 0.995, 0.9, 0, 0)
    beam = replace(greedy, search="beam", token_agreement=0.9)
    AgreementReport((greedy, beam), 0.001, 0).check("it")
    for report in (
        AgreementReport((replace(greedy, token_agreement=0.98), beam), 0, 0),
        AgreementReport((greedy, beam), 0.1, 0),
        AgreementReport((greedy, beam), math.nan, 0),
    ):
        with pytest.raises(UserError, match="does not translate as the original"):
            report.check("it does not translate as the original")
