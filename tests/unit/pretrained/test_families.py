"""Imported models of every family have the logits and the translations of the originals in `transformers`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import M2M100Tokenizer, NllbTokenizer

from seq2attn.data.collate import collate_source
from seq2attn.errors import UserError
from seq2attn.inference.translator import Translator
from seq2attn.pretrained.family import ImportOptions
from seq2attn.pretrained.import_run import import_run
from seq2attn.search.config import BeamConfig, GreedyConfig
from seq2attn.tokenizers.vocabulary import BOS, EOS
from tests.small_marian import SOURCE
from tests.small_multilingual import make_m2m100


@dataclass(frozen=True)
class Case:
    """A model with languages, and its original tokenizer for a source language."""

    make: Callable[[Path], Any]
    tokenizer: Callable[[Path, str], Any]
    languages: tuple[str, str, str]  # of the source, of the import, and another
    tag: str = "{}"


def m2m100_tokenizer(folder: Path, language: str) -> Any:
    """The tokenizer for a source language."""
    files = [str(folder / name) for name in ("vocab.json", "sentencepiece.bpe.model")]
    return M2M100Tokenizer(*files, src_lang=language, language_codes="wmt21")


CASES = {
    "nllb": Case(
        lambda folder: make_m2m100(folder, nllb=True),
        lambda folder, language: NllbTokenizer.from_pretrained(folder, src_lang=language),
        ("deu_Latn", "eng_Latn", "fra_Latn"),
    ),
    "m2m100": Case(
        lambda folder: make_m2m100(folder, nllb=False, activation_function="gelu"),
        m2m100_tokenizer,
        ("de", "en", "cs"),
        "__{}__",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_logits_and_translations_are_those_of_the_original(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    original = case.make(tmp_path / "hf")
    source, first, second = case.languages
    (tmp_path / "lines").write_text(f"{SOURCE[0]}\n{SOURCE[2]}")
    choices = ImportOptions(source_language=source, target_language=first)
    report = import_run(tmp_path / "hf", tmp_path / "run", choices, verify_with=tmp_path / "lines")
    assert report is not None and report.searches[0].token_agreement == 1
    translator = Translator.load(tmp_path / "run", "cpu")
    tokenizer = case.tokenizer(tmp_path / "hf", source)
    inputs = tokenizer(list(SOURCE), return_tensors="pt", padding=True)
    lengths = translator.search.lengths
    assert isinstance(translator.search, BeamConfig) and lengths.alpha == 0  # so that a tag's probability is no matter
    greedy = GreedyConfig(kind="greedy", lengths=lengths)
    names: list[str] = ["<bos>", *tokenizer.convert_ids_to_tokens(range(1, original.config.vocab_size))]
    for language in (first, second):
        tag = tokenizer.convert_tokens_to_ids(case.tag.format(language))
        for search, beam in ((None, {"early_stopping": "never"}), (greedy, {"num_beams": 1})):
            limits = {"forced_bos_token_id": tag, "forced_eos_token_id": 2, "bad_words_ids": [[1]]}
            output = original.generate(**inputs, **beam, **limits, renormalize_logits=True)
            for ours, ids in zip(translator.translate(list(SOURCE), search, to=language), output.tolist(), strict=True):
                expected = [names[id] for id in ids[1:] if id not in (1, 2)]
                assert len(ours.tokens) > 2 and expected[0] == case.tag.format(language)
                assert [token if "unused" not in token else "<unk>" for token in ours.tokens] == expected

    pieces = [translator.target.vocabulary.tokens[id] for id in (*translator.target.line_prefix, 4, 9, 17, EOS)]
    labels = torch.tensor([[2, *tokenizer.convert_tokens_to_ids(pieces)]]).expand(len(SOURCE), -1)
    expected_logits = original(**inputs, decoder_input_ids=labels).logits
    ids, mask = collate_source([translator.source.encode(line) for line in SOURCE])
    target_ids = torch.tensor([[BOS, *map(translator.target.vocabulary.id, pieces)]]).expand(len(SOURCE), -1)
    logits = translator.model.output_projection(translator.model(ids, mask, target_ids).hidden)
    tokens = translator.target.vocabulary.tokens
    assert len(tokens) == original.config.vocab_size + 1  # theirs have no BOS beside EOS
    columns = [0 if t == "<bos>" else int(t[7:-1]) if "unused" in t else names.index(t) for t in tokens[EOS:]]
    torch.testing.assert_close(logits[..., EOS:], expected_logits[..., columns], rtol=1e-5, atol=1e-5)


def test_the_language_is_the_first_token_everywhere(tmp_path: Path) -> None:
    """In segments of long lines, after prefixes, in attention weights, and in the log-probability of a translation."""
    make_m2m100(tmp_path / "hf", nllb=True)
    import_run(tmp_path / "hf", tmp_path / "run", ImportOptions(source_language="deu_Latn", target_language="eng_Latn"))
    translator = Translator.load(tmp_path / "run", "cpu").with_target_language("fra_Latn")
    french = translator.target.line_prefix
    assert translator.target.convert_ids_to_tokens(french) == ["fra_Latn"]
    long = translator.translate(" ".join(SOURCE * 4))
    assert long.segments and long.tokens.count("fra_Latn") >= len(long.segments)
    prefixed = translator.translate(SOURCE[0], prefix="The red", attention=True)
    tokens = tuple(translator.target.convert_ids_to_tokens(translator.target.encode("The red")))
    assert tokens[0] == "fra_Latn" and prefixed.tokens[: len(tokens)] == tokens
    assert prefixed.text.startswith("The red") and "fra" not in prefixed.text.removeprefix("The red")
    assert prefixed.attention_weights is not None
    assert prefixed.attention_weights.target.tokens == (*prefixed.tokens, "</s>")
    ids = [translator.target.vocabulary.id(token) for token in prefixed.tokens]
    log_probs = translator.model.token_log_probs([(translator.source.encode(SOURCE[0]), ids)])
    assert float(log_probs.sum()) == pytest.approx(prefixed.log_prob, abs=1e-4)
    assert translator.translate(["", SOURCE[0]])[0].text == ""
    with pytest.raises(UserError, match="not translate into `xxx`: its languages are deu_Latn, eng_Latn, fra_Latn"):
        translator.translate("Das", to="xxx")
