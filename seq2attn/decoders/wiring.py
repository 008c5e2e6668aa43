"""Wiring of the attention into a recurrent decoder.

| | Bahdanau et al. 2015 | Luong et al. 2015 |
|---|---|---|
| query | the previous state | the current state |
| use of the context | RNN input and readout | readout (attentional vector) |
| input feeding | no | yes (section 3.3) |
| inputs of the readout | state, context and embedded token | state and context |
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from seq2attn.config.base import Config, FieldError


def _check_context(context: tuple[str, ...]) -> list[FieldError]:
    return [FieldError("context", "names a place twice")] if len(set(context)) < len(context) else []


class AttentionWiringConfig(Config):
    """Query state, use of the context vector, and input feeding."""

    rules = (_check_context,)

    query: Literal["previous", "current"]
    """State that queries the attention: of the step before, or of this step."""
    context: tuple[Literal["cell", "output"], ...] = Field(("output",), min_length=1)
    """cell: the context is an input of the RNN (of the step before if `query` is current); output: of the readout."""
    input_feeding: bool = False
    """Feed the last attentional vector to the RNN."""
    word_to_output: bool = False
    """Use the embedded input token in the readout as well."""

    @property
    def needs_sequential_steps(self) -> bool:
        """True if the RNN depends on the attention, so that steps cannot be computed in one call."""
        return self.input_feeding or "cell" in self.context


BAHDANAU_WIRING = AttentionWiringConfig(query="previous", context=("cell", "output"), word_to_output=True)
"""Section 3.1 and A.2.2, with a tanh layer instead of maxout."""

LUONG_WIRING = AttentionWiringConfig(query="current", context=("output",), input_feeding=True)
"""Section 3 and eq. 5."""
