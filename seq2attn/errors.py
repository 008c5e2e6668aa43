"""Exceptions shown to the user without a traceback: exit code 2."""


class UserError(Exception):
    """An error that the user can correct. The message has what is wrong, the place, what was expected, and the fix."""


class ConfigError(UserError):
    """One or more errors in a config, each with its place."""


class DataError(UserError):
    """Text that cannot be used. The message names the file and, where there is one, the line."""


class RunError(UserError):
    """A run directory that is missing, incomplete or inconsistent."""


class CorruptFileError(RunError):
    """A file whose content is not what was written to it."""


class TrainingInterrupted(Exception):  # noqa: N818  # not an error
    """The end of a training on request, between two updates and with a saved checkpoint."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code
