"""Messages about every kind of error in a config, in full."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Literal

import pytest
from pydantic import Field, PositiveInt, field_validator, model_validator

from seq2attn.config.base import Config, FieldError, FieldErrors, InputPath
from seq2attn.config.load import load
from seq2attn.config.plugin import Pluggable
from seq2attn.errors import ConfigError
from tests.support.configs import Dot, Score


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
            raise FieldErrors([FieldError("heads", f"{self.heads} heads do not divide dim {self.dim}")])
        return self


Decoder = Annotated[Recurrent | Transformer, Field(discriminator="kind"), Pluggable("decoder")]


class Data(Config):
    train: InputPath | list[InputPath]
    languages: tuple[str, str] = ("de", "en")
    weights: dict[str, PositiveInt] = Field(default_factory=dict)
    note: str = ""
    sort: Literal["on", "off"] = "on"

    @field_validator("note")
    @classmethod
    def _note(cls, note: str) -> str:
        if "!" in note:
            raise ValueError("no shouting")
        return note


def _languages_differ(data: Data) -> list[FieldError]:
    source, target = data.languages
    return [FieldError("data.languages", "source and target are the same")] if source == target else []


def _weights_need_recurrence(data: Data, decoder: Decoder) -> list[FieldError]:
    recurrent = decoder.kind != "transformer"
    return [] if recurrent or not data.weights else [FieldError("data.weights", "needs a recurrent decoder")]


class Root(Config):
    rules = (_languages_differ, _weights_need_recurrence)

    decoder: Decoder
    data: Data = Data(train=Path("train.txt"))
    scores: list[Score] = Field(default_factory=list)


MISTAKES = {
    "unknown key": ("decoder:\n  kind: luong\n  score:\n    kind: dot\n    scaled: true\n", "5:5", "scaled",
        "unknown key `decoder.score.scaled`; did you mean `scale`?"),
    "unknown key, nothing near": ("decoder: {kind: luong}\nzzz: 1\n", "2:1", "zzz",
        "unknown key `zzz`; known: decoder, data, scores"),
    "full-width space": ("decoder: {kind: luong}\n\u3000scores: []\n", "2:1", "\u3000scores",
        "unknown key `\u3000scores`; it has U+3000 (ideographic space) in the place of ' '"),
    "no-break space": ("decoder: {kind: luong, dim:\xa03}\n", "1:24", "dim:\xa03",
        "unknown key `decoder.dim:\xa03`; it has U+00A0 (no-break space) in the place of ' '"),
    "no-break space in a line before": ("# \uff1a\ndecoder:\xa0luong\ndata: {}\n", "3:5", ":",
        "this is not YAML: mapping values are not allowed here; it has U+00A0 (no-break space) in the place of ' '"),
    "full-width colon": ("decoder\uff1aluong\n", "1:1", "decoder\uff1aluong",
        "expected `key: value` lines; it has U+FF1A (fullwidth colon) in the place of ':'"),
    "full-width comma": ("decoder: {kind: luong\uff0c dim: 3} # \uff1a\n", "1:27", ":",
        "this is not YAML: while parsing a flow mapping, expected ',' or '}', but got ':'"
        "; it has U+FF0C (fullwidth comma) in the place of ','"),
    "missing key": ("decoder: {kind: luong}\ndata:\n  note: x\n", "2:1", "data",
        "`data.train` is missing"),
    "wrong literal": ("decoder:\n  kind: luong\n  cell: lstn\n", "3:9", "lstn",
        "`decoder.cell` should be 'gru' or 'lstm', not 'lstn'; did you mean `lstm`?"),
    "wrong type": ("decoder: {kind: luong, dim: wide}\n", "1:29", "wide",
        "`decoder.dim` should be a whole number, not 'wide'"),
    "exponent": ("decoder: {kind: luong, dim: 1e3}\n", "1:29", "1e3",
        "`decoder.dim` should be a whole number, not '1e3'; write 1000"),
    "nothing": ("decoder:\n  kind: luong\n  dim:\n", "3:7", "",
        "`decoder.dim` should be a whole number, not nothing"),
    "below a bound": ("decoder: {kind: luong, dim: 0}\n", "1:29", "0",
        "`decoder.dim` should be greater than 0, not 0"),
    "above a bound": ("decoder: {kind: luong, dropout: 1.5}\n", "1:33", "1.5",
        "`decoder.dropout` should be less than 1, not 1.5"),
    "kind": ("decoder: {kind: transfomer}\n", "1:17", "transfomer",
        "`decoder` has no kind `transfomer`; did you mean `transformer`?"),
    "kind is a list": ("decoder: {kind: [luong]}\n", "1:17", "[luong]",
        "`decoder` has no kind `['luong']`; did you mean `luong`?"),
    "no kind": ("decoder:\n  dim: 3\n", "1:1", "decoder",
        "`decoder` has no `kind`; known: luong, bahdanau, transformer"),
    "no mapping": ("decoder: luong\n", "1:10", "luong",
        "`decoder` should be a mapping, not 'luong'; write `{kind: luong}`"),
    "list item": ("decoder: {kind: luong}\nscores:\n- kind: dot\n- kind: additive\n  dim: -1\n", "5:8", "-1",
        "`scores.1.dim` should be greater than 0, not -1"),
    "too few": ("decoder: {kind: luong}\ndata: {train: a, languages: [de]}\n", "2:29", "[de]",
        "`data.languages.1` is missing"),
    "item of a list": ("decoder: {kind: luong}\ndata: {train: [a, 3]}\n", "2:19", "3",
        "`data.train.1` should be a path, not 3"),
    "free key": ("decoder: {kind: luong}\ndata: {train: a, weights: {web: 1, news: 0}}\n", "2:42", "0",
        "`data.weights.news` should be greater than 0, not 0"),
    "boolean for text": ("decoder: {kind: luong}\ndata: {train: a, languages: [no, en]}\n", "2:30", "no",
        "`data.languages.0` should be text, not no; YAML reads `no` as false: put it in quotes"),
    "boolean for a name": ("decoder: {kind: luong}\ndata: {train: a, sort: off}\n", "2:24", "off",
        "`data.sort` should be 'on' or 'off', not off; YAML reads `off` as false: put it in quotes"),
    "number for text": ("decoder: {kind: luong}\ndata: {train: a, note: 12}\n", "2:24", "12",
        "`data.note` should be text, not 12; put it in quotes"),
    "neither of two": ("decoder: {kind: luong}\ndata: {train: {a: 1}}\n", "2:15", "{a: 1}",
        "`data.train` should be a path or a list, not a mapping"),
    "validator of a field": ("decoder: {kind: luong}\ndata:\n  train: a\n  note: hey!\n", "4:9", "hey!",
        "`data.note`: no shouting"),
    "across fields": ("decoder:\n  kind: transformer\n  heads: 7\n", "3:10", "7",
        "`decoder.heads`: 7 heads do not divide dim 512"),
    "across parts": ("decoder: {kind: luong}\ndata: {train: a, languages: [de, de]}\n", "2:29", "[de, de]",
        "`data.languages`: source and target are the same"),
    "double key": ("decoder: {kind: luong}\nscores: []\ndecoder: {kind: luong}\n", "3:1", "decoder",
        "the key `decoder` appears twice; first in line 1"),
    "python tag": ("decoder: {kind: !!python/name:os.system luong}\n", "1:17", "!!python/name:os.system luong",
        "unknown tag tag:yaml.org,2002:python/name:os.system"),
    "base 8": ("decoder: {kind: luong, dim: 010}\n", "1:29", "010",
        "YAML reads 010 as 8: write it in decimal, or in quotes if it is text"),
    "base 60": ("decoder: {kind: luong, dropout: 0:30.5}\n", "1:33", "0:30.5",
        "YAML reads 0:30.5 as 30.5: write it in decimal, or in quotes if it is text"),
    "number without digits": ("decoder: {kind: luong}\nscores: !!int ''\n", "2:9", "!!int ''",
        "'' is not a YAML int"),
    "merge of no mapping": ("decoder: {kind: luong, <<: 3}\n", "1:28", "3",
        "`<<` should be a mapping, or a list of mappings"),
    "anchor inside itself": ("decoder: &d {kind: luong, score: *d}\n", "1:10", "&d {kind: luong, score: *d}",
        "this anchor contains itself"),
    "tabs": ("decoder:\n\tkind: luong\n", "2:1", "\t",
        "this is not YAML: while scanning for the next token, found character '\\t' that cannot start any token"
        "; indent with spaces"),
    "not closed": ("decoder: {kind: luong\n", "2:1", "",
        "this is not YAML: while parsing a flow mapping, expected ',' or '}', but got '<stream end>'"),
    "control character": ("decoder: {kind: lu\x07ong}\n", "1:19", "\x07",
        "YAML allows no character 0x07"),
    "empty": ("", "1:1", "",
        "the file is empty; expected `key: value` lines"),
    "a list": ("- luong\n", "1:1", "- luong",
        "expected `key: value` lines"),
    "module": ("decoder: {kind: 'no_such.place:Thing'}\n", "1:17", "'no_such.place:Thing'",
        "`decoder.kind`: there is no module `no_such` in the working directory or PYTHONPATH to import"
        " `no_such.place:Thing` from"),
    "module, no class": ("decoder: {kind: 'fractions:Fractoin'}\n", "1:17", "'fractions:Fractoin'",
        "`decoder.kind`: the module `fractions` has no class `Fractoin`; did you mean `Fraction`?"),
    "class without a config": ("decoder: {kind: 'fractions:Fraction'}\n", "1:17", "'fractions:Fraction'",
        "`decoder.kind`: `Fraction` has no `Config`, which a plug-in needs"),
    "no import path": ("decoder: {kind: 'my file.py:Thing'}\n", "1:17", "'my file.py:Thing'",
        "`decoder.kind`: `my file.py:Thing` is not an import path; expected `package.module:Class`"),
    "import path without colon": ("decoder: {kind: my_package.Thing}\n", "1:17", "my_package.Thing",
        "`decoder` has no kind `my_package.Thing`; a plug-in is written `package.module:Class`"),
}  # fmt: skip
"""A config, the place of its error, the marked text, and the message."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "my.yaml"


def mistakes(path: Path, *overrides: str) -> str:
    """The whole message about the config at `path`, which is called FILE."""
    with pytest.raises(ConfigError) as raised:
        load(path, Root, overrides)
    return str(raised.value).replace(str(path), "FILE").replace(str(path.parent), "FOLDER")


def diagnostic(text: str, place: str, marked: str, message: str) -> str:
    """A place, its message, and the line with carets under the marked text."""
    number, column = map(int, place.split(":"))
    line = text.split("\n")[number - 1]
    assert line[column - 1 :].startswith(marked)
    marks = " " * (column - 1) + "^" * max(1, len(marked))
    return f":{place}: {message}\n  |\n{number} | {line}\n  | {marks}\n\n1 mistake "


@pytest.mark.parametrize(("text", "place", "marked", "message"), MISTAKES.values(), ids=MISTAKES)
def test_every_mistake_has_a_place(path, text, place, marked, message):
    path.write_text(text)
    assert mistakes(path) == f"FILE{diagnostic(text, place, marked, message)}in FILE"


def test_all_mistakes_come_at_once_in_the_order_of_their_places(path):
    path.write_text(
        "scores: [{kind: dott}]\n"
        "decoder: {kind: transformer, heads: 7, heads: 8}\n"
        "data: {train: a, languages: [de, de], weights: {web: 1}}\n"
        "extra: 1\n"
    )
    assert [line for line in mistakes(path).splitlines() if "FILE" in line] == [
        "FILE:1:17: `scores.0` has no kind `dott`; did you mean `dot`?",
        "FILE:2:37: `decoder.heads`: 7 heads do not divide dim 512",
        "FILE:2:40: the key `heads` appears twice; first in line 2",
        "FILE:3:29: `data.languages`: source and target are the same",
        "FILE:4:1: unknown key `extra`; known: decoder, data, scores",
        "5 mistakes in FILE",
    ]


def test_a_key_may_have_the_name_of_the_kind(path):
    path.write_text("decoder: {kind: luong, luong: {dim: 3}, dimm: 3}\n")
    message = mistakes(path)
    assert "FILE:1:24: unknown key `decoder.luong`" in message and "FILE:1:41: unknown key `decoder.dimm`" in message


def test_a_mistake_is_the_same_when_files_are_checked(path):
    path.write_text("decoder: {dim: 3}\nscores: [luong]\n")
    with pytest.raises(ConfigError) as raised:
        load(path, Root, check_files=True)
    assert str(raised.value).replace(str(path), "FILE") == mistakes(path)


def test_rules_are_checked_where_the_parts_they_need_are_valid(path):
    path.write_text("decoder: {kind: transformer}\ndata: {train: a, weights: {web: 1}}\nscores: 3\n")
    message = mistakes(path)
    assert "FILE:2:27: `data.weights`: needs a recurrent decoder" in message and "2 mistakes in FILE" in message
    path.write_text("decoder: {kind: nothing}\ndata: {train: a, weights: {web: 1}, languages: [de, de]}\n")
    message = mistakes(path)
    assert "recurrent" not in message and "2 mistakes in FILE" in message


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "base.yaml").touch()
    assert mistakes(tmp_path / "bse.yaml") == "FILE: there is no file FILE; did you mean `base.yaml`?"
    assert mistakes(tmp_path / "my.yaml") == "FILE: there is no file FILE"  # the suffix alone is similar
    assert mistakes(tmp_path) == "FILE: cannot read FILE: Is a directory"


@pytest.mark.parametrize("mark", [b"", BOM_UTF8])
def test_a_file_that_is_not_utf8_has_a_place(path, mark):
    path.write_bytes(mark + "# für\ndata: {note: Übung}\n".encode("latin-1"))
    assert mistakes(path) == dedent("""\
        FILE:1:4: this is not UTF-8 (byte 0xfc); save the file as UTF-8
          |
        1 | # f\ufffdr
          |    ^

        1 mistake in FILE""")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("extends: [bse.yaml]", "FILE:1:11: `extends`: there is no file FOLDER/bse.yaml; did you mean `base.yaml`?"),
        ("extends: base.yaml", "FOLDER/base.yaml:2:10: `extends` is circular: my.yaml -> base.yaml -> my.yaml"),
        ("extends: loop", "FILE:1:10: `extends` is not a valid path: Symlink loop from 'FOLDER/loop'"),
        ("extends: {a: b}", "FILE:1:10: `extends` should be the path of a file, or a list of paths"),
    ],
)
def test_errors_of_extends(tmp_path, path, text, error):
    path.write_text(text + "\n")
    (tmp_path / "base.yaml").write_text("# the base\nextends: my.yaml\n")
    (tmp_path / "loop").symlink_to("loop")
    message = mistakes(path)
    assert message.startswith(f"{error}\n") and message.endswith("\n1 mistake in FILE")


OVERRIDES = [
    ("decoder.dim=wide", "1:13", "wide",
     "`decoder.dim` should be a whole number, not 'wide'"),
    ("decoder.dimm=3", "1:9", "dimm",
     "unknown key `decoder.dimm`; did you mean `dim`?"),
    ("decoder.dim", "1:1", "decoder.dim",
     "expected `key=value`, such as `search.beam_size=10`"),
    ("decoder.score={kind: dot", "1:25", "",
     "this is not YAML: while parsing a flow mapping, expected ',' or '}', but got '<stream end>'"),
    ("data.note=x", "1:6", "note=x",
     "`data.train` is missing"),
    ("decoder.dim=", "1:13", "",
     "`decoder.dim` should be a whole number, not nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("override", "place", "marked", "message"), OVERRIDES)
def test_the_command_line_is_a_place(path, override, place, marked, message):
    path.write_text("decoder: {kind: luong, score: {kind: dot}}\n")
    assert (
        mistakes(path, override) == f"<command line>{diagnostic(override, place, marked, message)}on the command line"
    )
