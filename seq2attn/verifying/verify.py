"""Training straight, training with interruptions, and comparing."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import torch

from seq2attn.config.duration import Amount
from seq2attn.config.plugin import modules_in
from seq2attn.config.show import dump
from seq2attn.data.prepare import prepare
from seq2attn.data.read import AlignedConfig, read_pairs
from seq2attn.errors import RunError
from seq2attn.experiment import Experiment
from seq2attn.run import Run
from seq2attn.text.files import write_bytes
from seq2attn.training.checkpoint import list_checkpoints
from seq2attn.verifying.compared import Compared, compare
from seq2attn.verifying.sittings import interruptions, sit, updates_reported

DEV = 16
"""Pairs of the dev set that are translated in a validation, which is to be short."""
VALIDATIONS = 4
REPORT = 4
"""Updates between two reports, so that most interruptions come between them."""

Log = Callable[[str], None]


@contextmanager
def home(folder: Path | None) -> Iterator[Path]:
    """Where to train: a folder that is kept, or one that is removed in the end.

    Raises: RunError when there is something in it.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="seq2attn-") as temporary:
            yield Path(temporary).resolve()
        return
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise RunError(f"{folder}: is not empty; give another --folder")
    yield folder.resolve()


def verify_resume(
    experiment: Experiment, folder: Path, log: Log, *, updates: int, times: int, seed: int
) -> list[Compared]:
    """Train in `folder`, straight and with so many interruptions, and compare all that both left behind.

    Raises: UserError when the config or its text cannot be trained with.
    """
    straight, broken = folder / "straight", folder / "interrupted"
    short = _shortened(experiment, folder, updates)
    prepare(short.data, short.text, straight, log)
    shutil.copytree(straight, broken)
    started = time.monotonic()
    sit(_written(short, folder, straight), straight)
    log(f"{updates} updates without interruption: {time.monotonic() - started:.0f} s")
    learning = list_checkpoints(straight)[-1].state.seconds / updates
    run = Run(straight, modules_in(short))
    batch = run.experiment().training.batch  # with the tokens that fitted
    short = short.model_copy(update={"training": short.training.model_copy(update={"batch": batch})})
    config = _written(short, folder, broken)
    for interruption in interruptions(times, updates, learning, seed):
        if sit(config, broken, interruption) == 0:
            break  # it was over before
        log(f"{interruption.how} after update {updates_reported(broken)}, and on")
    sit(config, broken)
    return compare(run, Run(broken, run.allow_code))


def relies_on(threads: int) -> str:
    """What has to be the same for two trainings to be the same, as far as this machine is concerned."""
    if torch.cuda.is_available():
        return (
            f"on {torch.cuda.get_device_name()}, with `training.deterministic`: kernels that always add up in the same"
            " order; it holds for the same card, driver and PyTorch, and as many processes"
        )
    return f"on a CPU with {threads} thread{'s' * (threads > 1)}; it holds for the same processor, threads and PyTorch"


def _shortened(experiment: Experiment, folder: Path, updates: int) -> Experiment:
    """The same training, but for how long it is, how often it reports, and how many sentences it is tried on."""
    for side, name in enumerate(("source", "target")):
        lines = [pair[side] for pair in islice(read_pairs(experiment.data.dev), DEV)]
        write_bytes(folder / f"dev.{name}", "".join(line + "\n" for line in lines).encode())
    dev = AlignedConfig(source=folder / "dev.source", target=folder / "dev.target")
    data = experiment.data.model_copy(update={"dev": dev, "test": {}})
    training = experiment.training
    every = Amount(max(1, updates // VALIDATIONS), "updates")
    training = training.model_copy(
        update={
            "until": (Amount(updates, "updates"),),
            "stop_after": None,
            "report_every": REPORT,
            "tensorboard": False,
            "deterministic": True,
            "validation": training.validation.model_copy(update={"every": every}),
            "checkpoints": training.checkpoints.model_copy(update={"keep_last": updates}),
        }
    )
    return experiment.model_copy(update={"data": data, "training": training})


def _written(experiment: Experiment, folder: Path, run: Path) -> Path:
    path = folder / f"{run.name}.yaml"
    write_bytes(path, dump(experiment.model_copy(update={"run": run})).encode())
    return path
