"""`seq2attn compare`: significance by sacreBLEU's own command, words by frequency, examples, and mistakes."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import yaml

from seq2attn.tokenizers.vocabulary import UNK
from tests.support.commands import Invoke, Toy, invoke_in, write_lines
from tests.support.untrained_runs import change_weights, untrained_run

RUNS = ("a", "b", "c")


@pytest.fixture(scope="module")
def folder(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three evaluated runs: `b` with shorter translations, and `c` with another seed in its config."""
    folder = tmp_path_factory.mktemp("compared")
    for name in RUNS:
        shutil.copytree(toy.run, folder / name)
    for name, old, new in (("c", "seed: 1", "seed: 2"), ("b", "max_length: 256", "max_length: 6")):
        edit_config(folder / name, old, new)
    edit_config(folder / "b", "metrics: null", "metrics: [chrf]")
    shutil.rmtree(folder / "b/data")  # words are counted in the text of the first
    for name in RUNS:
        invoke_in(folder, "evaluate", name, "--greedy", "--metric", "bleu", "--metric", "chrf", "--metric", "ter")
    return folder


def edit_config(run: Path, old: str, new: str) -> None:
    """Replace the last `old` in the config of a run."""
    before, found, after = (run / "config.yaml").read_text(encoding="utf-8").rpartition(old)
    assert found
    (run / "config.yaml").write_text(before + new + after, encoding="utf-8")


def compare_runs(folder: Path, *options: str) -> Any:
    return json.loads(invoke_in(folder, "compare", *RUNS, "--format", "json", *options).out)


@pytest.fixture(scope="module")
def compared(folder: Path) -> Any:
    """The comparison of the three runs."""
    return compare_runs(folder, "--test", "bootstrap", "--examples", "3")


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


@pytest.mark.parametrize(
    ("test", "option"),
    [("bootstrap", "--paired-bs"), pytest.param("randomization", "--paired-ar", marks=pytest.mark.slow)],
)
def test_significance_is_that_of_sacrebleus_command(
    folder: Path, toy: Toy, compared: Any, test: str, option: str
) -> None:
    found = (compared if test == "bootstrap" else compare_runs(folder, "--test", test))["sets"][1]
    files = [f"{name}/evaluation/mixed.txt" for name in RUNS]
    command = [sys.executable, "-m", "sacrebleu", toy.folder / "text/mixed.en", "-i", *files, option]
    metrics = ["-m", "bleu", "-f", "json"]  # as JSON it cannot print the tests of other metrics
    done = subprocess.run([*command, *metrics], cwd=folder, capture_output=True, check=True, text=True)
    for run, theirs in zip(RUNS, json.loads(done.stdout), strict=True):
        ours = found["scores"]["BLEU"][run]
        assert ours["value"] == pytest.approx(theirs["BLEU"]["score"])
        assert (ours["p_value"] is None) == (run == "a")
        # The translations of `c` are those of `a`, of which sacreBLEU's bootstrap says p = 0.001.
        assert ours["p_value"] == (1.0 if run == "c" else pytest.approx(theirs["BLEU"]["p_value"]))
        assert (ours["interval"] is None) == (test == "randomization")
        assert ours["interval"] == pytest.approx(theirs["BLEU"]["ci"])
    assert found["scores"]["BLEU"]["b"]["p_value"] < 0.05
    assert [*found["scores"]] == ["BLEU", "chrF2", "TER"]
    assert found["scores"]["BLEU"]["a"]["signature"].startswith("nrefs:1|")


def test_words_by_frequency(folder: Path, toy: Toy, compared: Any) -> None:
    """Few words only, so all are in one bucket; its F1 is that of the counts of all words of the training text."""
    (bucket,) = compared["sets"][1]["by_frequency"]
    counts = Counter(" ".join(lines_of(toy.folder / "text/train.en")).split())
    assert bucket["lowest"] <= min(counts.values()) and max(counts.values()) <= bucket["highest"]
    references = [Counter(line.split()) for line in lines_of(toy.folder / "text/mixed.en")]
    assert bucket["count"] == sum(map(Counter.total, references))
    for run in RUNS:
        lines = lines_of(folder / run / "evaluation/mixed.txt")
        words = [Counter(word for word in line.split() if word in counts) for line in lines]
        matched = sum((one & other).total() for one, other in zip(words, references, strict=True))
        total = sum(map(Counter.total, words)) + bucket["count"]
        assert bucket["f1"][run] == pytest.approx(200 * matched / total)
    values = [f"{bucket['f1'][run]:.1f}" for run in RUNS]
    assert values[0] == values[2] != values[1]  # so that no other order of the columns is that of the runs
    rows = [line.split()[1:] for line in invoke_in(folder, "compare", *RUNS).out.splitlines()]
    assert [f"{bucket['count']:,}", *values] in rows


def test_examples_are_the_sentences_that_differ_most(folder: Path, toy: Toy, compared: Any) -> None:
    for one in compared["sets"]:
        files = [lines_of(folder / run / f"evaluation/{one['name']}.txt") for run in RUNS]
        differing = {place + 1 for place, lines in enumerate(zip(*files, strict=True)) if len({*lines}) > 1}
        spreads = [max(example["chrf"].values()) - min(example["chrf"].values()) for example in one["examples"]]
        references = lines_of(toy.folder / f"text/{one['name']}.en")
        chrf = [
            [sacrebleu.sentence_chrf(lines[place - 1], [references[place - 1]]).score for lines in files]
            for place in differing
        ]
        assert spreads == pytest.approx(sorted((max(row) - min(row) for row in chrf), reverse=True)[:3])
        for example in one["examples"]:
            place = example["line"] - 1
            assert example["reference"] == lines_of(toy.folder / f"text/{one['name']}.en")[place]
            assert example["source"] == lines_of(toy.folder / f"text/{one['name']}.de")[place]
            for run, lines in zip(RUNS, files, strict=True):
                words = example["words"][run]
                assert "".join(word for word, _ in words) == lines[place]
                assert all(word.rstrip() in example["reference"].split() for word, matches in words if matches)
                if lines[place] == example["reference"]:
                    assert all(matches for _, matches in words)


def test_output_formats(folder: Path, compared: Any) -> None:
    text = invoke_in(folder, "compare", *RUNS, "--examples", "3", "--html", "page.html").out
    page = (folder / "page.html").read_text(encoding="utf-8")
    content = json.loads(re.search(r"const data = (.*);\n", page)[1])  # type: ignore[index]
    assert content["runs"] == [*RUNS] and content["sets"] == compared["sets"]
    for one in compared["sets"]:
        for run in RUNS:
            row = " ".join(re.findall(rf"^{run} +(.*)$", text.split(f"{one['name']}, ")[1], re.MULTILINE)[0].split())
            assert row.startswith(f"{one['scores']['BLEU'][run]['value']:.2f} ± ")
        for example in one["examples"]:
            table = text.split(f"\nline {example['line']} ")[1]
            for run in RUNS:
                assert re.search(rf"^{run} .* chrF {example['chrf'][run]:.1f}$", table, re.MULTILINE)
    scores = compared["sets"][0]["scores"]["BLEU"]
    assert f"{scores['a']['value']:.2f} ± {scores['a']['interval']:.2f}" in text and "p = " in text
    assert compared["seeds"] == [["a", "c"]] and "a, c" in text and "± 0.00" in text
    for one in compared["sets"]:
        for metric, values in one["scores"].items():
            assert f'["{one["name"]}","{metric}","a, c",{values["a"]["value"]},0.0]' in page
    assert 'dir: "auto"' in page  # sentences from right to left
    assert '"runs":["a","b","c"]' in page and "http" not in page.replace("http-equiv", "")
    markdown = invoke_in(folder, "compare", "a", "b", "--format", "markdown").out
    (one, *_) = json.loads(invoke_in(folder, "compare", "b", "a", "--format", "json").out)["sets"]
    assert [*one["scores"]] == ["chrF2"] and one["by_frequency"] == []  # by the metrics and the text of `b`
    for output in (text, page, markdown):  # `b` has another maximum length
        assert "mixed was translated with different settings: `search.lengths` is" in output
        assert "`search.kind`" not in output and "`engine`" not in output
        assert "Words are counted in the training text of a." in output
        assert "p compares one seed of each run" in output
    assert markdown.startswith("## short, 20 sentences") and "| run" in markdown and "**" in markdown


def test_trainings_with_other_options_are_no_seeds_of_one(folder: Path) -> None:
    shutil.copytree(folder / "c", folder / "d")
    edit_config(folder / "d", "max_grad_norm: 1.0", "max_grad_norm: 2.0")
    for other, groups in (("c", [["a", "c"]]), ("d", [])):
        assert json.loads(invoke_in(folder, "compare", "a", other, "--format", "json").out)["seeds"] == groups


def test_of_searches_of_two_kinds_only_shared_settings_are_compared(invoke: Invoke, tmp_path: Path) -> None:
    untrained = untrained_run(tmp_path)
    for run, option in (("beam", "--beam=2"), ("greedy", "--greedy")):
        shutil.copytree(untrained.folder, tmp_path / run)
        invoke("evaluate", run, option, "--set", f"search.lengths.max_length={len(run)}")
    settings = re.findall("was translated with different settings: `(.*?)` is", invoke("compare", "beam", "greedy").out)
    assert {*settings} == {"search.kind", "search.lengths"}


def test_text_in_markdown_is_that_of_the_sentence(invoke: Invoke, tmp_path: Path) -> None:
    """Neither the columns of a table nor marks of Markdown are made of it."""
    source = r"a | few *words* <of> `which` [are] \| not_many ~~many~~ &amp;"
    write_lines(tmp_path / "source", [source])
    files, runs = ["--source", "source", "--reference", "source"], ["run", "other/run"]
    change_weights(untrained_run(tmp_path), lambda model: model.output_projection.bias[UNK].sub_(99))
    change_weights(untrained_run(tmp_path / "other"), lambda model: [one.neg_() for one in model.parameters()])
    for _ in range(2):
        invoke("evaluate", *runs, *files)
        files = [*files[:4], "--reference", "run/evaluation/source.txt"]  # the translation of the first run
    (tmp_path / "link").symlink_to("page")
    table = invoke("compare", *runs, *files, "--format", "markdown", "--html", "link").out.partition("| line 1")[2]
    assert (tmp_path / "link").is_symlink() and "<html" in (tmp_path / "page").read_text(encoding="utf-8")
    cells = [re.split(r" +(?<!\\)\| +", line.strip("| ")) for line in table.splitlines()[2:6]]
    assert [len(row) for row in cells] == [2, 2, 3, 3] and cells[2][2].startswith("chrF 100.0")
    assert re.sub(r"\\(\S)", r"\1", cells[0][1]) == source
    assert all(not re.search(r"(?<!\\)[`_~<&\[\]]", row[1]) for row in cells)


def test_unknown_words_and_missing_references(invoke: Invoke, tmp_path: Path) -> None:
    """In the scores of `evaluate`, and all that `compare` counts: a `<unk>` is one word, which no reference has."""
    lines = ["<unk> few words", "not many words are there", "a few words of <unk>"]
    run, other = untrained_run(tmp_path), untrained_run(tmp_path / "other")
    change_weights(other, lambda model: model.output_projection.bias[UNK].add_(0.7))
    (translation,) = invoke("translate", "other/run", lines[1]).out.splitlines()
    half = ["", translation, ""]  # nearer than the first reference
    for name, text in (("source", lines), ("half", half)):
        write_lines(tmp_path / name, text)
    files = ["--source", "source", "--reference", "source", "--reference", "half"]
    (run.folder / "data").mkdir()
    write_lines(run.folder / "data/train.jsonl", ['["a", "a <unk>"]'])
    done = invoke("evaluate", "run", "other/run", *files)
    note = "2 of 3 lines have one reference only: empty ones are missing"
    assert note in done.err
    (one,) = json.loads(invoke("compare", "run", "other/run", *files, "--format", "json").out)["sets"]
    assert f"source: {note}" in invoke("compare", "run", "other/run", *files).out
    written = lines_of(other.folder / "evaluation/source.txt")
    assert {"<unk>"} < {*" ".join(written).split()}
    words = [line.replace("<unk>", "\u0444") for line in written]
    streams = [lines, [line or None for line in half]]
    expected = {
        "BLEU": sacrebleu.corpus_bleu(words, streams),
        "chrF2": sacrebleu.corpus_chrf(words, streams),
        "TER": sacrebleu.corpus_ter(words, streams, case_sensitive=True),
    }
    report = json.loads((other.folder / "evaluation/source.json").read_text(encoding="utf-8"))
    for score in report["scores"]:
        assert score["value"] == one["scores"][score["name"]]["other/run"]["value"] == expected[score["name"]].score
    assert one["by_length"]["other/run"][0]["score"]["value"] == expected["BLEU"].score
    # Once in the training text: `a`, and the three tokens of the reference's `<unk>`, of which no translation has one.
    halves = {"first": [lines[0], "", lines[2]], "second": ["", lines[1], " "]}  # none of them has all references
    for name, text in halves.items():
        write_lines(tmp_path / name, text)
    both = ["--source", "source", "--reference", "first", "--reference", "second"]
    invoke("evaluate", "run", "other/run", *both)
    (halved,) = json.loads(invoke("compare", "run", "other/run", *both, "--format", "json").out)["sets"]
    assert halved["by_frequency"] == one["by_frequency"]
    assert all(example["reference"] in lines for example in halved["examples"])
    (bucket,) = (bucket for bucket in one["by_frequency"] if bucket["lowest"] == 1)
    pairs = [(line.split().count("a"), text.split().count("a")) for line, text in zip(words, lines, strict=True)]
    total = sum(map(sum, pairs)) + 3 * 2
    assert bucket["f1"]["other/run"] == pytest.approx(200 * sum(map(min, pairs)) / total)
    for example in one["examples"]:
        place = example["line"] - 1
        references = [stream[place] for stream in streams if stream[place]]
        chrf = sacrebleu.sentence_chrf(words[place], references).score
        assert example["chrf"]["other/run"] == pytest.approx(chrf)
        shown = example["words"]["other/run"]
        assert "".join(word for word, _ in shown) == written[place]
        assert all(not matches for word, matches in shown if "<unk>" in word)


def test_missing_and_changed_translations_are_named(folder: Path, toy: Toy, invoke: Invoke, tmp_path: Path) -> None:
    for run in ("a", "b"):
        config = Path(shutil.copytree(folder / run, tmp_path / run)) / "config.yaml"
        content = yaml.safe_load(config.read_text(encoding="utf-8"))
        del content["data"]["test"]["mixed"]  # the test set that takes the most time
        content["evaluation"]["metrics"] = None
        config.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    assert "two or more different run directories" in invoke("compare", "a", "a", code=2).err
    write_lines(tmp_path / "new", ["alt", "neu"])
    error = invoke("compare", "a", "b", "--source", "new", "--reference", "new", code=2).err
    command = "seq2attn evaluate a b --source new --reference new"
    assert error == f"error: a: has no translations of `new`; make them: {command}\n"
    invoke("average", "b", "--last", 1)
    error = invoke("compare", "a", "b", code=2).err
    assert error == (
        "error: b/evaluation/short.txt: is a translation by other weights than those of the run;"
        " make them: seq2attn evaluate a b\n"
    )
    edit_config(tmp_path / "b", "max_length: 6", "max_length: 256")
    edit_config(tmp_path / "b", "seed: 1", "seed: 2")
    more = f"    more: {{kind: plain, source: {tmp_path}/new, target: {tmp_path}/new}}\n"
    edit_config(tmp_path / "b", "  test:\n", "  test:\n" + more)
    invoke("average", "b", "--last", 2)
    invoke("evaluate", "b")
    error = invoke("compare", "a", "b", code=2).err
    assert error == "error: a: has no translations of `more`; make them: seq2attn evaluate a b\n"
    invoke("evaluate", "a", "b")
    edit_config(tmp_path / "b", more, "")
    done = invoke("compare", "a", "b").out  # with another seed, but other checkpoints are averaged
    assert "`averaged checkpoints` is" in done and "standard deviation" not in done
    for options, is_group in ((("--greedy",), False), ((), True)):
        invoke("average", "a", "--last", 2)
        invoke("evaluate", "a", *options)
        done = invoke("compare", "a", "b").out
        assert ("`search.kind` is" in done) != is_group == ("standard deviation" in done)
    (tmp_path / "b/evaluation/short.txt").write_text("changed\n" * 20, encoding="utf-8")
    error = invoke("compare", "a", "b", code=2).err
    assert error.startswith(
        "error: b/evaluation/short.txt: is a translation of another text than `short`, or was changed"
    )
