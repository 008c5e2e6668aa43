"""What programs are not made of, and where they do not run."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor_config
from torch._inductor.utils import fresh_cache

from seq2attn.engines.export import export_run
from seq2attn.engines.programs import Programs
from seq2attn.engines.programs import target as programs
from seq2attn.engines.programs.reader import ProgramReader
from seq2attn.errors import RunError, UserError
from seq2attn.model import Seq2Seq
from seq2attn.run import Run
from seq2attn.state import go_on_from, map_tensors, repeat_rows, select_rows, select_sentences
from seq2attn.weights import save_tensors
from tests.laws.parts import model
from tests.laws.test_programs import interpreted
from tests.unit.test_export import CONFIG, made

CPU = torch.device("cpu")
FIXED = CONFIG[: CONFIG.index("  encoder:")] + (
    "  encoder: {kind: convolutional, dim: 16, layers: 1}\n"
    "  decoder: {kind: fixed, dim: 16}\n"
    "search: {kind: beam, width: 3, lengths: {max_length: 9}}\n"
)


class Looking(nn.Module):
    """A part that decides by what its input holds: no program can."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [*] -> [*]"""
        return x if x.sum().item() > 0 else -x


class Counting(nn.Module):
    """A part that makes a plain number of a size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [N, D] -> [N, D]"""
        return x * len(x)


@pytest.mark.parametrize(
    ("part", "reason"), [(Looking(), "data-dependent|Could not"), (Counting(), "a size is fixed")]
)
def test_what_cannot_be_followed_says_why(part: nn.Module, reason: str) -> None:
    net = model("convolutional", "fixed-gru")
    net.decoder.mix = nn.Sequential(net.decoder.mix, part)
    with pytest.raises(UserError, match=f"torch.export cannot follow a part of this model: .*({reason})"):
        programs.traced_or_refused(net)


def header(folder: Path, **changed: str) -> Path:
    folder.mkdir()
    here = programs._here()
    (folder / "programs.json").write_text(json.dumps({"memories": 3, "own": [True], **here, **changed}))
    return folder


def test_programs_of_another_torch_or_processor_do_not_run(tmp_path: Path) -> None:
    for name, other in (("torch", "2.0.0"), ("processor", "abacus")):
        with pytest.raises(RunError, match=f"was compiled for {name} {other}, here it is .* export the run"):
            programs.open_programs(header(tmp_path / name, **{name: other}))


def test_torn_packages_are_told(tmp_path: Path) -> None:
    folder = header(tmp_path / "torn")
    for content in (b"", b"no archive"):
        (folder / "encode.pt2").write_bytes(content)
        with pytest.raises(
            RunError, match=r"encode\.pt2: cannot be loaded .* export the run to programs again"
        ):
            programs.open_programs(folder)


def test_programs_without_their_output_layer_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "output.safetensors"
    with pytest.raises(RunError, match="there is no such file; export the run to programs again"):
        programs._output(path)
    for tensors in ({"bias": torch.ones(3)}, {"weight": torch.ones(3)}):
        save_tensors(tensors, path)
        with pytest.raises(RunError, match="holds no output layer; export the run to programs again"):
            programs._output(path)
    save_tensors({"weight": torch.ones(3, 2), "bias": torch.ones(4)}, path)
    with pytest.raises(RunError, match="`bias` is"):
        programs._output(path)


def test_there_must_be_a_compiler_and_no_card(tmp_path: Path) -> None:
    run = made(tmp_path)
    with pytest.raises(UserError, match="compiled for the CPU; --device cpu"):
        Programs().open(run, tmp_path, torch.device("cuda"))
    without = inductor_config.patch({"cpp.cxx": ("no-such-compiler",)})
    with without, pytest.raises(UserError, match=r"by a C\+\+ compiler, and there is none"):
        export_run(run, Programs(), tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_what_the_compiler_cannot_is_no_traceback(tmp_path: Path) -> None:
    traced = programs.trace(model("convolutional", "fixed-gru").float())
    without = inductor_config.patch({"cpp.cxx": ("no-such-compiler",)})
    refused = pytest.raises(UserError, match="could not compile the program `encode` of this model")
    with without, fresh_cache(), refused:
        programs.compile_programs(traced, tmp_path)


class Uncompiled(Programs):
    """The target without its slow part."""

    def write(self, run: Run, folder: Path, type_: str) -> None:
        """Only what is portable."""
        self.traced = programs.traced_or_refused(self.to_trace(run))
        programs.save_portable(self.traced, folder / "portable")

    def to_trace(self, run: Run) -> Seq2Seq:
        """The run's own model."""
        return run.model()[0]

    def open(self, run: Run, folder: Path, device: torch.device) -> ProgramReader:
        """What was traced."""
        return interpreted(self.traced)


class Spoilt(Uncompiled):
    """A conversion with a mistake: it leaves the output's bias out."""

    def to_trace(self, run: Run) -> Seq2Seq:
        """Weights that differ from the run's in one vector."""
        net = super().to_trace(run)
        with torch.no_grad():
            net.output.bias.zero_()
        return net


def test_an_export_is_tried_on_both_sides_and_holds_no_pickle(tmp_path: Path) -> None:
    run = made(tmp_path, FIXED)
    with pytest.raises(UserError, match="programs does not translate as the run does"):
        export_run(run, Spoilt(), tmp_path / "exported")
    assert not (tmp_path / "exported").exists()
    found = export_run(run, Uncompiled(), tmp_path / "exported")
    assert found.tokens == 1.0 and found.forced is not None and found.forced.largest < 1e-3
    for part in programs.PARTS:
        with zipfile.ZipFile(tmp_path / "exported" / "portable" / f"{part}.pt2") as archive:
            content = {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}
        payloads = [json.loads(text)["config"] for name, text in content.items() if "_config.json" in name]
        pickled = [payload["use_pickle"] for config in payloads for payload in config.values()]
        assert len(pickled) > 4 and not any(pickled)
        assert [text for name, text in content.items() if "sample_inputs" in name] == [b""]


def test_a_state_of_tensors_is_reordered_as_the_model_s_own() -> None:
    net = model("convolutional", "transformer", "multi-head").float()
    reader = interpreted(programs.trace(net))
    source, mask = torch.full((3, 4), 5), torch.ones(3, 4, dtype=torch.bool)
    parent = torch.tensor([[1, 0], [1, 1], [0, 1]])
    with torch.no_grad():
        sides = []
        for side in (net, reader):
            memory, state = side.encode(source, mask)
            _, state = side.step(torch.tensor([3, 4, 5, 6, 7, 8]), repeat_rows(state, 2), memory)
            state = go_on_from(state, parent)
            state = select_sentences(state, torch.tensor([0, 2]), 2)
            memory = select_rows(memory, torch.tensor([0, 2]))
            scores, state = side.step(torch.tensor([9, 3, 4, 5]), state, memory)
            alone = select_rows(state, torch.tensor([3, 0]))
            each = select_rows(memory, torch.tensor([1, 0]))
            sides.append((scores, side.step(torch.tensor([6, 7]), map_tensors(torch.clone, alone), each)[0]))
    for ours, theirs in zip(*sides, strict=True):
        torch.testing.assert_close(theirs, ours)
