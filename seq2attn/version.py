"""The version of the package, read from its installation."""

import importlib.metadata

try:
    __version__ = importlib.metadata.version("seq2attn")
except importlib.metadata.PackageNotFoundError:  # of a copy that was not installed
    __version__ = "0+unknown"
