"""Imported models of every family have the logits and the translations of the originals in `transformers`."""

import inspect
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    AutoConfig,
    BartTokenizer,
    M2M100Tokenizer,
    MarianTokenizer,
    MBart50Tokenizer,
    NllbTokenizer,
    PegasusTokenizer,
)

import seq2attn
from seq2attn.data.collate import collate_source
from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.exporters.export_run import export_run
from seq2attn.exporters.huggingface_target import HuggingFaceTarget
from seq2attn.options import TranslationOptions
from seq2attn.options.runs import AlignOptions, ExportOptions, ImportOptions
from seq2attn.pretrained.family import Family
from seq2attn.pretrained.import_run import FAMILIES, import_model
from seq2attn.search.search_config import BeamConfig, GreedyConfig
from seq2attn.tokenizers.vocabulary import BOS, EOS
from tests.support.marian import SOURCE
from tests.support.marks import slow_but
from tests.support.memory import refusal
from tests.support.multilingual import make_bart, make_m2m100, make_mbart, make_pegasus
from tests.support.t5 import make_t5

INPUTS = ("input_ids", "attention_mask")


@dataclass(frozen=True)
class Case:
    """A model with languages, and its original tokenizer for a source language."""

    make: Callable[[Path], Any]
    tokenizer: Callable[[Path, Any], Any]
    languages: tuple[str | None, str | None, str | None]  # of the source, of the import, and another
    tag: str = "{}"


def m2m100_tokenizer(folder: Path, language: str) -> Any:
    files = [str(folder / name) for name in ("vocab.json", "sentencepiece.bpe.model")]
    return M2M100Tokenizer(*files, src_lang=language, language_codes="wmt21")


@dataclass(frozen=True)
class LastToken:
    """EOS alone as the 20th token, with its own probability; `forced_eos_token_id` gives it that of 1."""

    end: int

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        others = torch.arange(scores.size(1)) != self.end
        return scores.log_softmax(1).masked_fill(others & (ids.size(1) == 19), -torch.inf)


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
    "mbart": Case(
        make_mbart,
        lambda folder, language: MBart50Tokenizer.from_pretrained(folder, src_lang=language),
        ("de_DE", "en_XX", "fr_XX"),
    ),
    "bart": Case(
        make_bart, lambda folder, language: BartTokenizer.from_pretrained(folder), (None, None, None), "<bos>"
    ),
    "pegasus": Case(
        make_pegasus, lambda folder, language: PegasusTokenizer.from_pretrained(folder), (None, None, None)
    ),
    "pegasus with Marian's tokenizer": Case(
        lambda folder: make_pegasus(folder, marian=True),
        lambda folder, language: MarianTokenizer.from_pretrained(folder),
        (None, None, None),
    ),
}


@pytest.mark.parametrize("name", slow_but(("nllb",), CASES))
def test_logits_and_translations_are_those_of_the_original(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    original = case.make(tmp_path / "hf")
    pad, end, start = (getattr(original.config, f"{key}_token_id") for key in ("pad", "eos", "decoder_start"))
    source, first, second = case.languages
    (tmp_path / "lines").write_text(f"{SOURCE[0]}\n{SOURCE[2]}")
    choices = ImportOptions(punctuation="Marian" not in name, source_language=source, target_language=first)
    report = import_model(tmp_path / "hf", tmp_path / "run", choices, verify_with=tmp_path / "lines")
    assert report is not None and report.searches[0].token_agreement == 1
    translator = seq2attn.load(tmp_path / "run")
    tokenizer = case.tokenizer(tmp_path / "hf", source)
    inputs = {key: tokenizer(list(SOURCE), return_tensors="pt", padding=True)[key] for key in INPUTS}
    lengths = translator.search.lengths
    assert isinstance(translator.search, BeamConfig) and lengths.alpha == 0  # so that a tag's probability is no matter
    greedy = GreedyConfig(lengths=lengths)
    names: list[str] = tokenizer.convert_ids_to_tokens(range(original.config.vocab_size))
    names = ["<bos>" if name == "<s>" else name for name in names]
    for language in (first, second):
        word = case.tag.format(language)
        tag = names.index(word) if word in names else None
        for search, beam in ((None, {"early_stopping": "never"}), (greedy, {"num_beams": 1})):
            options = {"forced_bos_token_id": tag, "bad_words_ids": [[pad]], "logits_processor": [LastToken(end)]}
            output = original.generate(**inputs, **beam, **options)
            for ours, ids in zip(translator.translate(list(SOURCE), search, to=language), output.tolist(), strict=True):
                expected = [names[id] for id in ids[1:] if id not in (pad, end)]
                assert len(ours.tokens) > 2 and (tag is None or expected[0] == word)
                labels = translator.target.convert_ids_to_tokens([*map(translator.target.vocabulary.id, expected)])
                assert [token if "unused" not in token else "<unk>" for token in ours.tokens] == labels

    tokens = translator.target.vocabulary.tokens
    pieces = [tokens[id] for id in (*translator.target.line_prefix, len(tokens) - 9, 9, 17, EOS)]
    labels = torch.tensor([[start, *map(names.index, pieces)]]).expand(len(SOURCE), -1)
    expected_logits = original(**inputs, decoder_input_ids=labels).logits
    ids, sequences = collate_source([translator.source.encode(line) for line in SOURCE])
    target_ids = torch.tensor([[BOS, *map(translator.target.vocabulary.id, pieces)]]).expand(len(SOURCE), -1)
    logits = translator.model.output_projection(translator.model(ids, sequences, target_ids).hidden)
    assert len(tokens) == original.config.vocab_size + 1  # theirs have no BOS beside EOS or PAD
    columns = [int(t[7:-1]) if t.startswith("<unused") else names.index(t) for t in tokens[EOS:]]
    torch.testing.assert_close(logits[..., EOS:], expected_logits[..., columns], rtol=1e-5, atol=1e-5)
    run = RunDirectory(tmp_path / "run")
    mistakes = HuggingFaceTarget().unsupported(run.load_config())
    assert ("tokenizer.target.tag" in [mistake.field for mistake in mistakes]) == ("pegasus" not in name)
    if not mistakes:
        back = export_run(run, HuggingFaceTarget(), tmp_path / "back", ExportOptions(verify_with=tmp_path / "lines"))
        assert [search.token_agreement for search in back.searches] == [1, 1]


OF_OTHER_USES = {"classifier_dropout", "initializer_factor", "num_labels", "problem_type", "return_dict", "use_cache"}
OF_OTHER_FIELDS = {"dense_act_fn", "hidden_size", "is_decoder", "is_encoder_decoder", "is_gated_act"}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_that_transformers_uses_is_read(family: type[Family]) -> None:
    """The original that an import is compared with is made of these fields."""
    original = MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING[type(AutoConfig.for_model(family.model_type))]
    used = {*re.findall(r"config\.([a-z]\w*)", inspect.getsource(sys.modules[original.__module__]))}
    assert len(used) > 15
    assert used - OF_OTHER_USES - OF_OTHER_FIELDS <= {*family.architecture_class.model_fields}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_config_does_not_say_is_as_in_transformers(family: type[Family]) -> None:
    theirs, fields = AutoConfig.for_model(family.model_type), family.architecture_class.model_fields
    required = {name: getattr(theirs, name) for name, field in fields.items() if field.is_required()}
    ours = family.architecture_class.model_validate(required | {"decoder_start_token_id": 0}).model_dump()
    left_out = {name for name in fields if not re.search("dropout|layerdrop|start", name)} - {*required}
    shared = {name for name in left_out if hasattr(theirs, name) and ours[name] is not None}  # None: as another field
    assert len(shared) > 3
    assert not any(value for name, value in ours.items() if re.search("dropout|layerdrop", name))
    assert {name: ours[name] for name in shared} == {name: getattr(theirs, name) for name in shared}


def test_the_language_is_the_first_token_everywhere(sentence: Path, tmp_path: Path) -> None:
    """In segments of long lines, after prefixes, in attention weights, and in the log-probability of a translation."""
    make_m2m100(tmp_path / "hf", nllb=True)
    options = ImportOptions(source_language="deu_Latn", target_language="eng_Latn")
    import_model(tmp_path / "hf", tmp_path / "run", options, verify_with=sentence)
    translator = seq2attn.load(tmp_path / "run").with_target_language("fra_Latn")
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
    ensemble = seq2attn.load(tmp_path / "run", TranslationOptions(ensemble=[tmp_path / "run"]))
    assert ensemble.translate(SOURCE[0], to="fra_Latn").tokens == translator.translate(SOURCE[0]).tokens
    special = [translator.target.vocabulary.id(token) for token in ("eng_Latn", "<bos>", "<mask>", "<unused97>")]
    assert translator.target.decode([*special, *translator.target.encode("The red")]) == "The red"
    with pytest.raises(UserError, match="not translate into `xxx`: its languages are deu_Latn, eng_Latn, fra_Latn"):
        translator.translate("Das", to="xxx")
    (tmp_path / "target").write_text("The red\n", encoding="utf-8")
    with pytest.raises(UserError, match="not translate into `xxx`"):
        seq2attn.align(tmp_path / "run", AlignOptions(sentence, tmp_path / "target", to="xxx"))


@pytest.mark.parametrize("key", ["vocab_size", "max_position_embeddings", "d_model"])
def test_numbers_of_an_imported_model(tmp_path: Path, key: str) -> None:
    folder = tmp_path / "hf"
    make_t5(folder) if key == "vocab_size" else make_pegasus(folder)
    path = folder / "config.json"
    fields, size = json.loads(path.read_text(encoding="utf-8")), (folder / "model.safetensors").stat().st_size
    for value in (10**7, 2**31 - 1):
        path.write_text(json.dumps(fields | {key: value}), encoding="utf-8")
        assert str(folder) in refusal(lambda: import_model(folder, tmp_path / "run", ImportOptions()), size), value
