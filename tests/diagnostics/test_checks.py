"""`seq2attn doctor`: sound models of every family pass, and each planted defect is found by the checks that should."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest
import torch
from typer.testing import CliRunner

from seq2attn.cli import app
from seq2attn.config.trust import allow_code
from seq2attn.decoders.recurrent import InputFeedRNNDecoder
from seq2attn.decoders.transformer import TransformerDecoder
from seq2attn.diagnostics.checks import max_abs_difference
from seq2attn.diagnostics.run_checks import CHECKS, load_subject, run_checks
from seq2attn.encoders.transformer import TransformerEncoder
from seq2attn.nn.linear import PrepackedLinear
from seq2attn.search import strategies, translate_ids
from seq2attn.search.strategies import topk_continuations
from tests.diagnostics.runs import FAMILIES, make_run

BATCHING, CACHE, PADDING, SCORES = CHECKS


def checked(run, count=6, file=None):
    return run_checks(load_subject(run, count, file, "cpu"))


def failed(run):
    return {result.check for result in checked(run) if not result.passed}


def command(*arguments):
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)], prog_name="seq2attn")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sound_model_passes(family, tmp_path):
    results = checked(make_run(tmp_path, *FAMILIES[family]))
    assert [result.check for result in results] == [*CHECKS]
    assert [result for result in results if not result.passed] == []


def test_the_table(tmp_path):
    run = make_run(tmp_path, *FAMILIES["luong"])
    done = command(run.folder, "--sentences", 5)
    assert (done.exit_code, done.exception) == (0, None)
    assert f"5 sentences of {run.folder / 'data/dev.jsonl'}, on cpu" in done.stderr
    head, *rows = [re.split(r"\s{2,}", row) for row in done.stdout.splitlines()]
    assert head == ["check", "largest", "allowed", "sentence", "time"]
    assert [row[0] for row in rows] == [*CHECKS]
    for _, passes, largest, allowed, sentence, seconds in rows:
        assert passes == "pass" and float(largest) <= float(allowed) and 1 <= int(sentence) <= 5
        assert seconds.endswith(" s")


def test_where_sentences_come_from(tmp_path):
    run = make_run(tmp_path, *FAMILIES["fixed"])
    (tmp_path / "lines").write_text("\n \nba be\nbi\n")
    done = command(run.folder, "-i", tmp_path / "lines")
    assert done.exit_code == 0 and f"2 sentences of {tmp_path / 'lines'}" in done.stderr
    assert {result.sentence for result in checked(run, 1, tmp_path / "lines")} == {3}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "is no run directory"),
        (["run", "-i", "empty"], "has no line to check the model with"),
        (["run", "-i", "none"], "there is no such file"),
        (["run", "--device", "cuda:99"], "there is no device `cuda:99` here"),
        (["run"], "dev.jsonl: is missing; give --input FILE"),
    ],
)
def test_mistakes_of_a_user(arguments, said, tmp_path, monkeypatch):
    run = make_run(tmp_path, *FAMILIES["fixed"])
    (run.folder / "data" / "dev.jsonl").unlink()
    (tmp_path / "empty").write_text("\n \n")
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    assert done.exit_code == 2 and said in done.stderr


# ---------------------------------------------------------------------- defects


def leaky_mean(plain):
    """An encoder whose words see a little of what stands in padding."""

    def forward(self, words, mask):
        encoded = plain(self, words, mask)
        keys = encoded.keys + 0.3 * words.mean(1, keepdim=True)
        return dataclasses.replace(encoded, keys=keys, values=keys)

    return forward


def forgetful(plain):
    """A decoder whose step begins anew instead of going on from its state."""

    def forward(self, words, state, memory, **options):
        if words.size(1) == 1:
            blank = tuple(torch.zeros_like(cell) for cell in state.rnn_state)
            state = dataclasses.replace(state, rnn_state=blank)
        return plain(self, words, state, memory, **options)

    return forward


def stuck(plain):
    """A decoder that never counts the words it has read."""

    def forward(self, words, state, memory, **options):
        decoded = plain(self, words, state, memory, **options)
        return decoded._replace(state=dataclasses.replace(decoded.state, position=state.position))

    return forward


def second_best(plain):
    """A search that takes the second-best word in batches."""

    def chosen(log_probs, scores, count):
        parent, word, score = topk_continuations(log_probs, scores, count + 1)
        start = int(log_probs.size(0) > 1)
        return parent[:, start:][:, :count], word[:, start:][:, :count], score[:, start:][:, :count]

    return chosen


def too_proud(plain):
    """A search that says more of its translations than forced decoding gives."""

    def read_out(found):
        return [[dataclasses.replace(one, log_prob=one.log_prob + 0.1) for one in some] for some in plain(found)]

    return read_out


def blunt(plain):
    """A product of search that forgets the smallest of its inputs."""
    return lambda self, x: plain(self, x.masked_fill(x.abs() < 0.2, 0.0))


PLANTED = {
    "an encoder that sees padding": (
        "transformer",
        TransformerEncoder,
        "forward",
        leaky_mean,
        {BATCHING, PADDING},
    ),
    "a step that ignores its state": ("bahdanau", InputFeedRNNDecoder, "forward", forgetful, {CACHE, SCORES}),
    "positions that stand still": ("transformer", TransformerDecoder, "forward", stuck, {CACHE, SCORES}),
    "the second-best word": ("fixed", strategies, "topk_continuations", second_best, {BATCHING}),
    "scores that are too high": ("fixed", translate_ids, "to_hypotheses", too_proud, {SCORES}),
    "a blunt product": ("deep and shallow", PrepackedLinear, "forward", blunt, {CACHE}),
}
"""For each defect a family of models, what is replaced by what, and the checks that find it."""


@pytest.mark.parametrize("defect", PLANTED)
def test_a_planted_defect_is_found(defect, tmp_path, monkeypatch):
    family, owner, name, plant, checks = PLANTED[defect]
    run = make_run(tmp_path, *FAMILIES[family])
    monkeypatch.setattr(owner, name, plant(getattr(owner, name)))
    assert failed(run) == checks


def test_a_check_that_ends_in_an_error_fails(tmp_path, monkeypatch):
    run = make_run(tmp_path, *FAMILIES["fixed"])
    monkeypatch.setattr(translate_ids, "to_hypotheses", lambda found: 1 / 0)
    done = command(run.folder, "--sentences", "4")
    assert (done.exit_code, done.stderr.count("Traceback")) == (1, 0)
    assert [line.split("  ")[0] for line in done.stdout.splitlines() if "FAIL" in line] == [BATCHING, SCORES]
    assert f"\n{BATCHING}: ZeroDivisionError: division by zero\n" in done.stdout


def test_what_is_no_number_fails_and_equal_infinities_do_not(tmp_path):
    one = torch.tensor([1.0, -torch.inf])
    assert max_abs_difference(one, one) == 0
    assert max_abs_difference(one, torch.tensor([1.5, -torch.inf])) == 0.5
    assert math.isnan(max_abs_difference(one, torch.tensor([1.0, torch.nan])))
    subject = load_subject(make_run(tmp_path, *FAMILIES["fixed"]), 1, None, "cpu")
    (result,) = run_checks(subject, {"one": lambda _: iter([(1, 0.2), (2, math.nan), (3, 9.0)])})
    assert (result.sentence, result.passed) == (2, False)


PLUGIN = """
import torch
from seq2attn.decoders.fixed_context import FixedContextDecoder, FixedContextDecoderConfig
from seq2attn.encoders import EncoderOutput


class Peeping(FixedContextDecoder):
    class Config(FixedContextDecoderConfig):
        kind: str

        def build(self, input_dim, encoder):
            return Peeping(self, input_dim, encoder.final_dim)

    def init_state(self, encoded):
        wide = encoded.final_state[0] + encoded.mask.size(1) / 10
        return super().init_state(EncoderOutput(encoded.keys, encoded.values, encoded.mask, (wide,)))
"""


def test_a_plugins_decoder_that_looks_at_padding_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "peeping_parts.py").write_text(PLUGIN)
    encoder, decoder = FAMILIES["fixed"]
    run = make_run(tmp_path, encoder, {**decoder, "kind": "peeping_parts:Peeping"})
    allow_code(["peeping_parts"])
    assert failed(run) >= {BATCHING, PADDING}
