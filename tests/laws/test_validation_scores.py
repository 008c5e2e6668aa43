"""Validation: its scores are of the original text, and those of `evaluate --greedy` for the same weights and text."""

import json
import math
import shutil
from dataclasses import replace

import pytest
import sacrebleu
import torch

from seq2attn.data.prepared_data import load_prepared
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.tokenizers.vocabulary import UNK, mark_unknown
from seq2attn.training.train import train
from tests.support.commands import invoke_in
from tests.support.marks import slow_but
from tests.support.trainings import WORD_TOKENIZERS, content, metrics, train_run
from tests.support.validation import every, validate
from tests.support.validation import run as run


def test_scores_are_of_the_original_text(run):
    """An unknown word of a translation is one token, and an empty reference beside another is missing."""
    loaded = run.load()
    model, target = loaded.model, loaded.tokenizers.target
    both, projection = [UNK, *target.encode("ba")], model.output_projection
    with torch.no_grad():  # writes two words
        projection.bias[both] = 1e3
        projection.weight[both] = 9 * torch.randn(2, 8, generator=torch.Generator().manual_seed(2))
    references = [(run.folder.parent / "dev.tgt").read_text().split("\n")[:6], ["ba <unk> ba" * 9, ""] * 3]
    prepared = replace(load_prepared(run.folder), dev_references=references)
    _, result = validate(run, model, prepared=prepared, validation=every(metric="bleu"))
    assert {*" ".join(result.translations.values()).split()} == {"<unk>", "ba"}
    hypotheses = [mark_unknown(result.translations[row]) for row in range(6)]
    streams = [references[0], [line or None for line in references[1]]]
    assert result.scores["bleu"] == sacrebleu.corpus_bleu(hypotheses, streams).score > 0
    assert result.scores["chrf"] == sacrebleu.corpus_chrf(hypotheses, streams).score > 0
    assert result.scores["exact"] == 0


def test_loss_is_smoothed_and_perplexity_is_not(run):
    """On a CPU in float32 in both cases."""
    smoothed, plain = (
        validate(run, label_smoothing=share, precision=precision)[1]
        for share, precision in ((0.3, "float32"), (0.0, "bfloat16"))
    )
    assert smoothed.scores["perplexity"] == plain.scores["perplexity"]
    assert plain.scores["perplexity"] == pytest.approx(math.exp(plain.scores["loss"]))
    assert smoothed.scores["loss"] != pytest.approx(plain.scores["loss"], rel=1e-3)


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"metric": "loss", "samples": 2}, {0, 5}),
        ({"metric": "loss", "samples": 0}, set()),
        ({"metric": "exact", "samples": 0}, {*range(6)}),
    ],
)
def test_only_sentences_for_metric_and_samples_are_translated(run, options, rows):
    _, result = validate(run, validation=every(**options))
    translated = {"bleu", "chrf", "exact"} if options["metric"] != "loss" else set()
    assert set(result.scores) == {"loss", "perplexity"} | translated and set(result.translations) == rows


def test_some_dev_sentences_are_validated_as_a_dev_set_of_them(run, tmp_path):
    corpus = shutil.copytree(run.folder.parent, tmp_path / "corpus")
    validator, few = validate(run, validation=every(metric="chrf", max_sentences=3, samples=2))
    assert set(few.translations) == {0, 2, 5}
    sources, references = ((corpus / f"dev.{name}").read_text().split("\n") for name in ("src", "tgt"))
    for row in (0, 5):
        sample = f"{sources[row]}\nreference:   {references[row]}\ntranslation: {few.translations[row]}\n"
        assert sample in validator.format_samples(few.translations)
    for name, lines in (("src", sources), ("tgt", references)):
        (corpus / f"dev.{name}").write_text("".join(lines[row] + "\n" for row in (0, 2, 5)))
    data = train_run(corpus, "few", max_duration=["1 update"])
    alone, result = validate(run, prepared=load_prepared(data.folder), validation=every(metric="chrf"))
    assert result.scores == pytest.approx(few.scores)
    assert alone.digest == validator.digest


def test_the_digest_is_of_sentences_and_settings_of_scores(run):
    digest = validate(run, validation=every(metric="bleu"))[0].digest
    assert validate(run, validation=every(metric="chrf", samples=1, patience=2))[0].digest == digest
    assert (
        validate(run, search={"kind": "beam", "lengths": {"alpha": 0.5}})[0].digest == digest
    )  # greedy search has none
    for search in ({"no_repeat_ngram_size": 2}, {"lengths": {"max_length": 9}}, {"lengths": {"max_source_length": 9}}):
        assert validate(run, search={"kind": "beam", **search})[0].digest != digest
    for options in ({"label_smoothing": 0.2}, {"evaluation": {"lowercase": True}}):
        assert validate(run, **options)[0].digest != digest
    assert validate(run, validation=every(metric="chrf", max_sentences=3))[0].digest != digest


def test_translations_in_validation_begin_with_the_prefix(run):
    model = run.load().model
    with torch.no_grad():
        model.output_projection.bias[2:4] = -1e4  # no EOS
    prepared = load_prepared(run.folder)
    prepared.target.line_prefix = (*prepared.target.encode("be"),)
    _, result = validate(run, model, prepared=prepared, validation=every(metric="bleu"))
    assert all(text.startswith("be ") for text in result.translations.values())


FAST = {"kind": "adam", "lr": 0.1}
CHARACTERS = {"source": {"kind": "words"}, "target": {"kind": "characters"}}
BACKWARD = WORD_TOKENIZERS | {"right_to_left": True, "reverse_source": True}
CONFIGS = {
    "ordinary": {},
    "long lines": {"filters": {"max_length": 4}},
    "lowest limit": {"lengths": {"max_source_length": 2}},
    "characters": {"tokenizer": CHARACTERS},
    "Chinese": {"tokenizer": CHARACTERS},
    "from right to left": {"tokenizer": BACKWARD, "lengths": {"max_source_length": 3, "long_inputs": "truncate"}},
    "other limits": {"search": {"no_repeat_ngram_size": 1}, "lengths": {"max_length": 9, "min_length_ratio": 2}},
}
"""Configs whose greedy translations depend on their limits: the models repeat words without an end."""


@pytest.mark.parametrize("name", slow_but({*CONFIGS} - {"characters"}, CONFIGS))
def test_the_scores_of_a_checkpoint_are_those_of_evaluate(corpus, name):
    is_chinese = name == "Chinese"  # BLEU has the tokenizer of the script in both
    for path in corpus.glob("*.tgt") if is_chinese else ():
        path.write_text(
            "".join(chr(0x4E00 + ord(letter)) if letter.isalpha() else letter for letter in path.read_text())
        )
    options = dict(CONFIGS[name])
    filters, lengths, search = (options.pop(key, {}) for key in ("filters", "lengths", "search"))
    validation = {"every": "8 updates", "metric": "chrf"}
    values = content(corpus, "run", max_duration=["8 updates"], validation=validation, optimizer=FAST, **options)
    values["data"]["filters"] = filters
    values["search"] = {"kind": "beam", "beam_size": 2, "lengths": lengths, **search}
    run = train(ExperimentConfig.model_validate(values))
    dev = ("--source", "dev.src", "--reference", "dev.tgt")
    report = json.loads(invoke_in(corpus, "evaluate", run.folder, "--greedy", "--json", *dev).out)
    scores = {score["name"]: score["value"] for score in report["sets"]["dev.src"]["scores"]}
    (validated,) = metrics(run, "validation")
    assert ("|tok:zh|" in validated["signature"]) == is_chinese
    assert [validated["bleu"], validated["chrf"]] == pytest.approx([scores["BLEU"], scores["chrF2"]], rel=1e-9)
    assert scores["chrF2"] > 0
