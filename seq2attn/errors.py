"""Mistakes of a user: shown without a traceback, exit code 2."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend. The message says what is wrong, where, what was expected, and the likely fix."""


class ConfigError(UserError):
    """One or more mistakes in a config, each with its place."""


class DataError(UserError):
    """Text that cannot be used; the message names the file and, where there is one, the line."""


class RunError(UserError):
    """A run directory that is missing, incomplete, or does not fit together."""


class CorruptFileError(RunError):
    """A file that does not hold what was written to it."""


class TrainingInterrupted(Exception):  # noqa: N818  # nothing went wrong
    """A training that was asked to stop between two updates, and has saved where it stands."""

    def __init__(self, why: str, code: int) -> None:
        super().__init__(why)
        self.exit_code = code
