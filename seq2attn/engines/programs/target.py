"""A folder with the programs of a run: compiled for this machine, and as torch.export writes them for others.

encode.pt2 step.pt2    packages of AOTInductor: native code with its weights
output.safetensors     the output layer
programs.json          what the tensors are, and where the code runs
portable/              the same two programs by `torch.export.save`

The engine loads the compiled ones alone. They are native code, which may do anything: only those that were compiled
here are run, unless others are allowed by name. The portable ones it never reads, since `torch.export.load` trusts its
file as much without saying so: up to torch 2.13 it unpickles what the file says it has pickled, and evaluates its sizes
as Python. What we write there has nothing pickled in it.
"""

from __future__ import annotations

import platform
import sys
import time
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from seq2attn.config.base import Mistake
from seq2attn.engines.programs.known import check_known, remember
from seq2attn.engines.programs.reader import Program, ProgramReader
from seq2attn.engines.programs.trace import Traced, quiet, trace
from seq2attn.errors import RunError, UserError
from seq2attn.experiment import Experiment
from seq2attn.laid_out import lay_out_linears
from seq2attn.model import Seq2Seq
from seq2attn.run import Run
from seq2attn.text.files import read_object, write_json
from seq2attn.weights import load_tensors, put_weights, save_tensors

NAME = "programs"
HEADER, OUTPUT = "programs.json", "output.safetensors"
PARTS = "encode", "step"
OPTIONS: dict[str, Any] = {"cpp.threads": 1}
"""Else the loops between products would run on as many threads as there were when they were compiled. They are short,
and batches are searched side by side; products take as many threads as PyTorch has."""
OF_ENCODE: dict[str, Any] = {"inplace_buffers": False}
"""What a recurrence gives is not overwritten: PyTorch 2.13 would write C++ that names it twice and does not compile."""
FIX = f"export the run to {NAME} again"


class Programs:
    """Exports `encode` and `step` of any model as compiled programs."""

    name = NAME
    types = ("float32",)

    def refused(self, experiment: Experiment) -> list[Mistake]:
        """Nothing by its config: what cannot be traced is found out by tracing. Raises UserError without a compiler."""
        from torch._inductor.cpp_builder import get_cpp_compiler
        from torch._inductor.exc import InvalidCxxCompiler

        try:
            get_cpp_compiler()
        except InvalidCxxCompiler:
            raise UserError(
                f"{NAME} are compiled by a C++ compiler, and there is none; install g++ or clang++, or say by CXX"
                " where it is. None is needed where they run."
            ) from None
        return []

    def write(self, run: Run, folder: Path, type_: str) -> None:
        """Compiled and portable programs; tells how long each took to compile."""
        model, _, _ = run.model()
        traced = traced_or_refused(model)
        compile_programs(traced, folder)
        save_portable(traced, folder / "portable")
        remember(_packages(folder))

    def open(self, run: Run, folder: Path, device: torch.device) -> ProgramReader:
        """The compiled programs in our own search.

        Raises UserError on another device than they were made for, RunError when they do not fit where they are, or
        were neither compiled here nor allowed.
        """
        if device.type != "cpu":
            raise UserError(f"{NAME} are compiled for the CPU; --device cpu")
        if NAME not in run.allow_code:
            check_known(_packages(folder))
        return open_programs(folder)


def traced_or_refused(model: Seq2Seq) -> Traced:
    """The programs of a model. Raises UserError with torch's reason when a part cannot be followed."""
    try:
        return trace(model)
    except RuntimeError as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(f"torch.export cannot follow a part of this model: {reason}") from error


def compile_programs(traced: Traced, folder: Path) -> None:
    """Write the compiled programs, and what there is to know of them."""
    from torch._inductor import aoti_compile_and_package

    for name, program in zip(PARTS, (traced.encode, traced.step), strict=True):
        began, options = time.monotonic(), OPTIONS | (OF_ENCODE if name == "encode" else {})
        print(f"compiling {name} ...", end=" ", file=sys.stderr, flush=True)
        try:
            with quiet():
                aoti_compile_and_package(
                    program, package_path=str(folder / f"{name}.pt2"), inductor_configs=options
                )
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"PyTorch could not compile the program `{name}` of this model ({reason}); our own engine translates"
                " with it all the same"
            ) from None
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    save_tensors(traced.output.state_dict(), folder / OUTPUT)
    write_json(folder / HEADER, {"memories": traced.memories, "own": list(traced.own), **_here()})


def save_portable(traced: Traced, folder: Path) -> None:
    """Write the programs as torch.export does, without the example inputs, which it would pickle."""
    folder.mkdir()
    for name, program in zip(PARTS, (traced.encode, traced.step), strict=True):
        program.example_inputs = None
        torch.export.save(program, folder / f"{name}.pt2")


def open_programs(folder: Path) -> ProgramReader:
    """Load what `compile_programs` wrote. Raises RunError when something is missing or was made elsewhere."""
    header = read_object(folder / HEADER, FIX)
    for name, here in _here().items():
        if header.get(name) != here:
            raise RunError(f"{folder}: was compiled for {name} {header.get(name)}, here it is {here}; {FIX}")
    memories, own = header.get("memories"), header.get("own")
    if not isinstance(memories, int) or not isinstance(own, list):
        raise RunError(f"{folder / HEADER}: does not say what the tensors are; {FIX}")
    encode, step = map(_loaded, _packages(folder))
    return ProgramReader(
        encode, step, memories, tuple(map(bool, own)), _output(folder / OUTPUT), torch.device("cpu")
    )


@torch.inference_mode()
def _output(path: Path) -> nn.Linear:
    """The output layer, laid out for search. Raises RunError when the file holds none."""
    if not path.is_file():  # as before it was left outside of the programs
        raise RunError(f"{path}: there is no such file; {FIX}")
    tensors = load_tensors(path)
    if "weight" not in tensors or tensors["weight"].dim() != 2:
        raise RunError(f"{path}: holds no output layer; {FIX}")
    words, dim = tensors["weight"].shape
    layer = nn.Linear(dim, words, bias="bias" in tensors)
    put_weights(layer, tensors, path)
    whole = nn.Sequential(layer)
    lay_out_linears(whole)
    return cast(nn.Linear, whole[0])


def _packages(folder: Path) -> list[Path]:
    return [folder / f"{name}.pt2" for name in PARTS]


def _loaded(package: Path) -> Program:
    """A compiled program, by PyTorch's loader in C++, which knows no pickle; one may run on each thread."""
    runners = torch.get_num_threads()
    try:
        loader = torch._C._aoti.AOTIModelPackageLoader(str(package), "model", False, runners, -1)
    except RuntimeError as error:
        reason = str(error).strip().partition("\n")[0]
        raise RunError(f"{package}: cannot be loaded ({reason}); {FIX}") from None
    return loader.run


def _here() -> dict[str, Any]:
    """What compiled code depends on."""
    processor = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return {"torch": torch.__version__, "processor": processor}
