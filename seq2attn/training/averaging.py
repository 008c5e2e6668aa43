"""Translating with the mean of several checkpoints (Vaswani et al. 2017, section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seq2attn.errors import RunError, UserError
from seq2attn.run import Run
from seq2attn.training.checkpoint import average
from seq2attn.training.kept import best_checkpoints, validated_checkpoints
from seq2attn.training.lock import locked
from seq2attn.weights import check_vocabularies


def average_run(folder: Path, *, last: int | None, best: int | None, allow_code: Sequence[str] = ()) -> str:
    """Make the mean of the `last` or the `best` checkpoints of a run the weights that translate; says which.

    Raises UserError when not exactly one of both is given, RunError when there are not as many checkpoints.
    """
    if (last is None) == (best is None):
        raise UserError("give either --last N or --best N")
    run = Run(folder, allow_code)
    metric = run.experiment().training.validation.metric
    every = validated_checkpoints(folder)
    count = last or best or 1
    higher = metric == "bleu"
    chosen = every[-count:] if last else best_checkpoints(every, count, higher_is_better=higher)
    if len(chosen) < count:
        raise RunError(
            f"{folder}: keeps {len(chosen)} checkpoints, not {count}; see `training.checkpoints` of its config"
        )
    source, target = run.tokenizers()
    vocabularies = source.vocabulary, target.vocabulary
    for checkpoint in chosen:
        check_vocabularies(checkpoint.model, folder, vocabularies)
    names = [checkpoint.folder.name for checkpoint in chosen]
    with locked(folder):
        run.save_model(average(chosen), vocabularies, {"checkpoints": names})
    return f"{run.weights} is now the mean of {', '.join(names)}"
