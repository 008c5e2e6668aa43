"""Third-party components in a module of the working directory: `kind: my_parts:MyEncoder`."""

import json
import re
import sys
from pathlib import Path

import pytest

from seq2attn.io.weights import load_tensors
from tests.support.commands import CONFIG, Invoke, run_process, write_toy
from tests.support.plugins import PARTS

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
    resumed = "train", "toy.yaml", "--resume", "--set", "training.time_limit=0.001 seconds", "--allow-code", "my_parts"
    stopped = invoke(*resumed, "--set", "training.max_duration=[80 updates]", code=75).err.splitlines()[-1]
    assert stopped.endswith("--allow-code=my_parts --resume")
    saved = (tmp_path / "runs/toy/config.yaml").read_text(encoding="utf-8")
    assert "kind: my_parts:MyDecoder" in saved and "size: 24" in saved
    allowed = ("--allow-code", "my_parts")
    done = invoke("translate", "runs/toy", "rot haus", "--attention", "-", *allowed)
    assert (done.err, "weight: " in done.out) == ("", True)
    script = [str(Path(sys.executable).with_name("seq2attn")), "translate", "runs/toy", "rot haus", *allowed]
    assert run_process(tmp_path, script).out == done.out.split("\n")[0] + "\n"


FAULTS = (
    PARTS
    + """

class WithStatistics(MyEncoder):
    class Config(MyEncoder.Config):
        def build(self, input_dim):
            return WithStatistics(self, input_dim)

    def __init__(self, config, input_dim):
        super().__init__(config, input_dim)
        self.norm = nn.BatchNorm1d(config.size)

    def forward(self, embedded, sequences, *, need_weights=False):
        states = self.norm(torch.tanh(self.layer(embedded)).transpose(1, 2)).transpose(1, 2)
        return EncoderOutput(states, states, sequences.mask, (states[:, :1],))


class EverySecond(MyEncoder):
    class Config(MyEncoder.Config):
        def build(self, input_dim):
            return EverySecond(self, input_dim)

    def forward(self, embedded, sequences, *, need_weights=False):
        states = super().forward(embedded, sequences).keys[:, ::2]
        return EncoderOutput(states, states, sequences.mask[:, ::2], (states[:, :1],))


class ListState(MyDecoder):
    class Config(MyDecoder.Config):
        def build(self, input_dim, encoder):
            return ListState(self, input_dim, encoder)

    def init_state(self, encoded):
        memory, position = super().init_state(encoded)
        return memory, [position]

    def forward(self, embedded, state, memory, *, need_weights=False):
        output = super().forward(embedded, state[0], memory, need_weights=need_weights)
        return output._replace(state=[output.state])
"""
)


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A config with plug-ins of its own, whose parts are replaced by options."""
    monkeypatch.chdir(tmp_path)
    write_toy(tmp_path, CONFIG.replace(BUILT_IN, PLUGINS.replace("my_parts", "my_faults")))
    (tmp_path / "my_faults.py").write_text(FAULTS, encoding="utf-8")
    return "--set=training.max_duration=[3 updates]"


def test_the_check_of_the_memory_changes_no_buffers(tmp_path: Path, invoke: Invoke, faults: str) -> None:
    invoke("train", "toy.yaml", faults, "--set=model.encoder={kind: 'my_faults:WithStatistics'}")
    assert load_tensors(tmp_path / "runs/toy/model.safetensors")["encoder.norm.num_batches_tracked"] == 3


def test_attention_weights_need_a_state_for_each_token(invoke: Invoke, faults: str) -> None:
    invoke("train", "toy.yaml", faults, "--set=model.encoder={kind: 'my_faults:EverySecond'}")
    translate = ("translate", "runs/toy", "rot haus", "--allow-code", "my_faults")
    assert invoke(*translate).out.count("\n") == 1
    message = r"need one state of the encoder for each source token, not \d states for \d source tokens"
    for options in (["--attention", "-"], ["--beam", "2", "--set", "search.coverage_penalty=0.2"]):
        assert re.search(message, invoke(*translate, *options, code=2).err)


@pytest.mark.parametrize("command", ["config check", "train"])
def test_parts_that_do_not_fit_a_plug_in_are_found_before_the_text_is_read(
    tmp_path: Path, invoke: Invoke, faults: str, command: str
) -> None:
    done = invoke(*command.split(), "toy.yaml", "--set=model.embeddings.tie=output", code=2)
    assert "<command line>:1:22: `model.embeddings.tie`: the decoder is 56 wide, not 32\n" in done.err
    assert not (tmp_path / "runs").exists()


def test_a_state_that_search_cannot_reorder_is_found_before_training(
    tmp_path: Path, invoke: Invoke, faults: str
) -> None:
    decoder = "--set=model.decoder={kind: 'my_faults:ListState', attention: {score: {kind: additive}}}"
    assert "epoch" not in invoke("train", "toy.yaml", faults, decoder, code=1).err
    assert not (tmp_path / "runs/toy/checkpoints").exists()


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
