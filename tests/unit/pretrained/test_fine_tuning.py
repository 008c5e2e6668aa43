"""Further training of an import begins where the original ended: with its probabilities, which no update loses."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import seq2attn
from seq2attn.config.load import load
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.translator import Translator
from seq2attn.options.runs import ImportOptions
from seq2attn.pretrained.import_run import FAMILIES, import_model
from seq2attn.search.search_config import GreedyConfig, LengthsConfig
from seq2attn.training.train import train
from tests.support.marian import (
    SOURCE,
    TARGET,
    make_marian,
    marian_arrays,
    marian_options,
    write_marian_files,
    write_npz,
)
from tests.support.marks import slow_but
from tests.support.multilingual import make_bart, make_m2m100, make_mbart, make_pegasus
from tests.support.t5 import make_t5

ADAPTED = """\
extends: run/config.yaml
run_dir: adapted
data: {train: &text {kind: plain, source: text.de, target: text.en}, dev: *text}
tokenizer: {run_dir: run}
training:
  init_from: {run_dir: run}
  max_duration: [1 update]
  batch: {tokens: 4096}
  optimizer: {kind: sgd, lr: 0.001}
  lr_schedule: {kind: constant}
  report_every: 1
  validation: {metric: loss}
"""
"""Settings that docs/pretrained.md names; all others are those of the import."""
DROPOUTS = r'"(dropout|dropout_rate|attention_dropout|activation_dropout|encoder_layerdrop|decoder_layerdrop)": [\d.]+,'


def make_marian_files(folder: Path) -> None:
    model = make_marian(folder.parent / "original", encoder_attention_heads=4, decoder_ffn_dim=32)
    write_marian_files(folder, folder.parent / "original", "model.npz")
    write_npz(folder / "model.npz", marian_arrays(model), marian_options())


SOURCES: dict[str, tuple[Callable[[Path], object], ImportOptions]] = {
    "marian's own files": (make_marian_files, ImportOptions()),
    "marian": (make_marian, ImportOptions()),
    "m2m_100": (
        lambda folder: make_m2m100(folder, nllb=True),
        ImportOptions(source_language="deu_Latn", target_language="eng_Latn"),
    ),
    "mbart": (make_mbart, ImportOptions(source_language="de_DE", target_language="en_XX")),
    "bart": (make_bart, ImportOptions()),
    "pegasus": (make_pegasus, ImportOptions()),
    "t5": (make_t5, ImportOptions()),
    "mt5": (lambda folder: make_t5(folder, gated=True, multilingual=True), ImportOptions()),
}
OWN_FILES = "marian's own files"


def mean_log_prob(translator: Translator, texts: list[str]) -> float:
    pairs = [
        (translator.source.encode(line), translator.target.encode(text))
        for line, text in zip(SOURCE, texts, strict=True)
    ]
    tokens = [one for each in NativeEngine(translator.model).token_log_probs(pairs, budget=4096) for one in each]
    return sum(tokens) / len(tokens)


@pytest.mark.parametrize("name", slow_but((OWN_FILES,), SOURCES))
def test_an_update_on_the_translations_of_an_import_keeps_them(
    name: str, sentence: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make, options = SOURCES[name]
    make(Path("hf"))
    config = Path("hf/config.json")
    if config.is_file():
        content, count = re.subn(DROPOUTS, "", config.read_text())
        assert count
        config.write_text(content)
    Path("text.de").write_text("\n".join(SOURCE) + "\n", encoding="utf-8")
    import_model(Path("hf"), Path("run"), options, verify_with=sentence)
    output = capsys.readouterr().err
    translator = seq2attn.load("run")
    greedy = GreedyConfig(lengths=LengthsConfig(max_length=12))
    translations = [one.text for one in translator.translate(list(SOURCE), greedy)]
    texts = [one or other for one, other in zip(translations, TARGET, strict=True)]  # random weights may write nothing
    Path("text.en").write_text("\n".join(texts) + "\n", encoding="utf-8")
    Path("adapted.yaml").write_text(ADAPTED)
    train(load(Path("adapted.yaml"), ExperimentConfig))

    adapted = seq2attn.load("adapted")
    before, after = mean_log_prob(translator, texts), mean_log_prob(adapted, texts)
    first = json.loads(Path("adapted/metrics.jsonl").read_text().splitlines()[0])
    assert first["loss"] == pytest.approx(-before, rel=1e-5)  # nothing is dropped, and no label is smoothed
    assert first["perplexity"] == pytest.approx(math.exp(-before), rel=1e-5)
    assert after > before
    assert [one.text for one in adapted.translate(list(SOURCE), greedy)] == translations
    assert "`training.label_smoothing`, `model.encoder.dropout`, `model.decoder.dropout`" in output
    assert "harms the initial weights" not in Path("adapted/train.log").read_text()


def test_all_families_are_trained_here() -> None:
    assert {*SOURCES} == {family.model_type for family in FAMILIES} | {OWN_FILES}
