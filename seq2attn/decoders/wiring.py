"""Where attention enters a recurrent decoder, apart from how it scores and aligns.

| | Bahdanau et al. 2015 | Luong et al. 2015 |
|---|---|---|
| who asks | the state before the word | the state after it |
| where the context goes | into the cell and into the output | into the attentional vector |
| what is fed back | nothing | the attentional vector (section 3.3) |
| what the output sees | state, context and word | state and context |
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from seq2attn.config.base import Config, FieldError, FieldErrors


class AttentionWiringConfig(Config):
    """Who asks, where the context goes, and what is fed back."""

    query: Literal["previous", "current"]
    """Whether the state before a word asks, or the state after it."""
    context: tuple[Literal["cell", "output"], ...] = Field(("output",), min_length=1)
    """cell: the cell is given the context beside the word, that of the word before if the current state asks; output:
    the vector that words are guessed from is made with it."""
    input_feeding: bool = False
    """Give the cell the last attentional vector beside the word."""
    word_to_output: bool = False
    """Make the vector that words are guessed from with the word just read as well."""

    @model_validator(mode="after")
    def _context_counts_once(self) -> AttentionWiringConfig:
        if len(set(self.context)) < len(self.context):
            raise FieldErrors([FieldError("context", "names a place twice")])
        return self

    @property
    def needs_sequential_steps(self) -> bool:
        """Whether a cell must wait for what the attention of this or the last step gave."""
        return self.input_feeding or "cell" in self.context


BAHDANAU_WIRING = AttentionWiringConfig(query="previous", context=("cell", "output"), word_to_output=True)
"""Section 3.1 and A.2.2, with a tanh layer in the place of the maxout."""

LUONG_WIRING = AttentionWiringConfig(query="current", context=("output",), input_feeding=True)
"""Section 3 and eq. 5."""
