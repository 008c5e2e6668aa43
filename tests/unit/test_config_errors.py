"""What a user reads when a config is wrong: every kind of mistake, word by word."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Annotated, Literal

import pytest
from pydantic import Field, PositiveInt, field_validator, model_validator

from seq2attn.config.base import Config, InputPath, Mistake, Mistakes
from seq2attn.config.load import load
from seq2attn.config.plugin import Pluggable
from seq2attn.errors import ConfigError


class Additive(Config):
    kind: Literal["additive"]
    dim: PositiveInt = 256


class Dot(Config):
    kind: Literal["dot"]
    scaled: bool = False


Score = Annotated[Additive | Dot, Field(discriminator="kind"), Pluggable("score")]


class Recurrent(Config):
    kind: Literal["luong", "bahdanau"]
    cell: Literal["gru", "lstm"] = "gru"
    dim: PositiveInt = 512
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    score: Score = Dot(kind="dot")


class Transformer(Config):
    kind: Literal["transformer"]
    dim: PositiveInt = 512
    heads: PositiveInt = 8

    @model_validator(mode="after")
    def _heads_divide_dim(self) -> Transformer:
        if self.dim % self.heads:
            raise Mistakes([Mistake("heads", f"{self.heads} heads do not divide dim {self.dim}")])
        return self


Decoder = Annotated[Recurrent | Transformer, Field(discriminator="kind"), Pluggable("decoder")]


class Data(Config):
    train: InputPath | list[InputPath]
    languages: tuple[str, str] = ("de", "en")
    weights: dict[str, PositiveInt] = Field(default_factory=dict)
    limit: PositiveInt | Literal["none"] = "none"
    note: str = ""

    @field_validator("note")
    @classmethod
    def _note(cls, note: str) -> str:
        if "!" in note:
            raise ValueError("no shouting")
        return note


def _languages_differ(data: Data) -> list[Mistake]:
    source, target = data.languages
    return [Mistake("data.languages", "source and target are the same")] if source == target else []


def _weights_need_recurrence(data: Data, decoder: Decoder) -> list[Mistake]:
    recurrent = decoder.kind != "transformer"
    return [] if recurrent or not data.weights else [Mistake("data.weights", "needs a recurrent decoder")]


class Root(Config):
    rules = (_languages_differ, _weights_need_recurrence)

    decoder: Decoder
    data: Data = Data(train=Path("train.txt"))
    scores: list[Score] = Field(default_factory=list)


MISTAKES = {
    "unknown key": ("decoder:\n  kind: luong\n  score:\n    kind: dot\n    scale: true\n", """\
        FILE:5:5: unknown key `decoder.score.scale`; did you mean `scaled`?
          |
        5 |     scale: true
          |     ^^^^^"""),
    "unknown key, nothing near": ("decoder: {kind: luong}\nzzz: 1\n", """\
        FILE:2:1: unknown key `zzz`; known: decoder, data, scores
          |
        2 | zzz: 1
          | ^^^"""),
    "missing key": ("decoder: {kind: luong}\ndata:\n  note: x\n", """\
        FILE:2:1: `data.train` is missing
          |
        2 | data:
          | ^^^^"""),
    "missing key of the root": ("scores: []\n", """\
        FILE:1:1: `decoder` is missing
          |
        1 | scores: []
          | ^^^^^^^^^^"""),
    "wrong literal": ("decoder:\n  kind: luong\n  cell: lstn\n", """\
        FILE:3:9: `decoder.cell` should be 'gru' or 'lstm', not 'lstn'; did you mean `lstm`?
          |
        3 |   cell: lstn
          |         ^^^^"""),
    "wrong type": ("decoder: {kind: luong, dim: wide}\n", """\
        FILE:1:29: `decoder.dim` should be a whole number, not 'wide'
          |
        1 | decoder: {kind: luong, dim: wide}
          |                             ^^^^"""),
    "fraction": ("decoder: {kind: luong, dim: 2.5}\n", """\
        FILE:1:29: `decoder.dim` should be a whole number, not 2.5
          |
        1 | decoder: {kind: luong, dim: 2.5}
          |                             ^^^"""),
    "exponent": ("decoder: {kind: luong, dim: 1e3}\n", """\
        FILE:1:29: `decoder.dim` should be a whole number, not '1e3'; write 1000
          |
        1 | decoder: {kind: luong, dim: 1e3}
          |                             ^^^"""),
    "nothing": ("decoder:\n  kind: luong\n  dim:\n", """\
        FILE:3:7: `decoder.dim` should be a whole number, not nothing
          |
        3 |   dim:
          |       ^"""),
    "mapping for a number": ("decoder:\n  kind: luong\n  dim:\n    is: 3\n", """\
        FILE:3:3: `decoder.dim` should be a whole number, not a mapping
          |
        3 |   dim:
          |   ^^^"""),
    "below a bound": ("decoder: {kind: luong, dim: 0}\n", """\
        FILE:1:29: `decoder.dim` should be greater than 0, not 0
          |
        1 | decoder: {kind: luong, dim: 0}
          |                             ^"""),
    "above a bound": ("decoder: {kind: luong, dropout: 1.5}\n", """\
        FILE:1:33: `decoder.dropout` should be less than 1, not 1.5
          |
        1 | decoder: {kind: luong, dropout: 1.5}
          |                                 ^^^"""),
    "not true or false": ("decoder: {kind: luong, score: {kind: dot, scaled: maybe}}\n", """\
        FILE:1:51: `decoder.score.scaled` should be true or false, not 'maybe'
          |
        1 | decoder: {kind: luong, score: {kind: dot, scaled: maybe}}
          |                                                   ^^^^^"""),
    "kind": ("decoder: {kind: transfomer}\n", """\
        FILE:1:17: `decoder` has no kind `transfomer`; did you mean `transformer`?
          |
        1 | decoder: {kind: transfomer}
          |                 ^^^^^^^^^^"""),
    "kind, nothing near": ("decoder: {kind: no}\n", """\
        FILE:1:17: `decoder` has no kind `no`; known: luong, bahdanau, transformer
          |
        1 | decoder: {kind: no}
          |                 ^^"""),
    "kind is a list": ("decoder: {kind: [luong]}\n", """\
        FILE:1:17: `decoder.kind` should be text, not a list
          |
        1 | decoder: {kind: [luong]}
          |                 ^^^^^^^"""),
    "no kind": ("decoder:\n  dim: 3\n", """\
        FILE:1:1: `decoder` does not say its kind; known: luong, bahdanau, transformer
          |
        1 | decoder:
          | ^^^^^^^"""),
    "no mapping": ("decoder: luong\n", """\
        FILE:1:10: `decoder` should be a mapping, not 'luong'; write `{kind: luong}`
          |
        1 | decoder: luong
          |          ^^^^^"""),
    "list item": ("decoder: {kind: luong}\nscores:\n- kind: dot\n- kind: additive\n  dim: -1\n", """\
        FILE:5:8: `scores.1.dim` should be greater than 0, not -1
          |
        5 |   dim: -1
          |        ^^"""),
    "no list": ("decoder: {kind: luong}\nscores: {kind: dot}\n", """\
        FILE:2:9: `scores` should be a list, not a mapping
          |
        2 | scores: {kind: dot}
          |         ^^^^^^^^^^^"""),
    "too few": ("decoder: {kind: luong}\ndata: {train: a, languages: [de]}\n", """\
        FILE:2:29: `data.languages.1` is missing
          |
        2 | data: {train: a, languages: [de]}
          |                             ^^^^"""),
    "free key": ("decoder: {kind: luong}\ndata: {train: a, weights: {web: 1, news: 0}}\n", """\
        FILE:2:42: `data.weights.news` should be greater than 0, not 0
          |
        2 | data: {train: a, weights: {web: 1, news: 0}}
          |                                          ^"""),
    "boolean for text": ("decoder: {kind: luong}\ndata: {train: a, languages: [no, en]}\n", """\
        FILE:2:30: `data.languages.0` should be text, not no; YAML reads `no` as false: put it in quotes
          |
        2 | data: {train: a, languages: [no, en]}
          |                              ^^"""),
    "number for text": ("decoder: {kind: luong}\ndata: {train: a, note: 12}\n", """\
        FILE:2:24: `data.note` should be text, not 12; put it in quotes
          |
        2 | data: {train: a, note: 12}
          |                        ^^"""),
    "neither of two": ("decoder: {kind: luong}\ndata: {train: {a: 1}}\n", """\
        FILE:2:15: `data.train` should be a path or a list, not a mapping
          |
        2 | data: {train: {a: 1}}
          |               ^^^^^^"""),
    "item of one of two": ("decoder: {kind: luong}\ndata: {train: [a, 3]}\n", """\
        FILE:2:19: `data.train.1` should be a path, not 3
          |
        2 | data: {train: [a, 3]}
          |                   ^"""),
    "validator of a field": ("decoder: {kind: luong}\ndata:\n  train: a\n  note: hey!\n", """\
        FILE:4:9: `data.note`: no shouting
          |
        4 |   note: hey!
          |         ^^^^"""),
    "across fields": ("decoder:\n  kind: transformer\n  heads: 7\n", """\
        FILE:3:10: `decoder.heads`: 7 heads do not divide dim 512
          |
        3 |   heads: 7
          |          ^"""),
    "across fields, by default": ("decoder:\n  kind: transformer\n  dim: 511\n", """\
        FILE:1:1: `decoder.heads`: 8 heads do not divide dim 511
          |
        1 | decoder:
          | ^^^^^^^"""),
    "across parts": ("decoder: {kind: luong}\ndata: {train: a, languages: [de, de]}\n", """\
        FILE:2:29: `data.languages`: source and target are the same
          |
        2 | data: {train: a, languages: [de, de]}
          |                             ^^^^^^^^"""),
    "double key": ("decoder: {kind: luong}\nscores: []\ndecoder: {kind: luong}\n", """\
        FILE:3:1: the key `decoder` is here twice; first in line 1
          |
        3 | decoder: {kind: luong}
          | ^^^^^^^"""),
    "key of several lines": ("decoder: {kind: luong}\n? [a, b]\n: 1\n", """\
        FILE:2:3: a key should be a name
          |
        2 | ? [a, b]
          |   ^^^^^^"""),
    "python tag": ("decoder: {kind: !!python/name:os.system luong}\n", """\
        FILE:1:17: the tag tag:yaml.org,2002:python/name:os.system means nothing here
          |
        1 | decoder: {kind: !!python/name:os.system luong}
          |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"""),
    "empty hexadecimal": ("decoder: {kind: luong, score: {kind: additive, dim: 0x_}}\n", """\
        FILE:1:53: '0x_' is not a YAML int
          |
        1 | decoder: {kind: luong, score: {kind: additive, dim: 0x_}}
          |                                                     ^^^"""),
    "merge of no mapping": ("decoder: {kind: luong, <<: 3}\n", """\
        FILE:1:28: `<<` should be a mapping, or a list of mappings
          |
        1 | decoder: {kind: luong, <<: 3}
          |                            ^"""),
    "anchor inside itself": ("decoder: &d {kind: luong, score: *d}\n", """\
        FILE:1:10: this anchor stands for something that contains itself
          |
        1 | decoder: &d {kind: luong, score: *d}
          |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^"""),
    "tabs": ("decoder:\n\tkind: luong\n", """\
        FILE:2:1: this is not YAML: while scanning for the next token, found character '\\t' that cannot start any token
          |
        2 | \tkind: luong
          | ^"""),
    "not closed": ("decoder: {kind: luong\n", """\
        FILE:2:1: this is not YAML: while parsing a flow mapping, expected ',' or '}', but got '<stream end>'
          |
        2 |\x20
          | ^"""),
    "control character": ("decoder: {kind: lu\x07ong}\n", """\
        FILE:1:19: YAML allows no character 0x07
          |
        1 | decoder: {kind: lu\x07ong}
          |                   ^"""),
    "empty": ("", """\
        FILE:1:1: the file is empty; expected `key: value` lines
          |
        1 |\x20
          | ^"""),
    "no mapping at all": ("- decoder\n", """\
        FILE:1:1: expected `key: value` lines
          |
        1 | - decoder
          | ^^^^^^^^^"""),
    "module": ("decoder: {kind: 'no_such.place:Thing'}\n", """\
        FILE:1:17: `decoder.kind`: there is no module `no_such` to import `no_such.place:Thing` from
          |
        1 | decoder: {kind: 'no_such.place:Thing'}
          |                 ^^^^^^^^^^^^^^^^^^^^^"""),
    "module, no class": ("decoder: {kind: 'fractions:Fractoin'}\n", """\
        FILE:1:17: `decoder.kind`: the module `fractions` has no class `Fractoin`; did you mean `Fraction`?
          |
        1 | decoder: {kind: 'fractions:Fractoin'}
          |                 ^^^^^^^^^^^^^^^^^^^^"""),
    "class without a config": ("decoder: {kind: 'fractions:Fraction'}\n", """\
        FILE:1:17: `decoder.kind`: `Fraction` has no `Config` beside it, so it cannot be used as a decoder
          |
        1 | decoder: {kind: 'fractions:Fraction'}
          |                 ^^^^^^^^^^^^^^^^^^^^"""),
    "no import path": ("decoder: {kind: 'my file.py:Thing'}\n", """\
        FILE:1:17: `decoder.kind`: `my file.py:Thing` is not an import path; expected `package.module:Class`
          |
        1 | decoder: {kind: 'my file.py:Thing'}
          |                 ^^^^^^^^^^^^^^^^^^"""),
    "import path without colon": ("decoder: {kind: my_package.Thing}\n", """\
        FILE:1:17: `decoder` has no kind `my_package.Thing`; a part from elsewhere is written `package.module:Class`
          |
        1 | decoder: {kind: my_package.Thing}
          |                 ^^^^^^^^^^^^^^^^"""),
}  # fmt: skip


def mistakes(path: Path, *overrides: str) -> str:
    """The whole message about the config at `path`, which is called FILE."""
    with pytest.raises(ConfigError) as raised:
        load(path, Root, overrides)
    return str(raised.value).replace(str(path), "FILE").replace(str(path.parent), "FOLDER")


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_every_mistake_has_a_place(tmp_path, text, message):
    path = tmp_path / "my.yaml"
    path.write_text(text)
    assert mistakes(path) == f"{dedent(message)}\n\n1 mistake in FILE"


def test_all_mistakes_come_at_once_in_the_order_of_their_places(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(
        "scores: [{kind: dott}]\n"
        "decoder: {kind: transformer, heads: 7, heads: 8}\n"
        "data: {train: a, languages: [de, de], weights: {web: 1}}\n"
        "extra: 1\n"
    )
    assert [line for line in mistakes(path).splitlines() if "FILE" in line] == [
        "FILE:1:17: `scores.0` has no kind `dott`; did you mean `dot`?",
        "FILE:2:37: `decoder.heads`: 7 heads do not divide dim 512",
        "FILE:2:40: the key `heads` is here twice; first in line 2",
        "FILE:3:29: `data.languages`: source and target are the same",
        "FILE:4:1: unknown key `extra`; known: decoder, data, scores",
        "5 mistakes in FILE",
    ]


def test_rules_are_checked_where_the_parts_they_need_are_valid(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("decoder: {kind: transformer}\ndata: {train: a, weights: {web: 1}}\nscores: 3\n")
    found = mistakes(path)
    assert "FILE:2:27: `data.weights`: needs a recurrent decoder" in found
    assert "2 mistakes in FILE" in found
    path.write_text("decoder: {kind: nothing}\ndata: {train: a, weights: {web: 1}, languages: [de, de]}\n")
    found = mistakes(path)
    assert "recurrent" not in found
    assert "2 mistakes in FILE" in found


def test_a_missing_file_is_named_with_the_nearest(tmp_path):
    (tmp_path / "base.yaml").write_text("decoder: {kind: luong}\n")
    assert mistakes(tmp_path / "bse.yaml") == "FILE: there is no file FILE; did you mean `base.yaml`?"


def test_a_folder_is_not_a_config(tmp_path):
    assert mistakes(tmp_path) == "FILE: cannot read FILE: Is a directory"


def test_a_file_that_is_not_utf8_has_a_place(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_bytes("# für\ndata: {note: Übung}\n".encode("latin-1"))
    assert mistakes(path) == dedent("""\
        FILE:1:4: this is not UTF-8 (byte 0xfc); save the file as UTF-8
          |
        1 | # f\ufffdr
          |    ^

        1 mistake in FILE""")


def test_a_file_extended_that_is_not_there(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("extends: [bse.yaml]\n")
    (tmp_path / "base.yaml").write_text("decoder: {kind: luong}\n")
    assert mistakes(path) == dedent("""\
        FILE:1:11: `extends`: there is no file FOLDER/bse.yaml; did you mean `base.yaml`?
          |
        1 | extends: [bse.yaml]
          |           ^^^^^^^^

        1 mistake in FILE""")


def test_a_circle_of_files(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("extends: base.yaml\n")
    (tmp_path / "base.yaml").write_text("# the base\nextends: my.yaml\n")
    assert mistakes(path) == dedent("""\
        FOLDER/base.yaml:2:10: `extends` goes in a circle: my.yaml -> base.yaml -> my.yaml
          |
        2 | extends: my.yaml
          |          ^^^^^^^

        1 mistake in FILE""")


def test_extends_is_a_path(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("extends: {a: b}\n")
    assert "FILE:1:10: `extends` should be the path of a file, or a list of paths" in mistakes(path)


OVERRIDES = {
    "decoder.dim=wide": """\
        <command line>:1:13: `decoder.dim` should be a whole number, not 'wide'
          |
        1 | decoder.dim=wide
          |             ^^^^""",
    "decoder.dimm=3": """\
        <command line>:1:9: unknown key `decoder.dimm`; did you mean `dim`?
          |
        1 | decoder.dimm=3
          |         ^^^^""",
    "decoder.dim": """\
        <command line>:1:1: expected `key=value`, such as `search.width=10`
          |
        1 | decoder.dim
          | ^^^^^^^^^^^""",
    "=3": """\
        <command line>:1:1: expected `key=value`, such as `search.width=10`
          |
        1 | =3
          | ^^""",
    "decoder.score={kind: dot": """\
        <command line>:1:25: this is not YAML: while parsing a flow mapping, expected ',' or '}', \
but got '<stream end>'
          |
        1 | decoder.score={kind: dot
          |                         ^""",
    "decoder.score.dim=3": """\
        <command line>:1:15: unknown key `decoder.score.dim`; known: kind, scaled
          |
        1 | decoder.score.dim=3
          |               ^^^""",
    "decoder.dim=": """\
        <command line>:1:13: `decoder.dim` should be a whole number, not nothing
          |
        1 | decoder.dim=
          |             ^""",
}


@pytest.mark.parametrize(("override", "message"), OVERRIDES.items(), ids=OVERRIDES)
def test_the_command_line_is_a_place(tmp_path, override, message):
    path = tmp_path / "my.yaml"
    path.write_text("decoder: {kind: luong, score: {kind: dot}}\n")
    assert mistakes(path, override) == f"{dedent(message)}\n\n1 mistake in FILE"
