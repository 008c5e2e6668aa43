"""The model card of an export: what is known of a run and nothing else, for whoever reads or edits it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import seq2attn
from seq2attn.data.inspection import DataReport, inspect_pairs
from seq2attn.errors import RunError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.exporters.model_card import build_model_card, known_languages
from seq2attn.inference.engines.agreement import AgreementReport, SearchAgreement
from seq2attn.inference.engines.exported import MODEL_CARD_FILE, check_manifest, write_manifest
from seq2attn.io.weights import unique_state_dict
from tests.support.untrained_runs import TRANSFORMER_CONFIG, untrained_run

AGREEMENT = AgreementReport((SearchAgreement("greedy", 12, 0.995, 0.9, 0.1, 0.1),), 0.0, 0.0)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return untrained_run(tmp_path, TRANSFORMER_CONFIG)


def card(run: RunDirectory) -> str:
    return build_model_card(run, "float32", AGREEMENT, "ctranslate2", "It is used so.\n")


def head(text: str) -> dict[str, Any]:
    _, lines, _ = text.split("---\n", 2)
    return yaml.safe_load(lines)


def write_evaluation(run: RunDirectory, name: str, **changes: object) -> None:
    """A report with the keys of `evaluate`."""
    content = {
        "set": name,
        "model": run.weights_origin(),
        "engine": "native float32",
        "sentences": 1234,
        "scores": [{"name": "BLEU", "value": 12.345, "signature": "nrefs:1|case:mixed"}],
    }
    (run.folder / "evaluation").mkdir(exist_ok=True)
    (run.folder / "evaluation" / f"{name}.json").write_text(json.dumps(content | changes), encoding="utf-8")


def test_what_is_not_known_is_left_out(run: RunDirectory) -> None:
    text = card(run)
    assert head(text) == {
        "library_name": "ctranslate2", "pipeline_tag": "translation", "tags": ["translation", "seq2attn"]
    }  # fmt: skip
    headings = re.findall("^## (.*)", text, re.MULTILINE)
    assert headings == ["Use", "Model", "Verification", "License", "Limits"]
    assert "greedy: 99.50% of the tokens are equal in 12 sentences" in text and "It is used so." in text


@pytest.mark.parametrize(
    ("greedy", "difference", "is_same"), [(0.995, 1e-6, True), (0.9, 1e-6, False), (0.995, 1.0, False)]
)
def test_only_the_same_model_has_another_search(
    run: RunDirectory, greedy: float, difference: float, is_same: bool
) -> None:
    """Quantized weights are another model, whose probabilities are not the same."""
    searches = SearchAgreement("greedy", 12, greedy, 0.9, 0.1, 0.1), SearchAgreement("beam 5", 12, 0.8, 0.5, 0.1, 0.1)
    report = AgreementReport(searches, difference, difference)
    text = build_model_card(run, "int8", report, "ctranslate2", "It is used so.\n")
    assert ("probabilities are the same" in text) == is_same and "80.00% of the tokens are equal" in text


def test_sizes_data_and_scores_are_those_of_the_run(run: RunDirectory) -> None:
    loaded = run.load()
    model, (source, target) = loaded.model, loaded.tokenizers
    train, dev = (inspect_pairs([("a few", "words")] * number, source, target) for number in (1500, 20))
    DataReport(train, dev, {}).save(run.folder)
    write_evaluation(run, "ours")
    write_evaluation(run, "older", model={"checkpoints": ["00000001"]})
    text = card(run)
    number = sum({id(parameter): parameter.numel() for parameter in model.parameters()}.values())
    assert re.search(rf"^\| parameters +\| {number:,} +\|$", text, re.MULTILINE)
    sizes = f"source {len(source.vocabulary)} (words), target {len(target.vocabulary)} (words)"
    assert sizes in text
    assert "\n1,500 pairs: `lines.txt`, `lines.txt`.\n" in text
    scores = re.findall("^- BLEU.*", text, re.MULTILINE)
    assert scores == ["- BLEU 12.35 on `ours` (1,234 sentences, native float32): `nrefs:1|case:mixed`"]
    assert "at most 9." in text  # `search.lengths.max_length`
    run.save_model(
        unique_state_dict(model), (source.vocabulary, target.vocabulary), {"imported": "/home/me/opus-mt-de-en"}
    )
    text = card(run)
    assert "those of `opus-mt-de-en`, which was imported." in text and "/home/me" not in text
    assert "## Scores" not in text  # of other weights


@pytest.mark.parametrize(("lengths", "longest"), [("max_length: 9", 128), ("max_length: 9, max_source_length: 40", 40)])
def test_the_longest_source_is_that_of_translate(tmp_path: Path, lengths: str, longest: int) -> None:
    learned = "encoder: {kind: transformer, position_encoding: learned, max_positions: 129,"
    config = TRANSFORMER_CONFIG.replace("encoder: {kind: transformer,", learned).replace("max_length: 9", lengths)
    run = untrained_run(tmp_path, config)
    line = seq2attn.load(run.folder).encode("words " * 200, run.load_config().search.lengths)
    assert max(map(len, line.segments)) == longest
    assert f"a line of at most {longest} tokens" in card(run)


@pytest.mark.parametrize(
    ("source", "target", "languages"),
    [("train.de", "train.en", ("de", "en")), ("a.de.gz", "a.fr.xz", ("de", "fr")), ("a.txt", "b.txt", None)],
)
def test_languages_are_the_suffixes_of_the_training_text(
    tmp_path: Path, source: str, target: str, languages: tuple[str, str] | None
) -> None:
    train = "source: lines.txt, target: lines.txt"
    config = TRANSFORMER_CONFIG.replace(train, f"source: {source}, target: {target}", 1)
    run = untrained_run(tmp_path, config)
    assert known_languages(run.load_config()) == languages
    assert head(card(run)).get("language") == (languages and [*languages])


@pytest.mark.parametrize("changes", [{"scores": 3}, {"scores": [{"name": "BLEU"}]}, {"sentences": "many"}])
def test_a_corrupt_report_is_named(run: RunDirectory, changes: dict[str, object]) -> None:
    write_evaluation(run, "ours", **changes)
    with pytest.raises(RunError, match=r"ours\.json: is not a report of `evaluate`, or is corrupt \(at `"):
        card(run)


def test_an_edited_card_is_not_a_corrupt_export(run: RunDirectory, tmp_path: Path) -> None:
    target, folder = "ctranslate2", tmp_path / "exported"
    folder.mkdir()
    for name in ("model.bin", MODEL_CARD_FILE):
        (folder / name).write_text("as exported")
    write_manifest(run, target, "float32", {}, folder)
    (folder / MODEL_CARD_FILE).write_text("license: apache-2.0")
    check_manifest(run, target, folder)
    (folder / MODEL_CARD_FILE).unlink()
    check_manifest(run, target, folder)
    torch.save({}, folder / "model.bin")
    with pytest.raises(RunError, match="is corrupt"):
        check_manifest(run, target, folder)
