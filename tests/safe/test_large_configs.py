"""A config that is large beyond measure, in any way, is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2attn.config.load import load
from seq2attn.config.trust import OWN, Trust
from seq2attn.errors import ConfigError
from seq2attn.experiment import Experiment

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
LARGE = {
    "aliases": (BOMB, "more than any config says"),
    "merged": (BOMB.replace("[x, x, x, x, x, x, x, x, x, x]", "{x: y}"), "more than any config says"),
    "deep lists": ("a: " + "[" * 1500, "nested too deep"),
    "deep mappings": ("{a: " * 5000, "nested too deep"),
    "deep blocks": ("".join(" " * n + "a:\n" for n in range(300)), "nested too deep"),
    "aliases in a row": (
        "a0: &a0 {x: y}\n" + "".join(f"a{n}: &a{n} {{x: *a{n - 1}}}\n" for n in range(1, 300)),
        "nested too deep",
    ),
    "bytes": ("# " + "x" * 2**18, "more than the 262,144 bytes"),
    "digits": ("run: " + "1" * 5000, "is not a YAML int"),
    "hexadecimal digits": ("run: 0x" + "f" * 5000, "no number here is that large"),
    "base 60": ("run: 1" + ":1" * 5000, "no number here is that large"),
    "base 60, with a point": ("run: 1" + ":1" * 5000 + ".5", "is not a YAML float"),
    "itself": ("a: &a [*a]", "contains itself"),
    "half a character": ('run: "\\ud800"', "no text has such a character"),
    "a NUL": ('run: "a\\0b"', "no text has such a character"),
    "a NUL in a key": ('"a\\0b": 1', "no text has such a character"),
    "nobody's home": ("data: {train: {kind: tsv, path: ~nobody-here/x}}", "leads nowhere"),
}


@pytest.mark.parametrize("name", LARGE)
def test_configs_that_take_no_end(tmp_path: Path, name: str) -> None:
    content, message = LARGE[name]
    (tmp_path / "it.yaml").write_text(content, encoding="utf-8")
    for trust in (OWN, Trust()):
        with pytest.raises(ConfigError, match=message):
            load(tmp_path / "it.yaml", Experiment, trust=trust)
