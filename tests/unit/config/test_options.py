"""Overrides beside options that set keys of the config: each key is set once, alone or in a mapping."""

import re

import pytest

from seq2attn.config.load import with_options
from seq2attn.errors import UserError

OPTIONS = {
    "evaluation.metrics": ("metrics", ["chrf++", ""]),
    "evaluation.tokenize": ("tokenize", None),
    "seeds": ("seeds", [*range(100)]),
}


@pytest.mark.parametrize("override", ["evaluation={tokenize: 13a, lowercase: true}", "evaluation.tokenize=13a", "x=1"])
def test_an_override_of_other_keys_stays(override: str) -> None:
    seeds = ", ".join(map(str, range(100)))
    expected = [override, "evaluation.metrics=[chrf++, '']", f"seeds=[{seeds}]"]
    assert with_options([override], OPTIONS) == expected


@pytest.mark.parametrize(
    "override", ["evaluation={lowercase: true, metrics: [bleu]}", "evaluation.metrics=[bleu]", "evaluation=", "seeds=1"]
)
def test_an_override_of_the_key_of_an_option_is_an_error(override: str) -> None:
    name = "seeds" if override.startswith("seeds") else "metrics"
    message = f"``overrides={override}``: has no effect with ``{name}``"
    with pytest.raises(UserError, match=re.escape(message)):
        with_options(["model={}", override], OPTIONS)
