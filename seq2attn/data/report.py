"""What the text of a run is like: counted while it was prepared, kept beside the model that learnt from it.

data-report.json    all of it; translating compares its input with it
data-report.txt     the same for people
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from seq2attn.data.filter import FilterReport
from seq2attn.data.spread import Spread
from seq2attn.errors import RunError
from seq2attn.formats import DATA_REPORT, format_of
from seq2attn.text.files import read_object, write_json
from seq2attn.text.manner import Manner

JSON, TEXT = "data-report.json", "data-report.txt"
FIX = "remove it, and input is translated without being compared with what was learnt from"


@dataclass(frozen=True)
class Found:
    """In how many lines something was found, and the numbers of the first of them, counted from 1."""

    lines: int = 0
    first: tuple[int, ...] = ()


@dataclass(frozen=True)
class SideReport:
    """One side of some pairs."""

    tokens: Spread
    characters: Spread
    all_tokens: int
    unknown: int  # of all tokens
    empty: int  # lines of nothing but spaces
    script: str | None  # of most letters
    other_script: Found  # most letters of the line are of another
    control: Found  # a control character
    replaced: Found  # U+FFFD, where something could not be decoded once
    garbled: Found  # UTF-8 that was read as Latin-1
    case_matters: bool  # whether the tokeniser tells capitals from small letters
    manner: Manner
    letters: Mapping[str, int]  # the most frequent ones

    @property
    def unknown_rate(self) -> float:
        """The share of tokens that are `<unk>`."""
        return self.unknown / max(self.all_tokens, 1)


@dataclass(frozen=True)
class PairsReport:
    """A corpus as it was read, before anything was left out."""

    pairs: int
    source: SideReport
    target: SideReport
    ratio: Spread  # target tokens for each source token
    one_sided: Found  # one side is empty, the other is not
    duplicates: int  # pairs that came before
    identical: Found  # both sides are the same text, with letters
    swapped: Found  # each side is in the script of the other
    learnt_pairs: int | None = None  # how many are among the training pairs; None: that is not known
    learnt_sources: int | None = None

    @property
    def sides(self) -> tuple[tuple[str, SideReport], ...]:
        """Both sides with their names."""
        return ("source", self.source), ("target", self.target)


@dataclass(frozen=True)
class DataReport:
    """All corpora of a run."""

    filters: FilterReport
    longest_kept: tuple[int, int]  # tokens of the longest source and target that are learnt from
    train: PairsReport
    dev: PairsReport
    tests: Mapping[str, PairsReport]
    tests_from: str  # what tells whether the files of the test sets are still the same

    @property
    def measured(self) -> dict[str, PairsReport]:
        """What models are measured on."""
        return {"dev": self.dev, **self.tests}

    def with_tests(self, tests: Mapping[str, PairsReport], tests_from: str) -> Self:
        """The same with other test sets."""
        return replace(self, tests=tests, tests_from=tests_from)

    def save(self, folder: Path) -> None:
        """Write what `load` reads."""
        write_json(folder / JSON, {"format": DATA_REPORT, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> DataReport | None:
        """What `save` wrote; None for a run from before there were reports.

        Raises: RunError for a file that is not what was written.
        """
        path = folder / JSON
        if not path.exists():
            return None
        content = read_object(path, FIX)
        format_of(content, DATA_REPORT, path, FIX)
        try:
            return TypeAdapter(DataReport).validate_python(content)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise RunError(f"{path}: is no report on data, or was damaged (at `{where}`); {FIX}") from None
