"""`--rerank` and `--rerank-backward` of `seq2attn translate` and `evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import seq2attn
from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.options import TranslationOptions
from seq2attn.search.search_config import GreedyConfig, SampleConfig
from seq2attn.tokenizers.vocabulary import UNK
from tests.support.commands import Invoke, write_lines
from tests.support.untrained_runs import CONFIG, TRANSFORMER_CONFIG, change_weights, untrained_run

GIVEN = b"a few words\n\nnot many words are there\n"
NBEST = "--json", "--n-best", "4", "--beam", "4"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A model that never predicts `<unk>`."""
    return without_unknown(untrained_run(tmp_path))


def without_unknown(run: RunDirectory, scale: float = 1) -> RunDirectory:
    change_weights(run, lambda model: model.output_projection.weight.mul_(scale))
    change_weights(run, lambda model: model.output_projection.bias[UNK].sub_(50))
    return run


@pytest.fixture
def other(tmp_path: Path) -> RunDirectory:
    return without_unknown(untrained_run(tmp_path / "other", TRANSFORMER_CONFIG), 3)


@pytest.fixture
def right_to_left(tmp_path: Path) -> RunDirectory:
    run = without_unknown(untrained_run(tmp_path / "right", TRANSFORMER_CONFIG), 3)
    run.load_tokenizers().target.with_direction(right_to_left=True).save(run.folder / "target")
    return run


def hypotheses(invoke: Invoke, *arguments: object) -> list[list[dict[str, Any]]]:
    """All hypotheses of each line."""
    lines = [json.loads(line) for line in invoke("translate", *arguments, *NBEST, given=GIVEN).out.splitlines()]
    return [[line, *line["alternatives"]] for line in lines]


def test_a_search_of_one_call_can_be_reranked(run: RunDirectory, other: RunDirectory) -> None:
    translator = seq2attn.load(run.folder, TranslationOptions(rerank=[str(other.folder)]))
    for search, message in (
        (GreedyConfig(), "this search finds one"),
        (SampleConfig(num_samples=3, mbr=True), "Bayes"),
    ):
        with pytest.raises(UserError, match=f"reranking orders several hypotheses by their scores, and .*{message}"):
            translator.translate("a few words", search)
    with pytest.raises(UserError, match="``rerank`` and ``to`` exclude each other"):
        translator.translate("a few words", to="deu")


@pytest.mark.parametrize("unknown", [False, True])
def test_a_run_that_reranks_itself_leaves_its_order(invoke: Invoke, tmp_path: Path, unknown: bool) -> None:
    run = untrained_run(tmp_path) if unknown else without_unknown(untrained_run(tmp_path))
    penalty = "--set", "search.lengths.alpha=0.5"  # of both
    plain = hypotheses(invoke, run.folder, *penalty)
    assert unknown == any("<unk>" in one["text"] for row in plain for one in row)
    again = hypotheses(invoke, run.folder, "--rerank", f"{run.folder}:0.5", *penalty)
    for before, after in zip(plain, again, strict=True):
        assert [one["text"] for one in before] == [one["text"] for one in after]
        assert [one["score"] for one in after] == pytest.approx([1.5 * one["score"] for one in before], abs=1e-5)
        assert [one["log_prob"] for one in after] == [one["log_prob"] for one in before]


def test_a_weight_of_zero_changes_nothing(invoke: Invoke, run: RunDirectory, other: RunDirectory) -> None:
    options = "--rerank", f"{other.folder}:0", "--rerank-backward", f"{other.folder}:0"
    assert hypotheses(invoke, run.folder, *options) == hypotheses(invoke, run.folder)


@pytest.mark.parametrize("kind", ["forward", "right-to-left", "backward"])
def test_scores_are_those_of_the_command(
    invoke: Invoke, run: RunDirectory, other: RunDirectory, right_to_left: RunDirectory, tmp_path: Path, kind: str
) -> None:
    """The sum of both scores per token, by `seq2attn score` of the other run, and in its order."""
    ranker = right_to_left if kind == "right-to-left" else other
    option = "--rerank-backward" if kind == "backward" else "--rerank"
    found = hypotheses(invoke, run.folder, option, f"{ranker.folder}:2.5")
    plain = {(line, one["text"]): one for line, row in enumerate(hypotheses(invoke, run.folder)) for one in row}
    moved = 0
    for number, row in enumerate(found):
        write_lines(tmp_path / "in", [row[0]["source"]] * len(row))
        write_lines(tmp_path / "out", [one["text"] for one in row])
        files = ("out", "in") if kind == "backward" else ("in", "out")
        done = invoke("score", ranker.folder, "--source", files[0], "--target", files[1], "--json")
        for one, scored in zip(row, map(json.loads, done.out.splitlines()), strict=True):
            own = plain[number, one["text"]]["score"]
            assert one["score"] == pytest.approx(
                own + 2.5 * scored["log_prob"] / max(1, len(scored["tokens"])), abs=1e-4
            )
            if kind == "right-to-left" and one["text"]:
                assert scored["tokens"][:-1] == one["text"].split()[::-1]
        scores = [one["score"] for one in row]
        assert scores == sorted(scores, reverse=True)
        moved += [one["text"] for one in row] != [text for line, text in plain if line == number]
    assert moved


def test_weights_add_up_and_evaluate_reranks_too(
    invoke: Invoke, run: RunDirectory, other: RunDirectory, right_to_left: RunDirectory, tmp_path: Path
) -> None:
    one, two = f"{other.folder}:1.25", f"{right_to_left.folder}"
    parts = [
        hypotheses(invoke, run.folder, *options) for options in ([], ["--rerank", one], ["--rerank-backward", two])
    ]
    both = hypotheses(invoke, run.folder, "--rerank", one, "--rerank-backward", two)
    for rows in zip(*parts, both, strict=True):
        own, first, second, all_ = ({one["text"]: one["score"] for one in row} for row in rows)
        assert all_ == {text: pytest.approx(first[text] + second[text] - own[text], abs=1e-4) for text in own}
    options = "--rerank", f"{other.folder}:2.5", "--beam", "4", "--ensemble", run.folder
    invoke("evaluate", run.folder, *options)
    texts = invoke("translate", run.folder, *options, "-i", "lines.txt").out
    assert (run.folder / "evaluation/ensemble/ours.txt").read_text(encoding="utf-8") == texts
    assert texts != invoke("translate", run.folder, "--beam", "4", "-i", "lines.txt").out
    report = json.loads((run.folder / "evaluation/ensemble/ours.json").read_text(encoding="utf-8"))
    assert report["engine"].endswith(f"rerank {other.folder}:2.5")


def test_each_part_of_a_long_line_is_reranked(invoke: Invoke, run: RunDirectory, other: RunDirectory) -> None:
    """The score is the mean of those of the parts, which have as many tokens."""
    options = "--rerank", f"{other.folder}:2.5", "--beam", "4", "--json"
    limit = "--set", "search.lengths.max_source_length=1"
    split = json.loads(invoke("translate", run.folder, "few not of", *options, *limit).out)
    parts = [json.loads(invoke("translate", run.folder, part, *options).out) for part in ("few", "not", "of")]
    assert split["text"] == " ".join(filter(None, (part["text"] for part in parts)))
    assert split["score"] == pytest.approx(sum(part["score"] for part in parts) / 3, abs=1e-4)


def test_the_order_of_tags_is_no_matter(invoke: Invoke, tmp_path: Path) -> None:
    tags = "<2en>", "<2fr>"
    one, two = (
        without_unknown(untrained_run(tmp_path / name, tags=order))
        for name, order in (("one", tags), ("two", tags[::-1]))
    )
    for option in ("--rerank", "--ensemble"):
        assert invoke("translate", one.folder, "<2en> a few words", *NBEST, option, two.folder).out


def test_tags_are_for_runs_of_the_same_direction(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    tagged = [without_unknown(untrained_run(tmp_path / name, tags=("<2en>",))) for name in ("one", "two")]
    same = "translate", tagged[0].folder, "<2en> a few words", *NBEST
    lines = [json.loads(invoke(*same, *more).out) for more in ([], ["--rerank", tagged[1].folder])]
    assert lines[1]["score"] == pytest.approx(2 * lines[0]["score"], abs=1e-5)
    backward = [
        invoke("translate", name, text, *NBEST, "--rerank-backward", run.folder).out
        for name, text in ((tagged[0].folder, "a few words"), (tagged[0].folder, "<2en> a few words"))
    ]
    assert all(json.loads(line)["score"] < 0 for line in backward)


def test_the_direction_has_to_be_that_of_the_training_text(invoke: Invoke, tmp_path: Path) -> None:
    """As far as the files of the training tell: the same or swapped ones, not others."""
    runs = {}
    for name, files in {"de-en": ("a", "b"), "en-de": ("b", "a"), "re": ("a", "c"), "none": ("d", "e")}.items():
        for file in files:
            (tmp_path / file).write_text("a few words\n")
        source, target = (tmp_path / file for file in files)
        config = CONFIG.replace("source: lines.txt, target: lines.txt", f"source: {source}, target: {target}", 1)
        runs[name] = without_unknown(untrained_run(tmp_path / name, config)).folder
    command = "translate", runs["de-en"], "a few words"
    for option, names in {"--rerank": ("re", "none"), "--rerank-backward": ("en-de", "none")}.items():
        assert [invoke(*command, option, runs[name]).code for name in names] == [0, 0]
    error = invoke(*command, "--rerank", runs["en-de"], code=2).err
    assert (
        f"--rerank {runs['en-de']}:1: by the files of `data.train` it was trained in the other direction than" in error
    )
    assert error.endswith("give --rerank-backward\n")
    error = invoke(*command, "--rerank-backward", runs["re"], code=2).err
    assert "in the same direction as" in error and error.endswith("give --rerank\n")
