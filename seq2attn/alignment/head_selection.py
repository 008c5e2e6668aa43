"""Which attention of a model its links are taken from, and how a run remembers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from pydantic import PositiveInt, TypeAdapter, ValidationError

from seq2attn.alignment.alignment_error import Agreement
from seq2attn.alignment.word_attention import READING, SAYING, Weights, links
from seq2attn.data.word_alignment import Alignment, Link
from seq2attn.errors import RunError
from seq2attn.io.files import read_object, write_json
from seq2attn.run_directory import Run
from seq2attn.training.guided_alignment import GuidedConfig

FILE = "alignment.json"
FIX = "choose again with `seq2attn align RUN --choose`"


@dataclass(frozen=True)
class Head:
    """One head of one layer, or the mean of a layer's heads, at one of the two steps that know a target word."""

    layer: PositiveInt  # from 1, the lowest
    head: PositiveInt | Literal["mean"]  # from 1
    step: Literal["saying", "reading"] = "saying"

    def of(self, weights: Weights) -> Weights:
        """[2, L, H, T, S] -> [T, S]"""
        layer = weights[SAYING if self.step == "saying" else READING, self.layer - 1]
        return cast("Weights", layer.mean(0) if self.head == "mean" else layer[self.head - 1])

    def links(self, weights: Weights | None) -> list[Link]:
        """The links of a pair; none where it has no weights."""
        return [] if weights is None else links(self.of(weights))

    def fits(self, weights: Weights) -> bool:
        """Whether these weights have such a head."""
        _, layers, heads, *_ = weights.shape
        return self.layer <= layers and (self.head == "mean" or self.head <= heads)

    def __str__(self) -> str:
        head = "the mean of the heads" if self.head == "mean" else f"head {self.head}"
        return f"{head} of layer {self.layer}, {self.step} the word"


def every_head(weights: Weights) -> list[Head]:
    """All that links may be taken from, of [2, L, H, T, S]."""
    _, layers, heads, *_ = weights.shape
    names: list[int | Literal["mean"]] = [*range(1, heads + 1), *(["mean"] if heads > 1 else [])]  # type: ignore[list-item]
    steps: tuple[Literal["saying", "reading"], ...] = ("saying", "reading")
    return [Head(layer, name, step) for layer in range(1, layers + 1) for name in names for step in steps]


def usual_head(weights: Weights, guided: GuidedConfig | None) -> Head:
    """What links are taken from when nothing was chosen: the guided head, else the mean of the top layer's."""
    _, layers, heads, *_ = weights.shape
    if guided is not None:
        return Head(guided.layer_of(layers), guided.head)
    return Head(layers, "mean" if heads > 1 else 1)


def compare(pairs: Iterable[tuple[Weights | None, Alignment]]) -> dict[Head, Agreement]:
    """How every head agrees with the gold alignments of some pairs, best first; of equals the lowest.

    Empty where the model has no attention.
    """
    found, missed = dict[Head, Agreement](), Agreement()
    for weights, gold in pairs:
        if weights is None:
            missed += Agreement.of([], gold)
            continue
        for head in found or every_head(weights):
            found[head] = found.get(head, Agreement()) + Agreement.of(head.links(weights), gold)
    return dict(
        sorted(((head, own + missed) for head, own in found.items()), key=lambda item: item[1].error_rate)
    )


def record(run: Run, compared: Mapping[Head, Agreement]) -> None:
    """Make the first the head that the links of a run are taken from."""
    best, agreement = next(iter(compared.items()))
    tried = [asdict(head) | _numbers(own) for head, own in compared.items()]
    content = {
        **asdict(best),
        **_numbers(agreement),
        "model": run.origin(),
        "tried": tried,
    }
    write_json(run.folder / FILE, content)


def recorded(run: Run) -> tuple[Head, bool] | None:
    """The head chosen for a run, and whether it was for the weights it has now; None where none was chosen.

    Raises: RunError for a record that cannot be read.
    """
    path = run.folder / FILE
    if not path.is_file():
        return None
    content = read_object(path, FIX)
    values: dict[str, Any] = {key: content.get(key) for key in ("layer", "head", "step")}
    try:
        head = TypeAdapter(Head).validate_python(values)
    except ValidationError:
        raise RunError(f"{path}: names no layer, head and step; {FIX}") from None
    return head, content.get("model") == run.origin()


def _numbers(agreement: Agreement) -> dict[str, float]:
    return {
        "precision": agreement.precision,
        "recall": agreement.recall,
        "error_rate": agreement.error_rate,
    }
