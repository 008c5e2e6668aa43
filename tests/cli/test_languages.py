"""Languages without spaces, from text to score: the metric that chooses checkpoints counts what there is to count."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import sacrebleu

from seq2attn.run_directory import RunDirectory
from tests.cli.conftest import ROOT, Done, Invoke
from tests.toy_languages import write_corpus

TOKENIZERS = {"japanese": "char", "thai": "char", "chinese": "zh"}
SMALL = """\
run_dir: runs/mine
data:
  train: {kind: plain, source: train.en, target: train.target}
  dev: {kind: plain, source: dev.en, target: dev.target}
tokenizer: {source: {kind: words}, target: {kind: characters}}
model:
  embeddings: {dim: 24}
  encoder: {kind: gru, dim: 24}
  decoder: {kind: luong, dim: 24}
training:
  max_duration: [40 updates]
  batch: {tokens: 400}
  optimizer: {kind: adam, lr: 0.02}
  lr_schedule: {kind: constant}
  validation: {every: 10 updates}
  checkpoints: {keep_last: 4}
"""
ONE_LAYER = "layers: 1, heads: 2, feed_forward: 128"
SIZES = (
    "training.max_duration=[12 epochs]",
    "model.embeddings.dim=64",
    f"model.encoder={{kind: transformer, {ONE_LAYER}}}",
    f"model.decoder={{kind: transformer, {ONE_LAYER}, attention: {{score: {{kind: multi-head, heads: 2}}}}}}",
)


def check(language: str, invoke: Invoke, trained: Done, *, least: float) -> None:
    """Laws of a run in the working directory whose BLEU is to be at least `least`."""
    tokenize, run = TOKENIZERS[language], RunDirectory(Path("runs/mine"))
    assert f"(tok:{tokenize}), as the references are in " in trained.err
    records = [json.loads(line) for line in run.metrics_path.read_text(encoding="utf-8").split("\n")[:-1]]
    found = {one["update"]: one for one in records if one["kind"] == "validation"}
    assert all(f"|tok:{tokenize}|" in one["signature"] for one in found.values())
    best = max(found, key=lambda update: (found[update]["bleu"], -found[update]["loss"]))
    assert [int(name) for name in run.weights_origin()["checkpoints"]] == [best]
    assert found[best]["bleu"] >= least

    # Translations of the dev set have the BLEU of the validation, which is sacreBLEU's own.
    evaluate = "evaluate", run.folder, "--source", "dev.en", "--reference", "dev.target", "--json"
    dev = json.loads(invoke(*evaluate, "--greedy").out)["sets"]["dev.en"]
    assert dev["scores"][0]["value"] == pytest.approx(found[best]["bleu"])
    assert dev["by_length"][0]["unit"] == "words"  # of the source, English
    translations = (run.folder / "evaluation/dev.en.txt").read_text(encoding="utf-8").split("\n")[:-1]
    references = Path("dev.target").read_text(encoding="utf-8").split("\n")[:-1]
    expected = sacrebleu.corpus_bleu(translations, [references], tokenize=tokenize).score
    assert dev["scores"][0]["value"] == pytest.approx(expected)
    assert (dev["scores"][2]["name"], dev["scores"][2]["value"] < 100 - least) == ("token error rate", True)

    invoke("average", run.folder, "--last", 2)
    assert len(run.weights_origin()["checkpoints"]) == 2
    averaged = json.loads(invoke(*evaluate).out)["sets"]["dev.en"]["scores"][0]
    assert averaged["value"] >= least / 2


@pytest.mark.parametrize("language", ["chinese", pytest.param("thai", marks=pytest.mark.slow)])
def test_a_small_model_learns_a_toy_language(language: str, invoke: Invoke, tmp_path: Path) -> None:
    write_corpus(language, tmp_path, {"train": 65, "dev": 16}, num_words=3)
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    check(language, invoke, invoke("train", "small.yaml"), least=40)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["{kind: characters}", "{kind: unigram, vocab_size: 400}"])
@pytest.mark.parametrize("language", TOKENIZERS)
def test_the_config_of_the_readme_learns_a_toy_language(
    language: str, text: str, invoke: Invoke, tmp_path: Path
) -> None:
    write_corpus(language, tmp_path, {"train": 1000, "dev": 40})
    (config,) = re.findall(
        r"^```yaml\n(run_dir: runs/mine\n.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S
    )
    for name in ("train", "dev"):
        config = config.replace(f"{name}.en", f"{name}.target").replace(f"{name}.de", f"{name}.en")
    (tmp_path / "mine.yaml").write_text(config, encoding="utf-8")
    options = [part for size in (f"tokenizer.joint={text}", *SIZES) for part in ("--set", size)]
    check(language, invoke, invoke("train", "mine.yaml", *options), least=60)
