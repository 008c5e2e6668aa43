"""Scheduled sampling."""

from pydantic import Field, NonNegativeInt

from seq2attn.config.base import Config


class ScheduledSamplingConfig(Config):
    """Scheduled sampling: a share of the decoder's inputs are predictions of the model (Bengio et al. 2015).

    A first pass with the reference as input predicts all tokens at once, in training with dropout, and a second one is
    trained (Mihaylova and Martins 2019); so it suits any decoder.
    """

    max_probability: float = Field(0.25, gt=0, le=1)
    """Largest probability that a token is a prediction."""
    warmup_updates: NonNegativeInt = 4000
    """Updates in which the probability grows from 0 to its maximum, linearly."""

    def probability(self, update: int) -> float:
        """The probability at an update, counted from 1."""
        return self.max_probability * min(1.0, update / max(self.warmup_updates, 1))
