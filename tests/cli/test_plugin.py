"""Third-party components in a module of the working directory: `kind: my_parts:MyEncoder`."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CONFIG, Invoke, run_process, write_toy

PARTS = """
import torch
from pydantic import PositiveInt
from torch import nn

import seq2attn
from seq2attn.attention.config import AttentionConfig
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
  decoder: {kind: my_parts:MyDecoder, attention: {score: {kind: additive}}}
"""


def test_plugins_train_and_translate(tmp_path: Path, invoke: Invoke) -> None:
    write_toy(tmp_path, CONFIG.replace(BUILT_IN, PLUGINS))
    (tmp_path / "my_parts.py").write_text(PARTS, encoding="utf-8")
    trained = invoke("train", "toy.yaml", "--set", "training.max_duration=[40 updates]")
    assert "validation at update 40: " in trained.err
    saved = (tmp_path / "runs/toy/config.yaml").read_text(encoding="utf-8")
    assert "kind: my_parts:MyDecoder" in saved and "size: 24" in saved
    allowed = ("--allow-code", "my_parts")
    done = invoke("translate", "runs/toy", "rot haus", "--attention", "-", *allowed)
    assert (done.err, "weight: " in done.out) == ("", True)
    script = [str(Path(sys.executable).with_name("seq2attn")), "translate", "runs/toy", "rot haus", *allowed]
    assert run_process(tmp_path, script).out == done.out.split("\n")[0] + "\n"


RECIPE = """\
title: My parts
paper: A paper
base: toy.yaml
folder: runs/mine
changes: {training: {max_duration: [2 updates], validation: {every: 2 updates}}, search: {kind: greedy}}
axes: {model: {choices: {mine: {}}}}
seeds: [1]
baseline: {model: mine}
published_in: table 1
published: {mine: {mixed: 30}}
deviations: [There is no paper.]
figures: [alignments]
"""


@pytest.mark.slow
def test_plugins_are_reproduced_with_figures(tmp_path: Path, invoke: Invoke) -> None:
    """The module has another name than in the test above, which allows its code for the whole process."""
    write_toy(tmp_path, CONFIG.replace(BUILT_IN, PLUGINS.replace("my_parts", "my_other_parts")))
    (tmp_path / "my_other_parts.py").write_text(PARTS, encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    invoke("reproduce", "recipe.yaml")
    report = json.loads((tmp_path / "runs/mine/report.json").read_text(encoding="utf-8"))
    assert [*report["figures"]] == [f"Alignment {number}, mine seed 1" for number in (1, 2, 3, 4)]
