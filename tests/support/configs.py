"""Configs of tests."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from seq2attn.config.base import Config
from seq2attn.config.plugin import Pluggable


class Additive(Config):
    """A layer between query and key."""

    kind: Literal["additive"]
    dim: PositiveInt = 256
    """Size of the hidden layer."""


class Scaled(Config):
    scale: float = 1.0


class Dot(Scaled):
    kind: Literal["dot", "scaled-dot"]


Score = Annotated[Additive | Dot, Field(discriminator="kind"), Pluggable("score")]
