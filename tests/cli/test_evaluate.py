"""`seq2attn evaluate` of one run and of several: test sets, scores, significance and reports."""

import hashlib
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

import seq2attn
from seq2attn.evaluation.evaluate import (
    EvaluationSet,
    SetResult,
    load_with_origin,
    read_translations,
    write_report,
)
from seq2attn.experiment.evaluation_config import EvaluationConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.translator import Translator
from seq2attn.io.lock import lock_directory
from seq2attn.io.weights import load_tensors
from seq2attn.search.search_config import BeamConfig
from seq2attn.tokenizers.vocabulary import UNK, mark_unknown
from tests.support.commands import Invoke, write_lines
from tests.support.untrained_runs import CONFIG, LINES, TRANSFORMER_CONFIG, change_weights, untrained_run

TEST_LINES = [*LINES, "few words of many", "there are words which are not many"] * 4


def report_of(run: RunDirectory, name: str) -> dict[str, Any]:
    return json.loads((run.folder / "evaluation" / f"{name}.json").read_text(encoding="utf-8"))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_each_set_has_a_report_with_the_digests_of_its_files(invoke: Invoke, tmp_path: Path) -> None:
    run = untrained_run(tmp_path)
    invoke("evaluate", run.folder)
    ours = report_of(run, "ours")
    translations = run.folder / "evaluation/ours.txt"
    lines = digest(tmp_path / "lines.txt")
    assert ours["digests"] == {"source": lines, "references": [lines], "translations": digest(translations)}
    assert (ours["set"], ours["sentences"], ours["model"]) == ("ours", len(LINES), {"checkpoints": []})
    assert ours["num_tokens"] == len(translations.read_text(encoding="utf-8").split())
    # The report of a file with the name of a set of the config has another name.
    for name in ("other", "ours"):
        write_lines(tmp_path / name, ["many words", "few"])
        invoke("evaluate", run.folder, "--source", name, "--reference", name)
    assert report_of(run, "ours") == ours
    assert [report_of(run, name)["sentences"] for name in ("other", "ours_")] == [2, 2]


def test_all_references_count(invoke: Invoke, tmp_path: Path) -> None:
    run = untrained_run(tmp_path)
    write_lines(tmp_path / "source", ["many words", "few"])
    references = [["many words are there", "not many"], ["are", "words of which there are a few"]]
    for number, lines in enumerate(references):
        write_lines(tmp_path / f"reference-{number}", lines)
    files = ["--source", "source", "--reference", "reference-0", "--reference", "reference-1"]
    table = invoke("evaluate", run.folder, *files, "--plot", "lengths.svg").out
    assert (tmp_path / "lengths.svg").is_file()
    written = (run.folder / "evaluation/source.txt").read_text(encoding="utf-8").split("\n")[:-1]
    translations = [*map(mark_unknown, written)]
    report = report_of(run, "source")
    assert report["digests"]["source"] == digest(tmp_path / "source")
    assert report["digests"]["references"] == [digest(tmp_path / f"reference-{n}") for n in (0, 1)]
    assert report["by_length"][0]["mean_length"] == 1.5
    bleu, chrf, ter = report["scores"]
    assert report["by_length"][0]["score"] == bleu  # all sentences are in one bucket
    assert bleu["value"] == sacrebleu.corpus_bleu(translations, references).score > 0
    assert chrf["value"] == sacrebleu.corpus_chrf(translations, references).score
    assert ter["value"] == sacrebleu.corpus_ter(translations, references, case_sensitive=True).score
    assert all("nrefs:2|" in score["signature"] and f"{score['value']:.2f}" in table for score in (bleu, chrf, ter))
    override = "data.test.more={kind: plain, source: lines.txt, target: lines.txt, references: [source]}"
    assert invoke("evaluate", run.folder, "--set", override, code=2).err == (
        f"error: {tmp_path / 'lines.txt'} has 3 lines and {tmp_path / 'source'} has 2 lines: each line"
        " must be a translation of the same source line\n"
    )


def test_options_for_metrics_and_tokenizer(invoke: Invoke, tmp_path: Path) -> None:
    run = untrained_run(tmp_path)
    names = ("exact", "bleu", "token-error-rate", "chrf++")
    options = [part for name in names for part in ("--metric", name)]
    report = json.loads(invoke("evaluate", run.folder, "--json", "--tokenize", "char", *options).out)
    scores = report["sets"]["ours"]["scores"]
    assert [score["name"] for score in scores] == ["exact match", "BLEU", "token error rate", "chrF2++"]
    assert "|tok:char|" in scores[1]["signature"]
    assert "|tok:char|" in report["sets"]["ours"]["by_length"][0]["score"]["signature"]


def test_paper_bleu_has_its_own_name_and_signature(invoke: Invoke, tmp_path: Path) -> None:
    run = untrained_run(tmp_path)
    done = invoke("evaluate", run.folder, "--set", "evaluation.paper_bleu={split_compounds: true}")
    assert done.out.splitlines()[0].split() == ["system", "BLEU", "chrF2", "TER", "paper_bleu"]
    assert "\npaper_bleu: nrefs:1|case:mixed|eff:no|tok:none+compounds|smooth:exp|" in done.out


def test_the_tokenizer_of_each_set_depends_on_its_script(invoke: Invoke, tmp_path: Path) -> None:
    run = untrained_run(tmp_path)
    write_lines(tmp_path / "zh", ["今天天气很好。", "我们去公园散步。", "他们学习中文。"])
    override = "data.test.zh={kind: plain, source: zh, target: zh}"
    done = invoke("evaluate", run.folder, "--set", override)
    assert "as the references are in Han" in done.err
    table, *_ = done.out.split("\n\n")
    assert [line.split()[0] for line in table.splitlines()] == ["system", "ours", "zh"]
    assert "BLEU: nrefs:1|case:mixed|eff:no|tok:13a|" in done.out
    assert "BLEU: nrefs:1|case:mixed|eff:no|tok:zh|" in done.out
    assert report_of(run, "zh")["by_length"][0]["unit"] == "characters"
    overridden = invoke("evaluate", run.folder, "--set", override, "--tokenize", "13a")
    assert "warning: zh: BLEU with `tokenize: 13a` counts words between spaces" in overridden.err
    assert "warning: ours: BLEU" not in overridden.err


def test_weights_and_origin_are_of_one_file(tmp_path: Path) -> None:
    run, other = untrained_run(tmp_path), untrained_run(tmp_path / "other")
    source, target = run.load_tokenizers()
    vocabularies = source.vocabulary, target.vocabulary
    tensors = load_tensors(other.weights_path)
    other.save_model({name: tensor + 1 for name, tensor in tensors.items()}, vocabularies, {"checkpoints": ["7"]})
    loads = 0

    def load() -> Translator:
        nonlocal loads
        loads += 1
        translator = seq2attn.load(run.folder)
        if loads == 1:  # a training saves better weights
            shutil.copy(other.weights_path, run.weights_path)
        return translator

    translator, origin = load_with_origin([run], load)
    assert (loads, origin) == (2, {"checkpoints": ["7"]})
    assert all(
        tensor.equal(load_tensors(other.weights_path)[name])
        for name, tensor in translator.model.state_dict().items()
        if name in tensors
    )


def test_reports_wait_for_those_of_another_command(tmp_path: Path) -> None:
    test = EvaluationSet("set", [], [[]], EvaluationConfig().build([]))
    result = SetResult("set", test.digests, 1, (), (), 1.0, 1, ("text",), None, ())
    folder = tmp_path / "evaluation"
    with ThreadPoolExecutor(1) as pool:
        with lock_directory(folder, "evaluation.lock"):
            writer = pool.submit(write_report, RunDirectory(tmp_path), {}, result, BeamConfig(), "")
            assert not wait([writer], 0.3).done
        writer.result()
    assert sorted(path.name for path in folder.iterdir()) == ["evaluation.lock", "set.json", "set.txt"]
    assert report_of(RunDirectory(tmp_path), "set")["digests"]["translations"] == digest(folder / "set.txt")


@pytest.mark.parametrize("lines", [("\ufefftext", "\ufeff", ""), ("",), ("\x85a\u2028b",)])
def test_translations_are_read_as_they_were_written(tmp_path: Path, lines: tuple[str, ...]) -> None:
    test, run = EvaluationSet("set", [], [[]], EvaluationConfig().build([])), RunDirectory(tmp_path)
    result = SetResult("set", test.digests, len(lines), (), (), 1.0, 1, lines, None, ())
    write_report(run, {}, result, BeamConfig(), "")
    assert tuple(read_translations(run, test, [])[0]) == lines
    report = tmp_path / "evaluation/set.json"
    for search in (None, []):  # of another program
        report.write_text(json.dumps(json.loads(report.read_text()) | {"search": search}))
        assert tuple(read_translations(run, test, [])[0]) == lines


def test_the_seconds_are_those_of_translating(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on while batches are translated."""
    run, waited, now, translate = untrained_run(tmp_path), list[float](), time.monotonic, NativeEngine.translate

    def slow(self: NativeEngine, *arguments: Any, **options: Any) -> Any:
        waited.append(100)
        return translate(self, *arguments, **options)

    monkeypatch.setattr(NativeEngine, "translate", slow)
    monkeypatch.setattr(time, "monotonic", lambda: now() + sum(waited))
    invoke("evaluate", run.folder)
    seconds = report_of(run, "ours")["seconds"]
    assert waited and sum(waited) <= seconds < sum(waited) + 20


@pytest.mark.parametrize("more", [[], ["--ensemble", "run"]])
def test_a_folder_that_cannot_be_written_has_advice(invoke: Invoke, tmp_path: Path, more: list[str]) -> None:
    folder = untrained_run(tmp_path).folder / "evaluation"
    (folder / "ensemble" if more else folder).parent.mkdir(exist_ok=True)
    (folder / "ensemble" if more else folder).write_text("a file")
    error = invoke("evaluate", "run", *more, code=2).err
    assert "cannot be written to" in error and error.splitlines()[-1].endswith("; evaluate a copy of the run")


def two_runs(folder: Path) -> tuple[RunDirectory, RunDirectory]:
    """Runs with the test sets `ours`, which is the same text, and `theirs`."""
    (folder / "text").write_text("".join(line + "\n" for line in TEST_LINES), encoding="utf-8")
    test = f"{{kind: plain, source: {folder}/text, target: {folder}/text}}"
    config = CONFIG.replace("ours: {kind: plain, source: lines.txt, target: lines.txt}", f"ours: {test}")
    before = untrained_run(folder, config)
    config = TRANSFORMER_CONFIG.replace("ours: {kind", f"ours: {test}\n    theirs: {{kind")
    after = untrained_run(folder / "other", config.replace("beam_size: 3", "beam_size: 2"))
    text = after.config_path.read_text(encoding="utf-8")
    after.config_path.write_text(text.replace("  metrics: null\n", "  metrics: [chrf]\n"), encoding="utf-8")
    for run in (before, after):
        change_weights(run, lambda model: model.output_projection.bias[UNK].sub_(99))
    return before, after


def test_a_table_and_reports_of_both_runs(invoke: Invoke, tmp_path: Path) -> None:
    before, after = two_runs(tmp_path)
    done = invoke("evaluate", "run", "other/run", "--metric", "bleu", "--metric", "chrf", "--greedy")
    table, _, ours, theirs, speeds, differences = done.out.split("\n\n")
    labels = [f"{name} {run}" for name in ("ours", "theirs") for run in ("run", "other/run")]
    assert [line.rsplit(maxsplit=2)[0].strip() for line in table.splitlines()[1:]] == labels
    assert ours.splitlines()[0].split() == ["words", "sentences", *" ".join(labels[:2]).split()]
    assert theirs.splitlines()[0].split()[2:] == " ".join(labels[2:]).split()
    reports = [report_of(run, name) for name in ("ours", "theirs") for run in (before, after)]
    for line, label, report in zip(speeds.splitlines(), labels, reports, strict=True):
        count, seconds, num_tokens = report["sentences"], report["seconds"], report["num_tokens"]
        rates = f"{count / seconds:.1f} sentences/s, {num_tokens / seconds:.0f} tokens/s"
        assert line == f"{label}: {count} sentences in {seconds:.1f} s, {rates}"
        assert report["sentences_per_second"] == pytest.approx(count / seconds)
    both = json.loads(invoke("evaluate", "run", "other/run", "--metric", "bleu", "--json", "--greedy").out)
    assert list(both) == ["run", "other/run"]
    translations = []
    for run, name in ((before, "run"), (after, "other/run")):
        for test, content in both[name]["sets"].items():
            report = json.loads((run.folder / "evaluation" / f"{test}.json").read_text(encoding="utf-8"))
            assert report["scores"] == content["scores"] and len(content["scores"]) == 1
        row = next(line for line in table.splitlines() if line.startswith(f"ours {name} "))
        assert row.split()[-2] == f"{both[name]['sets']['ours']['scores'][0]['value']:.2f}"
        translations.append((run.folder / "evaluation/ours.txt").read_text(encoding="utf-8").splitlines())
    named = [("baseline", translations[0]), ("system", translations[1])]
    _, scores = PairedTest(named, {"BLEU": BLEU()}, [TEST_LINES], test_type="bs", n_samples=1000)()
    one, other = scores["BLEU"]
    line = (
        f"ours: other/run {other.score - one.score:+.2f} BLEU against run, p = {other.p_value:.3f}"
        " (paired bootstrap; one seed)"
    )
    assert differences.splitlines()[0] == line and differences.splitlines()[1].startswith("theirs: other/run ")
    assert "paired" in invoke("evaluate", "run", "other/run").out  # with the metrics of the first
    assert [report_of(run, "ours")["search"]["beam_size"] for run in (before, after)] == [3, 2]
    out = invoke("evaluate", "run", "other/run", "--metric", "chrf").out
    assert "paired" not in out and "words" not in out  # which would be BLEU


def test_text_is_read_once(invoke: Invoke, tmp_path: Path) -> None:
    """A pipe has its text only once."""
    untrained_run(tmp_path), untrained_run(tmp_path / "other")
    read, write = os.pipe()
    os.write(write, (tmp_path / "lines.txt").read_bytes())
    os.close(write)
    done = invoke("evaluate", "run", "other/run", "--source", f"/dev/fd/{read}", "--reference", "lines.txt")
    os.close(read)
    assert f"{read}: other/run +0.00 BLEU against run, p = 1.000" in done.out


def test_the_tag_of_a_set_is_known_to_all_runs(invoke: Invoke, tmp_path: Path) -> None:
    untrained_run(tmp_path)
    tagged = CONFIG.replace("lines.txt}", "lines.txt, tag: news}").replace("ours:", "theirs:")
    untrained_run(tmp_path / "other", tagged, tags=("<news>",))
    for runs in (("run", "other/run"), ("other/run", "run")):
        error = invoke("evaluate", *runs, code=2).err
        assert error.startswith("error: the model does not know the tag `news`: it was trained without tags")
    assert "theirs" in invoke("evaluate", "other/run").out


def test_a_tag_is_no_word_of_its_source(invoke: Invoke, tmp_path: Path) -> None:
    run = untrained_run(tmp_path, tags=("<news>",))
    write_lines(tmp_path / "source", ["今天", "很好"])  # a tag has more letters, and a space
    files = ["--source", "source", "--reference", "source"]
    buckets = []
    for tag in ([], ["--tag", "news"]):
        invoke("evaluate", run.folder, *files, *tag)
        buckets.append([{**one, "score": None} for one in report_of(run, "source")["by_length"]])
    assert buckets[0] == buckets[1]
    assert (buckets[0][0]["mean_length"], buckets[0][0]["unit"]) == (2, "characters")


@pytest.mark.parametrize("decoder", ["fixed-context", "luong"])
def test_attention_that_is_missing_is_refused_before_the_work(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoder: str
) -> None:
    monkeypatch.setattr(NativeEngine, "translate", None)  # an error of its own if anything is translated
    run = untrained_run(tmp_path, CONFIG.replace("kind: luong", f"kind: {decoder}"))
    more = ["--ensemble", run.folder] if decoder == "luong" else []
    errors = [
        invoke("evaluate", run.folder, "--json", "--attention", *more, code=2).err,
        invoke("translate", run.folder, "few words", "--attention", "it.html", *more, code=2).err,
    ]
    assert errors[0] == errors[1] and "attention" in errors[0]
    assert not (run.folder / "evaluation").exists()
