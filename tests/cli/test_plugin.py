"""Third-party components in a module of the working directory: `kind: my_parts:MyEncoder`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CONFIG, invoke_in, run_process, write_toy

PARTS = """
import torch
from pydantic import PositiveInt
from torch import nn

import seq2attn
from seq2attn.attention.config import AttentionConfig
from seq2attn.attention.scores import ScoreFunction
from seq2attn.decoders.base import Decoder, DecoderOutput
from seq2attn.encoders.base import Encoder, EncoderOutput


class MyEncoder(Encoder):
    class Config(seq2attn.Config):
        kind: str
        size: PositiveInt = 16

        def build(self, input_dim):
            return MyEncoder(self, input_dim)

    def __init__(self, config, input_dim):
        super().__init__()
        self.layer = nn.Linear(input_dim, config.size)
        self.key_dim = self.value_dim = self.final_dim = config.size

    def forward(self, embedded, mask):  # without self-attention, so forward_with_weights is inherited
        states = torch.tanh(self.layer(embedded))
        return EncoderOutput(states, states, mask, (states[:, :1],))


class MyScore(ScoreFunction):
    class Config(seq2attn.Config):
        kind: str
        sharpness: float = 1.0

        def build(self, query_dim, key_dim):
            return MyScore(self.sharpness, query_dim, key_dim)

    def __init__(self, sharpness, query_dim, key_dim):
        super().__init__(query_proj=nn.Linear(query_dim, key_dim))
        self.sharpness = sharpness

    def forward(self, q, k, info):
        return -self.sharpness * torch.cdist(q, k)


class MyDecoder(Decoder):
    class Config(seq2attn.Config):
        kind: str
        attention: AttentionConfig

        def build(self, input_dim, encoder):
            return MyDecoder(self, input_dim, encoder)

    def __init__(self, config, input_dim, encoder):
        super().__init__()
        self.attention = config.attention.build(input_dim, encoder.key_dim, encoder.value_dim)
        self.dim = input_dim + encoder.value_dim

    def init_state(self, encoded):
        position = encoded.mask.new_zeros(len(encoded.mask), dtype=torch.long)
        return (self.attention.project_memory(encoded.keys, encoded.values, encoded.mask),), position

    def forward(self, embedded, state, memory, *, need_weights=False):
        position = state[:, None] + torch.arange(embedded.size(1), device=embedded.device)
        output = self.attention(embedded, memory[0], position, need_weights=need_weights)
        hidden = torch.cat([embedded, output.context], -1)
        return DecoderOutput.from_attentions(hidden, state + embedded.size(1), [output])
"""

BUILT_IN = """\
  encoder: {kind: gru, dim: 32}
  decoder: {kind: luong, dim: 32}
"""
PLUGINS = """\
  encoder: {kind: my_parts:MyEncoder, size: 24}
  decoder: {kind: my_parts:MyDecoder, attention: {score: {kind: my_parts:MyScore, sharpness: 2}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    write_toy(folder, CONFIG.replace(BUILT_IN, PLUGINS))
    (folder / "my_parts.py").write_text(PARTS, encoding="utf-8")
    return folder


def test_plugins_train_and_translate(folder: Path) -> None:
    trained = invoke_in(folder, "train", "toy.yaml", "--set", "training.max_duration=[40 updates]")
    assert "validation at update 40: " in trained.err
    saved = (folder / "runs/toy/config.yaml").read_text(encoding="utf-8")
    assert "kind: my_parts:MyScore" in saved and "size: 24" in saved
    allowed = ("--allow-code", "my_parts")
    done = invoke_in(folder, "translate", "runs/toy", "rot haus", "--attention", "-", *allowed)
    assert (done.err, "weight: " in done.out) == ("", True)
    script = [str(Path(sys.executable).with_name("seq2attn")), "translate", "runs/toy", "rot haus", *allowed]
    assert run_process(folder, script).out == done.out.split("\n")[0] + "\n"


def test_options_of_plugins_are_checked(folder: Path) -> None:
    wrong = PLUGINS.replace("size: 24", "siez: 24").replace("sharpness: 2", "sharpness: very")
    (folder / "wrong.yaml").write_text(CONFIG.replace(BUILT_IN, wrong), encoding="utf-8")
    done = invoke_in(folder, "config", "check", "wrong.yaml", code=2)
    assert [line for line in done.err.splitlines() if line.startswith("wrong")] == [
        "wrong.yaml:12:39: unknown key `model.encoder.siez`; did you mean `size`?",
        "wrong.yaml:13:94: `model.decoder.attention.score.sharpness` should be a number, not 'very'",
    ]
