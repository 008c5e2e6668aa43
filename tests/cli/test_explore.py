"""`seq2attn explore`: the page in a file, its table, and its errors."""

import html
import json
import os
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import sacrebleu
import yaml

import seq2attn
from seq2attn.explorer.explore import Explorer, Question
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from tests.support.attention_pages import page_data
from tests.support.commands import Invoke, write_lines
from tests.support.untrained_runs import CONFIG, LINES, TRANSFORMER_CONFIG, change_weights, untrained_run

TEXT = "a few words"
UNSAFE = 'a </script><b>few</b> & "words" \u202e<!--'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A Transformer whose hypotheses do not tie."""
    run = untrained_run(tmp_path, TRANSFORMER_CONFIG)
    change_weights(run, lambda model: model.output_projection.weight.mul_(9.0))
    return run.folder


def content(path: Path) -> dict[str, Any]:
    """The data of a page."""
    return page_data(path.read_text(encoding="utf-8"))


def test_a_page_of_sentences(invoke: Invoke, run: Path, tmp_path: Path) -> None:
    invoke("explore", run, TEXT, UNSAFE, "-o", "page.html")
    found = content(tmp_path / "page.html")["explorations"]
    assert [one["text"] for one in found] == [TEXT, UNSAFE]
    invoke("explore", run, os.fsdecode(b"a few \xff words"), "-o", "bytes.html")
    assert content(tmp_path / "bytes.html")["explorations"][0]["text"] == "a few ? words"
    translations = seq2attn.load(run).translate([TEXT, UNSAFE])
    assert [one["hypotheses"][0]["text"] for one in found] == [each.text for each in translations]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 3 and "<b>" not in page and "http" not in page.replace("http://www.w3.org", "")
    printed = invoke("explore", run, "few " * 200, "-o", "-").out
    assert "few few" in page_data(printed)["explorations"][0]["text"] and not (tmp_path / "-").exists()
    shown = seq2attn.explore(seq2attn.load(run), TEXT)
    assert json.loads(json.dumps(shown.explorations[0])) | {"run": "run"} == found[0]
    cell = shown._repr_html_()
    assert "<script" not in cell and html.unescape(re.findall(r'srcdoc="(.*?)"', cell, re.S)[0]) == shown.to_html()
    remaining = re.sub("<iframe.*</iframe>", "", cell, flags=re.S)  # on GitHub
    assert all(html.escape(one["text"]) in remaining for one in found[0]["hypotheses"])
    picture = ElementTree.fromstring(re.findall("<svg.*</svg>", remaining)[0])
    tokens = [element.text for element in picture if element.tag.endswith("text")]
    cross = found[0]["attention"]["cross"]
    assert tokens == [*cross["queries"]["tokens"], *cross["keys"]["tokens"]]
    drawn = sum(element.tag.endswith("rect") for element in picture)
    assert drawn == (np.mean(cross["weights"][-1], 0) >= 10).sum()


def test_all_heads_of_a_long_sentence_on_request(invoke: Invoke, run: Path, tmp_path: Path) -> None:
    for option, heads in (("--all-heads", ["1", "2"]), ("--overwrite", ["mean"])):
        invoke("explore", run, "few " * 40, option, "-o", "page.html")
        (found,) = content(tmp_path / "page.html")["explorations"]
        assert {kind: one["heads"] for kind, one in found["attention"].items()} == dict.fromkeys(
            found["attention"], heads
        )


def test_a_table_of_a_test_set(invoke: Invoke, run: Path, tmp_path: Path) -> None:
    for option, count in (("--worst=1", 1), ("--best=2", 2)):
        invoke("explore", run, "--test-set", "ours", option, "-o", "page.html", "--overwrite")
        rows = content(tmp_path / "page.html")["table"]["rows"]
        scores = [row["chrf"] for row in rows]
        invoke("explore", run, "--test-set", "ours", "-o", "all.html", "--overwrite")
        every = sorted(
            row["chrf"] for row in content(tmp_path / "all.html")["table"]["rows"] if row["chrf"] is not None
        )
        assert scores == (every[:count] if "worst" in option else every[::-1][:count])
    write_lines(tmp_path / "in", [line for line in LINES if line])
    write_lines(tmp_path / "references", ["a few words", "words of which there are not many"])
    invoke("explore", run, "-i", "in", "--reference", "references", "-o", "page.html", "--overwrite")
    data = content(tmp_path / "page.html")
    options = seq2attn.EvaluateOptions(tmp_path / "in", [tmp_path / "references"], metrics=["chrf"], as_json=True)
    (result,) = seq2attn.evaluate(run, evaluation=options).results[str(run)]
    assert data["table"]["name"] == "in" and len(data["explorations"]) == 2
    assert [row["sentence"] for row in data["table"]["rows"]] == [0, 1]
    invoke("explore", run, run, "-i", "in", "--reference", "references", "-o", "two.html")
    two = content(tmp_path / "two.html")  # each line has an exploration by each run
    places = [row["sentence"] for row in two["table"]["rows"]]
    assert [two["explorations"][place]["text"] for place in places] == [row["source"] for row in two["table"]["rows"]]
    for row, one in zip(data["table"]["rows"], result.records, strict=True):
        assert row["text"] == one["text"]
        assert row["log_prob"] == pytest.approx(sum(one["token_log_probs"]) / len(one["token_log_probs"]), abs=1e-3)
        assert row["length_ratio"] == pytest.approx(len(one["tokens"]) / len(one["source_tokens"]), abs=0.01)
    translated = seq2attn.load(run).translate([row["source"] for row in data["table"]["rows"]], attention=True)
    for row, translation in zip(data["table"]["rows"], translated, strict=True):
        assert translation.cross_attention is not None
        mean = translation.cross_attention[-1].mean(0)
        entropy = -(mean * np.log(np.maximum(mean, 1e-12))).sum(-1)
        assert row["spread"] == pytest.approx(np.exp(entropy).mean(), abs=0.01)
        assert row["unattended"] == (mean[:, :-1].sum(0) < 0.2).sum()
    words = data["table"]["rows"][0]["text"].split()
    assert (data["table"]["rows"][0]["repeated"] > 0) == any(a == b for a, b in pairwise(words))


@pytest.mark.parametrize("name", ["references", "terms"])
def test_no_input_is_replaced_by_the_page(invoke: Invoke, run: Path, tmp_path: Path, name: str) -> None:
    for file in ("in", "references", "terms"):
        write_lines(tmp_path / file, ["few\tmany"])
    files = "-i", "in", "--reference", "references", "--glossary", "terms"
    assert f"{name}: " in invoke("explore", run, *files, "-o", name, "--overwrite", code=2).err
    assert (tmp_path / name).read_text() == "few\tmany\n"


def test_runs_of_one_name_have_their_paths(invoke: Invoke, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "other/run")
    invoke("explore", "run", "other/run", TEXT, "-o", "page.html")
    assert [one["run"] for one in content(tmp_path / "page.html")["explorations"]] == ["run", "other/run"]


def test_the_end_of_an_empty_translation_has_its_reasons(run: Path) -> None:
    """Of one word, which is left out, so that source and target have no tokens."""
    explorer = Explorer("", seq2attn.load(run))
    found = explorer.importance(Question("few"), (), 0)
    assert [*found["words"]] == ["few"] and found["left_out"] != [0.0]


def test_a_search_that_the_reference_is_not_in_is_not_judged(run: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "terms.tsv", ["few\tmany"])
    options = {
        "free": seq2attn.TranslationOptions(),
        "terms": seq2attn.TranslationOptions(glossary=tmp_path / "terms.tsv"),
        "mbr": seq2attn.TranslationOptions(overrides=["search.mbr=true"]),
        "reranked": seq2attn.TranslationOptions(rerank=[run]),  # type: ignore[list-item]  # as `ensemble` has it
    }
    question = Question(TEXT, reference="many words")
    judged = {
        name: Explorer("", seq2attn.load(run, one)).explore(question)["diagnosis"] for name, one in options.items()
    }
    assert [name for name, found in judged.items() if found is not None] == ["free"]


def test_all_references_of_a_line_count_and_blank_ones_do_not(invoke: Invoke, run: Path, tmp_path: Path) -> None:
    texts = {"in": [TEXT] * 3, "one": ["a few words", " ", ""], "two": ["many words", "words of which", " "]}
    for name, lines in texts.items():
        write_lines(tmp_path / name, lines)
    invoke("explore", run, "-i", "in", "--reference", "one", "--reference", "two", "-o", "page.html")
    data = content(tmp_path / "page.html")
    for number, row in enumerate(data["table"]["rows"]):
        given = [texts[name][number] for name in ("one", "two") if texts[name][number].strip()]
        expected = sacrebleu.sentence_chrf(row["text"], given).score if given else None
        assert row["chrf"] == (expected and pytest.approx(expected, abs=0.06))
    assert [one["diagnosis"] is None for one in data["explorations"]] == [False, False, True]


def test_kept_checkpoints_are_searched_like_their_run(invoke: Invoke, run_copy: Path, tmp_path: Path) -> None:
    invoke("explore", run_copy, "rot haus", "rot haus " * 200, "--checkpoints", "-o", "page.html")
    found = content(tmp_path / "page.html")["explorations"]
    names = [f"update {int(one.folder.name):,}" for one in list_checkpoints(run_copy)]
    assert len(names) > 1 and [one["run"] for one in found] == names * 2
    (expected,) = seq2attn.explore(seq2attn.load(run_copy), "rot haus").explorations
    best = json.loads(json.dumps(expected["hypotheses"]))
    assert best in [one["hypotheses"] for one in found[: len(names)]]
    for one in found[len(names) :]:
        (note,) = (note for note in one["notes"] if "too many tokens" in note)
        assert "; only the first part of the text is shown, " in note and "in parts" not in note
    write_lines(tmp_path / "in", ["rot haus"])
    invoke("explore", run_copy, "--checkpoints", "-i", "in", "-o", "table.html")
    data = content(tmp_path / "table.html")
    (row,) = data["table"]["rows"]
    last, text = data["explorations"][-1]["hypotheses"][0], data["explorations"][-1]["text"]
    assert text == row["source"]
    assert row["log_prob"] == pytest.approx(np.mean(last["token_log_probs"]), abs=1e-3)


def test_a_tag_is_one_of_every_run(invoke: Invoke, tmp_path: Path) -> None:
    untrained_run(tmp_path / "tagged", tags=("<news>",)), untrained_run(tmp_path / "plain")
    error = invoke("explore", "tagged/run", "plain/run", TEXT, "--tag", "news", "-o", "page.html", code=2).err
    assert "the model does not know the tag `news`" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: is not a run directory"),
        (["run", TEXT, TEXT], "give one sentence to begin with, or --output"),
        (["run", "--reference", "lines.txt"], "--reference needs --input"),
        (["run", "-o", "page.html"], "give sentences to show in the page, or --input"),
        (["run", "", "-o", "page.html"], "there is no text to translate"),
        (["run", TEXT, "-o", "none/page.html"], "there is no folder none"),
        (["run", "--worst", "3"], "--worst and --best need --test-set, or --input and --reference"),
        (["run", "--test-set", "other", "-o", "page.html"], "there is no test set `other`; the run has ours"),
        (["run", "--test-set", "ours", "--tag", "news"], "--test-set excludes --tag: a test set of the config"),
        (["run", "--checkpoints", TEXT, "-o", "page.html"], "run: has no checkpoints"),
        (["run", "run", "--checkpoints", TEXT], "--checkpoints shows those of one run"),
        (["run", "--checkpoints", "--ensemble", "run"], "--checkpoints excludes --ensemble"),
    ],
)
def test_errors(invoke: Invoke, run: Path, arguments: list[str], message: str) -> None:
    assert message in invoke("explore", *arguments, code=2).err


def test_a_run_without_test_sets(invoke: Invoke, run: Path) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    del config["data"]["test"]
    (run / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    error = invoke("explore", run, "--test-set", "ours", "-o", "page.html", code=2).err
    assert "the config has no `data.test`; give --input" in error


def test_models_without_attention_and_ensembles(invoke: Invoke, tmp_path: Path) -> None:
    plain = CONFIG.replace("decoder: {kind: luong, dim: 8}", "decoder: {kind: fixed-context, dim: 8}")
    for name, config in (("one", CONFIG), ("plain", plain)):
        untrained_run(tmp_path / name, config)
    invoke("explore", "plain/run", TEXT, "-o", "page.html")
    (found,) = content(tmp_path / "page.html")["explorations"]
    assert found["attention"] == {} and all(one["attention"] is None for one in found["importance"].values())
    invoke("explore", "one/run", TEXT, "--ensemble", "plain/run", "-o", "page.html", "--overwrite")
    (found,) = content(tmp_path / "page.html")["explorations"]
    assert found["attention"] is None and "importance" not in found and found["hypotheses"][0]["leaf"] is not None
