"""`seq2attn doctor`: correct models of every family pass, and the expected checks find each planted defect."""

import dataclasses
import math
import re

import pytest
import torch
import yaml
from typer.testing import CliRunner

from seq2attn.cli import app
from seq2attn.decoders.recurrent import InputFeedRNNDecoder
from seq2attn.decoders.transformer import TransformerDecoder
from seq2attn.diagnostics.checks import max_abs_difference
from seq2attn.diagnostics.run_checks import CHECKS, load_subject, run_checks
from seq2attn.encoders.transformer import TransformerEncoder
from seq2attn.inference.engines.source_limit import max_source_length
from seq2attn.nn.kernels.linear import PrepackedLinear
from seq2attn.search import strategies, translate_ids
from tests.support.family_runs import FAMILIES, make_run
from tests.support.marks import slow_but

BATCHING, CACHE, PADDING, SCORES = CHECKS


def check(run, count=6, file=None):
    return run_checks(load_subject(run, count, file, "cpu"))


def test_a_search_of_any_size_is_not_run(tmp_path):
    """It is that of the run, which may be from someone else."""
    run = make_run(tmp_path, *FAMILIES["fixed"])
    config = yaml.safe_load(run.config_path.read_text())
    config["search"] = {"kind": "beam", "beam_size": 1000, "lengths": {"max_length": 65_536}}
    run.config_path.write_text(yaml.safe_dump(config))
    assert load_subject(run, 1, None, "cpu").search.kind == "greedy"


def failed_checks(run):
    return {result.check for result in check(run) if not result.passed}


def doctor(*arguments):
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)], prog_name="seq2attn")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("fixed"), *FAMILIES["fixed"])


@pytest.mark.parametrize("family", slow_but(("luong", "monotonic", "transformer", "bert"), FAMILIES))
def test_a_correct_model_passes(family, tmp_path):
    results = check(make_run(tmp_path, *FAMILIES[family]))
    assert [result.check for result in results] == [*CHECKS]
    assert [result for result in results if not result.passed] == []


@pytest.mark.parametrize("family", slow_but(["luong"], ["transformer", "luong"]))
def test_a_line_that_the_translator_would_cut_is_cut(family, tmp_path):
    run = make_run(tmp_path, *FAMILIES[family])
    longest = max_source_length(run.load_config())
    (tmp_path / "long").write_text("ba be bi bo " * 12_500 + "\nba be\n")
    subject = load_subject(run, 9, tmp_path / "long", "cpu")
    assert [len(sentence.source) for sentence in subject.sentences] == [longest, 2]
    assert [result for result in run_checks(subject) if not result.passed] == []
    (run.folder / "data" / "dev.jsonl").write_text('["' + "ba " * 50_000 + '", "' + "ba " * 50_000 + '"]\n')
    (sentence,) = load_subject(run, 9, None, "cpu").sentences
    assert len(sentence.source) == len(sentence.target) == longest


def test_the_table_has_a_row_per_check(run):
    done = doctor(run.folder, "--sentences", 5)
    assert (done.exit_code, done.exception) == (0, None)
    assert f"5 sentences of {run.folder / 'data/dev.jsonl'}, on cpu" in done.stderr
    header, *rows = [re.split(r"\s{2,}", row) for row in done.stdout.splitlines()]
    assert header == ["check", "largest", "allowed", "sentence", "time"]
    assert [row[0] for row in rows] == [*CHECKS]
    for _, result, largest, allowed, sentence, seconds in rows:
        assert result == "pass" and float(largest) <= float(allowed) and 1 <= int(sentence) <= 5
        assert seconds.endswith(" s")


def test_sentences_of_a_file_keep_their_line_numbers(run, tmp_path):
    (tmp_path / "lines").write_text("\n \nba be\nbi\n")
    done = doctor(run.folder, "-i", tmp_path / "lines")
    assert done.exit_code == 0 and f"2 sentences of {tmp_path / 'lines'}" in done.stderr
    assert {result.sentence for result in check(run, 1, tmp_path / "lines")} == {3}


def padding_in_mean(original, self, embedded, mask):
    """An encoder whose outputs depend on embeddings of padding."""
    encoded = original(self, embedded, mask)
    keys = encoded.keys + 0.3 * embedded.mean(1, keepdim=True)
    return dataclasses.replace(encoded, keys=keys, values=keys)


def reset_state(original, self, embedded, state, memory, **options):
    """A decoder whose steps begin from zeros instead of their state."""
    if embedded.size(1) == 1:
        state = dataclasses.replace(state, rnn_state=tuple(torch.zeros_like(cell) for cell in state.rnn_state))
    return original(self, embedded, state, memory, **options)


def constant_position(original, self, embedded, state, memory, **options):
    """A decoder that does not advance its position."""
    output = original(self, embedded, state, memory, **options)
    return output._replace(state=dataclasses.replace(output.state, position=state.position))


def second_best_token(original, log_probs, scores, count):
    """A search that selects the second-best token in batches."""
    start = int(log_probs.size(0) > 1)
    return tuple(part[:, start:][:, :count] for part in original(log_probs, scores, count + 1))


def high_scores(original, *arguments):
    """A search whose log-probabilities are higher than those of forced decoding."""
    return [[dataclasses.replace(one, log_prob=one.log_prob + 0.1) for one in beam] for beam in original(*arguments)]


def truncated_inputs(original, self, x):
    """A linear layer of search that ignores small inputs."""
    return original(self, x.masked_fill(x.abs() < 0.2, 0.0))


DEFECTS = {
    "padding in the mean": ("transformer", TransformerEncoder, "forward", padding_in_mean, {BATCHING, PADDING}),
    "reset state": ("bahdanau", InputFeedRNNDecoder, "forward", reset_state, {CACHE, SCORES}),
    "constant position": ("transformer", TransformerDecoder, "forward", constant_position, {CACHE, SCORES}),
    "second-best token": ("fixed", strategies, "topk_continuations", second_best_token, {BATCHING}),
    "high scores": ("fixed", translate_ids, "to_hypotheses", high_scores, {SCORES}),
    "truncated inputs": ("deep and shallow", PrepackedLinear, "forward", truncated_inputs, {CACHE}),
}
"""A family of models, the function that a defect replaces, and the checks that find the defect."""


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(defect, tmp_path, monkeypatch):
    family, owner, name, plant, checks = DEFECTS[defect]
    run = make_run(tmp_path, *FAMILIES[family])
    original = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **options: plant(original, *args, **options))
    assert failed_checks(run) == checks


def test_a_check_that_raises_an_error_fails(run, monkeypatch):
    monkeypatch.setattr(translate_ids, "to_hypotheses", lambda *arguments: 1 / 0)
    done = doctor(run.folder, "--sentences", "4")
    assert (done.exit_code, done.stderr.count("Traceback")) == (1, 0)
    assert [line.split("  ")[0] for line in done.stdout.splitlines() if "FAIL" in line] == [BATCHING, SCORES]
    assert f"\n{BATCHING}: ZeroDivisionError: division by zero\n" in done.stdout


def test_nan_fails_and_equal_infinities_do_not(run):
    one = torch.tensor([1.0, -torch.inf])
    assert max_abs_difference(one, one) == 0
    assert max_abs_difference(one, torch.tensor([1.5, -torch.inf])) == 0.5
    assert math.isnan(max_abs_difference(one, torch.tensor([1.0, torch.nan])))
    subject = load_subject(run, 1, None, "cpu")
    (result,) = run_checks(subject, {"one": lambda _: iter([(1, 0.2), (2, math.nan), (3, 9.0)])})
    assert (result.sentence, result.passed) == (2, False)
