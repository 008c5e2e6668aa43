"""What is done about updates that cannot be used."""

from __future__ import annotations

from pydantic import NonNegativeInt, PositiveInt

from seq2attn.config.base import Config


class DivergenceConfig(Config):
    """What happens when a loss or gradient is no finite number, or the loss of a word so large (700 nats) that its
    perplexity is none. The weights never learn from it."""

    in_a_row: PositiveInt = 5
    """After so many updates in a row that could not be used, training goes back to its last checkpoint, with half the
    learning rate."""
    returns: NonNegativeInt = 3
    """How often it goes back in all; the next time it stops, and tells from which sentences."""
