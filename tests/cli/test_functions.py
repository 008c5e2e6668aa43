"""Commands as functions of Python: a command prints what its function returns."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import seq2attn
from seq2attn.data.word_alignment import format_pharaoh
from seq2attn.experiment.run_directory import RunDirectory
from tests.support.commands import Invoke, Toy, all_commands, write_lines
from tests.support.pages import blocks, text
from tests.support.untrained_runs import LINES, change_weights, untrained_run

OTHERS = {"back-translate", "distill", "doctor", "import", "init", "reproduce", "speedrun", "sweep", "translate"}
"""Commands whose name is another one in Python, or that are for the command line only."""


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs with different weights, by their relative paths in the working directory, and `in` and `out`."""
    for name, scale in (("one", 1.0), ("two", 3.0)):
        run = untrained_run(tmp_path / name)
        change_weights(run, lambda model, scale=scale: model.output_projection.weight.mul_(scale))
    for name in ("in", "out"):
        write_lines(tmp_path / name, [line for line in LINES if line])
    return tmp_path / "one/run", tmp_path / "two/run"


def test_commands_are_public_functions() -> None:
    names = {name for name in all_commands() if not name.startswith("config ")}
    assert {name for name in names - OTHERS if name not in seq2attn.__all__} == set()
    assert "import_model" in seq2attn.__all__ and callable(seq2attn.export)


def test_scores(invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path) -> None:
    found = seq2attn.score(str(runs[0]), seq2attn.ScoreOptions(tmp_path / "in", tmp_path / "out"))
    printed = invoke("score", runs[0], "--source", "in", "--target", "out", "--json").out
    assert [json.loads(json.dumps(asdict(pair))) for pair in found] == [*map(json.loads, printed.splitlines())]


@pytest.mark.parametrize("more", [(), ("--ensemble", "two/run"), ("--set", "search.lengths.max_source_length=2")])
def test_json_has_the_probability_of_each_token(
    invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path, more: tuple[str, ...]
) -> None:
    attention = () if "--ensemble" in more else ("--attention", "page.html")
    lines = "a few words", "", "not many words are there"
    done = invoke("translate", runs[0], "--json", "--n-best", "2", *attention, *more, given="\n".join(lines).encode())
    for line, found in zip(lines, map(json.loads, done.out.splitlines()), strict=True):
        num_segments = len(found.get("segments", ())) or min(1, len(line))
        for one in (found, *found["alternatives"]):
            is_ended = "truncated" not in found  # else the search has no probability of EOS
            assert len(one["token_log_probs"]) == len(one["tokens"]) + num_segments
            assert not is_ended or sum(one["token_log_probs"]) == pytest.approx(one["log_prob"], abs=1e-4)
        assert found["source_tokens"] == line.split()
        if attention and line:
            (((*rows,),),) = found["cross_attention"]
            assert len(rows) == len(found["token_log_probs"]) and len(rows[0]) == len(line.split()) + num_segments


def test_probabilities_in_json_have_the_order_of_the_tokens(
    invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    """They are those that `score` gives the translation."""
    lines = ["a few words", "not many words are there"]
    write_lines(tmp_path / "in", lines)
    found = [*map(json.loads, invoke("translate", runs[0], "-i", "in", "--json").out.splitlines())]
    assert all(len({*one["token_log_probs"]}) > 1 for one in found)
    write_lines(tmp_path / "out", [one["text"] for one in found])
    scored = seq2attn.score(runs[0], seq2attn.ScoreOptions(tmp_path / "in", tmp_path / "out"))
    for one, pair in zip(found, scored, strict=True):
        assert [*one["tokens"], pair.tokens[-1]] == [*pair.tokens]
        assert one["token_log_probs"] == pytest.approx([*pair.token_log_probs], abs=1e-4)


def test_evaluation_and_comparison(invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path) -> None:
    texts = tmp_path / "in", [tmp_path / "out"]
    printed = json.loads(invoke("evaluate", *runs, "--source", "in", "--reference", "out", "--greedy", "--json").out)
    options = seq2attn.TranslationOptions(greedy=True)
    evaluated = seq2attn.evaluate(*runs, options=options, evaluation=seq2attn.EvaluateOptions(*texts))
    for run in map(str, runs):
        (result,) = evaluated.results[run]
        assert [asdict(score) for score in result.scores] == printed[run]["sets"]["in"]["scores"]
        assert all(score.signature for score in result.scores)
        assert len(printed[run]["sets"]["in"]["records"]) == result.sentences
    ensembles = [
        seq2attn.evaluate(
            runs[0],
            options=seq2attn.TranslationOptions(ensemble=[kind(runs[1])]),  # type: ignore[list-item]
            evaluation=seq2attn.EvaluateOptions(kind(texts[0]), [*map(kind, texts[1])]),  # type: ignore[arg-type]
        )
        for kind in (Path, str)
    ]
    assert ensembles[0].results[str(runs[0])][0].scores == ensembles[1].results[str(runs[0])][0].scores
    compared = invoke("compare", *runs, "--source", "in", "--reference", "out", "--examples", "1", "--format", "json")
    files = str(texts[0]), [*map(str, texts[1])]
    options = seq2attn.CompareOptions(*files, examples=1)  # type: ignore[arg-type]
    comparison = seq2attn.compare(*map(str, runs), options=options)
    assert json.loads(json.dumps(asdict(comparison))) == json.loads(compared.out)
    texts = "--source", "in", "--reference", "out"
    assert str(comparison) + "\n" == invoke("compare", *runs, *texts, "--examples", "1").out
    with pytest.raises(seq2attn.UserError, match="two or more different run directories"):
        seq2attn.compare(runs[0], runs[0])


def test_evaluation_has_the_records_of_translate(invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path) -> None:
    texts = "--source", "in", "--reference", "out"
    printed = json.loads(invoke("evaluate", runs[0], *texts, "--json", "--attention").out)
    translated = invoke("translate", runs[0], "-i", "in", "--json", "--attention", "page.html").out
    records = [*map(json.loads, translated.splitlines())]
    assert all(one["cross_attention"] and one["token_log_probs"] for one in records)
    for found, one in zip(printed["sets"]["in"]["records"], records, strict=True):
        assert (found["source"], found["tokens"]) == (one["source"], one["tokens"])
        for key in ("token_log_probs", "cross_attention"):  # computed in batches of other lines
            assert np.array(found[key]) == pytest.approx(np.array(one[key]), abs=1e-5)
    assert "cross_attention" not in invoke("evaluate", runs[0], *texts, "--json").out
    kept = RunDirectory(tmp_path / "one/run").folder / "evaluation/in.json"
    assert "records" not in json.loads(kept.read_text(encoding="utf-8"))
    refused = invoke("evaluate", runs[0], *texts, "--attention", code=2)
    assert refused.err == "error: --attention needs --json\n"


def test_alignment(invoke: Invoke, runs: tuple[Path, Path], tmp_path: Path) -> None:
    write_lines(tmp_path / "gold", ["0-0 1-1", "0-1 1-2"])
    options = seq2attn.AlignOptions(tmp_path / "in", tmp_path / "out", gold=tmp_path / "gold")
    alignment = seq2attn.align(runs[0], options)
    done = invoke("align", runs[0], "--source", "in", "--target", "out", "--gold", "gold")
    assert done.out == "".join(format_pharaoh(links or []) + "\n" for links in alignment.links)
    assert str(alignment.error_rate) in done.err and str(alignment.head) in done.err
    rates = seq2attn.select_alignment_head(runs[0], options)
    assert (
        seq2attn.align(runs[0], options).error_rate
        == next(iter(rates.values()))
        == min(rates.values(), key=lambda rate: rate.error_rate)
    )


def test_export_and_average(run_copy: Path, runs: tuple[Path, Path], tmp_path: Path) -> None:
    options = seq2attn.ExportOptions(verify_with=tmp_path / "in")
    report = seq2attn.export(runs[0], "onnx", tmp_path / "exported", options)
    assert report.is_same_model and (tmp_path / "exported/step.onnx").is_file()
    with pytest.raises(seq2attn.UserError, match="``to=nothing``"):
        seq2attn.export(runs[0], "nothing")
    averaged = seq2attn.average(run_copy, best=1)
    assert RunDirectory(run_copy).weights_origin()["checkpoints"] == [*averaged.checkpoints]


def test_the_model_of_another_loop_becomes_that_of_a_run(
    invoke: Invoke, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(toy.folder)
    config = seq2attn.load_config(toy.config, [f"run_dir={tmp_path}/run"])
    run = seq2attn.prepare(config, log=lambda _: None)
    tokenizers = seq2attn.load_prepared(str(run.folder)).tokenizers
    model = seq2attn.build_model(config.model, *map(len, tokenizers.vocabularies)).eval()
    own = seq2attn.Translator.from_model(model, *tokenizers, search=config.search)
    run.save_trained(model)
    assert invoke("translate", run.folder, "rot haus").out.strip() == own.translate("rot haus").text.strip()


def test_the_minimal_program_is_short() -> None:
    program = text("scripts/minimal.py")
    assert len(program.splitlines()) <= 150
    assert re.findall(r"^(?:from|import) (seq2attn\S*)", program, re.MULTILINE) == ["seq2attn"]


def test_the_training_loop_is_short() -> None:
    (loop,) = (block for block in blocks("docs/python.md", "python") if "backward()" in block)
    assert len(loop.splitlines()) <= 30


def test_the_page_of_python_imports_public_names() -> None:
    examples = "".join(blocks("docs/python.md", "python"))
    assert "from seq2attn." not in examples
    names = re.findall(r"\bseq2attn\.(\w+)", examples)
    names += re.findall(r"\w+", "".join(re.findall(r"^from seq2attn import (.*)$", examples, re.MULTILINE)))
    assert len({*names}) > 15 and {*names} <= {*seq2attn.__all__}
