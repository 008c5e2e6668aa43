"""Every law of the doctor is broken once, by a defect that is planted, and the row of that law says so."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch
from typer.testing import CliRunner

from seq2attn.attention import attention as fused_attention
from seq2attn.attention import scores as scoring
from seq2attn.cli import app
from seq2attn.decoders import cells as fed
from seq2attn.decoders.recurrent import FedDecoder
from seq2attn.decoders.transformer import TransformerDecoder
from seq2attn.doctor.examine import LAWS, admit, examine
from seq2attn.doctor.findings import Found, apart, worst
from seq2attn.encoders.transformer import TransformerEncoder
from seq2attn.engines.exported import HEADER, fingerprint, write_header, written
from seq2attn.engines.targets import chosen_target
from seq2attn.laid_out import LaidOut
from seq2attn.products import Linear
from seq2attn.recurrence import cells as late
from seq2attn.search import batched
from seq2attn.search import choose as choosing
from seq2attn.search.likeliest import likeliest
from seq2attn.weights import own_weights
from tests.doctor.runs import FAMILIES, make_run


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
            blank = tuple(torch.zeros_like(cell) for cell in state.cells)
            state = dataclasses.replace(state, cells=blank)
        return plain(self, words, state, memory, **options)

    return forward


def stuck(plain):
    """A decoder that never counts the words it has read."""

    def forward(self, words, state, memory, **options):
        decoded = plain(self, words, state, memory, **options)
        return decoded._replace(state=dataclasses.replace(decoded.state, position=state.position))

    return forward


def second_best(plain):
    """A search that now and then takes the second-best word."""

    def chosen(log_probs, scores, count):
        parent, word, score = likeliest(log_probs, scores, count + 1)
        start = int(log_probs.size(0) > 1)  # in batches only, when this is 1
        return parent[:, start:][:, :count], word[:, start:][:, :count], score[:, start:][:, :count]

    return chosen


def too_proud(plain):
    """An engine that says more of its translations than reading them gives."""

    def read_out(found):
        return [
            [dataclasses.replace(one, log_prob=one.log_prob + 0.1) for one in some] for some in plain(found)
        ]

    return read_out


def unscaled(plain):
    """A kernel that forgets the square root."""
    return lambda q, *rest, **options: plain(q * 1.1, *rest, **options)


def rough(plain):
    """Additive scores that round their queries."""
    return lambda q, k, v: plain((q * 8).round() / 8, k, v)


def late_update(plain):
    """A fused step whose gate is off by a little."""
    return lambda inputs, hidden, h: plain(inputs, hidden, h) * 0.99


def too_long(plain):
    """A step that overshoots."""
    return lambda *given: tuple(1.01 * cell for cell in plain(*given))


def blunt(plain):
    """A linear layer that forgets the smallest of its inputs."""
    return lambda self, x: plain(self, x.masked_fill(x.abs() < 0.2, 0.0))


def careless(plain):
    """A linear layer that is far off in bfloat16."""
    return lambda self, x: (
        plain(self, x) * (torch.arange(self.out_features) % 3 if torch.is_autocast_enabled("cpu") else 1)
    )


def learning_otherwise(plain):
    """A linear layer that is something else where gradients are recorded."""
    return lambda self, x: plain(self, x) * (1.01 if torch.is_grad_enabled() else 1.0)


BATCH, CACHED, GREEDY, PADDED, SCORES, LEARNING, ATTENTION, RECURRENCE, LINEAR, ROUNDED, EXPORT = LAWS

PLANTED = {
    "an encoder that sees padding": (
        "transformer",
        TransformerEncoder,
        "forward",
        leaky_mean,
        [BATCH, PADDED],
    ),
    "a step that ignores its state": ("bahdanau", FedDecoder, "forward", forgetful, [CACHED, GREEDY]),
    "positions that stand still": ("transformer", TransformerDecoder, "forward", stuck, [CACHED, GREEDY]),
    "the second-best word": ("fixed", choosing, "likeliest", second_best, [BATCH, GREEDY]),
    "scores that are too high": ("fixed", batched, "read_out", too_proud, [SCORES]),
    "a kernel that scales wrongly": (
        "convolutional",
        fused_attention.F,
        "scaled_dot_product_attention",
        unscaled,
        [ATTENTION],
    ),
    "rounded additive scores": ("bahdanau", scoring, "additive_scores", rough, [ATTENTION]),
    "a fused step": ("bahdanau", late, "fused_gru", late_update, [RECURRENCE, LEARNING]),
    "a plain step": ("luong", fed, "lstm_step", too_long, [RECURRENCE]),
    "a blunt product": ("deep and shallow", LaidOut, "forward", blunt, [LINEAR]),
    "a careless bfloat16": ("transformer", Linear, "forward", careless, [ROUNDED]),
    "another product for learning": ("transformer", Linear, "forward", learning_otherwise, [LEARNING]),
}
"""For each defect a family of models, what is replaced by what, and the laws that find it."""


def failing(run, laws=LAWS):
    _, patient = admit(run, 6, None, "cpu")
    return {row.law for row in examine(patient, laws) if row.fails}


@pytest.mark.parametrize("defect", PLANTED)
def test_a_planted_defect_is_found(defect, tmp_path, monkeypatch):
    family, owner, name, plant, laws = PLANTED[defect]
    run = make_run(tmp_path, *FAMILIES[family])
    monkeypatch.setattr(owner, name, plant(getattr(owner, name)))
    assert failing(run, {law: LAWS[law] for law in laws}) == {*laws}  # which hold before: test_healthy.py


def test_a_part_that_breaks_is_told(tmp_path, monkeypatch):
    run = make_run(tmp_path, *FAMILIES["fixed"])
    monkeypatch.setattr(batched, "read_out", lambda found: 1 / 0)
    _, patient = admit(run, 6, None, "cpu")
    rows = {row.law: row for row in examine(patient)}
    assert rows[BATCH].fails and not rows[CACHED].fails
    assert rows[BATCH].note == "could not be tried: ZeroDivisionError: division by zero"


def test_an_export_of_something_else_is_found(tmp_path):
    run = make_run(tmp_path, *FAMILIES["transformer"])
    folder = run.folder / "ctranslate2"
    target = chosen_target("ctranslate2")
    with written(
        folder
    ) as partial:  # `export` would try a beam too, which in a model like this one ends by chance
        target.write(run, partial, "float32")
        write_header(run, target, "float32", {}, partial)
    law = {EXPORT: LAWS[EXPORT]}
    assert failing(run, law) == set()
    model, source, target = run.model()
    with torch.no_grad():
        model.output.weight.roll(1, 0)
        model.output.bias[7] += 9
    run.save_model(own_weights(model), (source.vocabulary, target.vocabulary), {"checkpoints": []})
    _, patient = admit(run, 6, None, "cpu")
    (stale,) = examine(patient, law)
    assert stale.found is None and "was made of other weights" in stale.why
    header = json.loads((folder / HEADER).read_text())
    (folder / HEADER).write_text(json.dumps({**header, "weights": fingerprint(run)}))
    assert failing(run, law) == {EXPORT}


def test_every_law_is_broken_once():
    found = {law for *_, laws in PLANTED.values() for law in laws}
    assert {*LAWS} - found == {EXPORT}  # above


def test_the_command_fails_with_the_row(tmp_path, monkeypatch):
    run = make_run(tmp_path, *FAMILIES["luong"])
    monkeypatch.setattr(batched, "read_out", too_proud(batched.read_out))
    done = CliRunner().invoke(app, ["doctor", str(run.folder), "--sentences", "4"], prog_name="seq2attn")
    assert (done.exit_code, done.stderr.count("Traceback")) == (1, 0)
    failed = [line for line in done.stdout.splitlines() if "FAIL" in line]
    assert len(failed) == 1 and failed[0].startswith(SCORES)


def test_what_is_no_number_is_far_off():
    one = torch.tensor([1.0, -torch.inf])
    assert apart(one, one) == 0 and math.isnan(apart(one, torch.tensor([1.0, torch.nan])))
    assert apart(one, torch.tensor([1.5, -torch.inf])) == 0.5
    assert worst([(1, 0.2), (2, math.nan), (3, 9.0)], 1).where == 2
    assert not worst([(2, math.nan)], 1).holds
    assert worst([], 1) == Found(0.0, 1)


PLUGIN = """
import torch
from seq2attn.decoders.fixed import FixedConfig, FixedDecoder
from seq2attn.encoders import Encoded


class Peeping(FixedDecoder):
    class Config(FixedConfig):
        kind: str

        def build(self, input_dim, encoder):
            return Peeping(self, input_dim, encoder.final_dim)

    def prepare(self, encoded):
        wide = encoded.final[0] + encoded.mask.size(1) / 10
        return super().prepare(Encoded(encoded.keys, encoded.values, encoded.mask, (wide,)))
"""


def test_a_strangers_decoder_that_looks_at_padding_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "peeping_parts.py").write_text(PLUGIN)
    encoder, decoder = FAMILIES["fixed"]
    run = make_run(tmp_path, encoder, {**decoder, "kind": "peeping_parts:Peeping"})
    allowed = dataclasses.replace(run, allow_code=("peeping_parts",))
    assert failing(allowed) >= {BATCH, PADDED}
