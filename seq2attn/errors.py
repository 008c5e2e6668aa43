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
