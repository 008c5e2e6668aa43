"""Configs: merging, overrides, scalars, plug-ins, dumps and JSON Schema."""

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from pydantic import Field

from seq2attn.config.base import Config, InputPath, RunPath
from seq2attn.config.duration import DurationField
from seq2attn.config.load import dump, json_schema, load
from seq2attn.errors import ConfigError
from tests.support.configs import Additive, Dot, Score


class Data(Config):
    train: InputPath | None = None
    words: list[str] = Field(default_factory=list)
    weights: dict[str, float] = Field(default_factory=dict)


class Root(Config):
    score: Score = Dot(kind="dot")
    scores: dict[str, list[Score]] = Field(default_factory=dict)
    data: Data = Data()
    lr: float = 1e-3
    steps: int | None = None
    note: str = ""
    where: RunPath = Path("runs/it")


class Needing(Root):
    needed: Score


class Times(Config):
    every: DurationField


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_(name: str, text: str) -> Path:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    return write_


class TestMerging:
    def test_mappings_merge_deep_and_lists_replace(self, write):
        write("base.yaml", "score: {kind: additive, dim: 3}\ndata: {words: [a, b], weights: {x: 1, y: 2}}")
        path = write("my.yaml", "extends: base.yaml\ndata: {words: [c], weights: {y: 3}}")
        assert load(path, Root) == Root(
            score=Additive(kind="additive", dim=3), data=Data(words=["c"], weights={"x": 1, "y": 3})
        )

    @pytest.mark.parametrize(
        ("change", "score"),
        [
            ("{kind: dot}", Dot(kind="dot")),
            ("{dim: 4}", Additive(kind="additive", dim=4)),
            ("{kind: additive, dim: 4}", Additive(kind="additive", dim=4)),
        ],
    )
    def test_a_component_is_replaced_by_one_of_another_kind(self, write, change, score):
        write("base.yaml", "score: {kind: additive, dim: 3}\nsteps: 3")
        config = load(write("my.yaml", f"extends: base.yaml\nscore: {change}\nsteps: null"), Root)
        assert (config.score, config.steps) == (score, None)

    def test_the_last_of_several_bases_wins_and_the_file_over_all(self, write):
        write("base.yaml", "note: base")
        write("deep/a.yaml", "extends: ../base.yaml\nlr: 1\nsteps: 1")
        write("b.yaml", "extends: base.yaml\nlr: 2\nsteps: 2")
        path = write("my.yaml", "extends: [deep/a.yaml, b.yaml]\nlr: 3")
        assert load(path, Root) == Root(lr=3, steps=2, note="base")

    def test_the_place_of_an_error_is_in_its_file(self, write):
        write("base.yaml", "\nscore:\n  kind: additive\n  dim: 0\n")
        path = write("my.yaml", "extends: base.yaml\nscore: {dmi: 3}")
        with pytest.raises(ConfigError) as raised:
            load(path, Root)
        assert "base.yaml:4:8: `score.dim` should be greater than 0, not 0" in str(raised.value)
        assert "my.yaml:2:9: unknown key `score.dmi`; did you mean `dim`?" in str(raised.value)

    def test_a_missing_key_has_its_place_in_a_file_rather_than_on_the_command_line(self, write):
        path = write("my.yaml", "scores:\n  x: [{dim: 3}]\nneeded:\n  dim: 3\n")
        with pytest.raises(ConfigError, match=r"my.yaml:3:1: `needed` has no `kind`"):
            load(path, Needing, ["needed.dim=4"])

    def test_a_component_without_kind_has_that_of_the_default(self, write):
        path = write("my.yaml", "score: {scale: 3}\n")
        assert load(path, Root).score == Dot(kind="dot", scale=3)
        assert load(path, Root, ["score={kind: additive}", "score.dim=4"]).score == Additive(kind="additive", dim=4)
        with pytest.raises(
            ConfigError, match=r"1:7: unknown key `score.sale`; did you mean `scale`?[^$]*1 mistake on the"
        ):
            load(write("other.yaml", "lr: 2"), Root, ["score.sale=3"])

    def test_anchors_and_merge_keys(self, write):
        text = "score: &s {kind: additive, dim: 3}\nscores: {a: [*s, {<<: *s, dim: 4}, {dim: 5, <<: [*s]}]}"
        scores = load(write("my.yaml", text), Root).scores["a"]
        assert [(part.kind, part.dim) for part in scores] == [("additive", 3), ("additive", 4), ("additive", 5)]
        path = write("my.yaml", "scores: {a: [&s {kind: additive, dim: 3}, &t {dim: 4}, {<<: [*s, *t]}]}")
        path.write_text(path.read_text().replace("&t {", "&t {kind: additive, "))
        assert load(path, Root).scores["a"][2] == Additive(kind="additive", dim=3)  # the first one wins


class TestOverrides:
    def test_values_are_yaml_and_later_ones_win(self, write):
        path = write("my.yaml", "score: {kind: additive}\nlr: 1")
        overrides = ["score.dim=3", "data.words=[a, 'no']", "steps=null", "note='a=b: c'", "lr=2", "lr=1e-4"]
        assert load(path, Root, overrides) == Root(
            score=Additive(kind="additive", dim=3), data=Data(words=["a", "no"]), note="a=b: c", lr=1e-4
        )

    def test_a_kind_and_its_keys_may_come_in_any_order(self, write):
        path = write("my.yaml", "score: {kind: dot, scale: 2}")
        for overrides in (["score.kind=additive", "score.dim=3"], ["score.dim=3", "score.kind=additive"]):
            assert load(path, Root, overrides).score == Additive(kind="additive", dim=3)


class TestScalars:
    def test_paths_are_relative_to_their_file(self, write, tmp_path):
        write("deep/base.yaml", "data: {train: train.txt}")
        path = write("my.yaml", "extends: deep/base.yaml")
        assert load(path, Root).data.train == tmp_path / "deep" / "train.txt"
        assert load(path, Root, ["data.train=train.txt"]).data.train == tmp_path / "train.txt"
        assert load(path, Root, ["data.train=/a/b"]).data.train == Path("/a/b")
        assert load(path, Root, ["data.train=~/b"]).data.train == Path.home() / "b"
        assert Data(train="train.txt").train == tmp_path / "train.txt"
        assert load(path, Root, ["where=runs/b"]).where == Path("runs/b")
        assert load(path, Root, ["where=~/runs/b"]).where == Path.home() / "runs/b"

    def test_a_path_that_cannot_be_read_is_a_mistake_only_where_it_is_needed(self, write, tmp_path):
        name = 300 * "x"  # as of a folder that may not be read, the file system gives no answer
        path = write("my.yaml", f"data: {{train: {name}}}\nsteps: x\n")
        with pytest.raises(ConfigError) as raised:
            load(path, Root, check_files=True)
        assert f"1:15: `data.train`: cannot be read: {tmp_path / name} (File name too long)" in str(raised.value)
        assert "`steps` should be a whole number" in str(raised.value)
        assert load(path, Root, ["steps=3"]).data.train == tmp_path / name

    def test_keys_are_text_and_so_are_dates(self, write):
        path = write("my.yaml", "data: {weights: {no: 1, 2020: 2}}\nnote: 2020-01-01\nlr: 1e-5")
        config = load(path, Root)
        assert config.data.weights == {"no": 1, "2020": 2}
        assert config.note == "2020-01-01"
        assert config.lr == 1e-5

    def test_byte_order_marks_and_line_ends_of_windows(self, tmp_path):
        path = tmp_path / "my.yaml"
        path.write_bytes(b"\xef\xbb\xbflr: 2\r\nsteps: x\r\n")
        with pytest.raises(ConfigError, match=r"my.yaml:2:8: `steps` should be a whole number, not 'x'\n  \|\n2 \| "):
            load(path, Root)


PLUGIN = """\
    from typing import Literal
    from pydantic import PositiveInt, field_validator
    from seq2attn import Config, InputPath

    class Mine:
        class Config(Config):
            kind: str
            size: PositiveInt = 3
            inner: "Literal['a', 'b']" = "a"
            words: InputPath | None = None
            def build(self): return Mine()

    class Foreign:
        Config = dict

    class Kindless:
        class Config(Config):
            def build(self): return Kindless()

    class Idle:
        class Config(Config):
            kind: str
    """


@pytest.fixture
def plugin(write):
    """A module in the working directory, which is not on the path."""
    before = set(sys.modules)
    path = list(sys.path)
    write("my_plugin.py", PLUGIN)
    yield
    assert sys.path == path
    for name in set(sys.modules) - before:
        if name.startswith(("my_plugin", "broken_")):
            del sys.modules[name]


@pytest.mark.usefixtures("plugin")
class TestPlugins:
    def test_they_take_the_place_of_any_component(self, write):
        text = "score: {kind: 'my_plugin:Mine', size: 5}\nscores: {x: [{kind: dot}, {kind: 'my_plugin:Mine'}]}"
        config: Any = load(write("my.yaml", text), Root)
        assert type(config.score.build()).__name__ == "Mine"
        assert (config.score.size, config.scores["x"][1].size) == (5, 3)
        assert Root(score=config.score).score == config.score

    @pytest.mark.parametrize("as_any", [False, True])
    def test_round_trip(self, write, recwarn, as_any):
        config = load(write("my.yaml", "score: {kind: 'my_plugin:Mine', size: 5}"), Root)
        text = yaml.safe_dump(config.model_dump(mode="json", serialize_as_any=as_any))
        assert load(write("again.yaml", text), Root) == config
        assert load(write("again.yaml", dump(config)), Root) == config
        assert not recwarn.list

    def test_their_errors_have_places(self, write):
        path = write("my.yaml", "score: {kind: 'my_plugin:Mine', size: 0, inner: c, siez: 1, words: w.txt}\nsteps: x")
        with pytest.raises(ConfigError) as raised:
            load(path, Root, check_files=True)
        assert [line for line in str(raised.value).splitlines() if "my.yaml:" in line] == [
            "my.yaml:1:39: `score.size` should be greater than 0, not 0",
            "my.yaml:1:49: `score.inner` should be 'a' or 'b', not 'c'",
            "my.yaml:1:52: unknown key `score.siez`; did you mean `size`?",
            f"my.yaml:1:68: `score.words`: there is no such file: {Path('w.txt').resolve()}",
            "my.yaml:2:8: `steps` should be a whole number, not 'x'",
        ]

    @pytest.mark.parametrize(
        ("name", "message"),
        {
            "Foreign": "`Foreign.Config` should be a subclass of `seq2attn.Config`",
            "Kindless": "`Kindless.Config` should have a field `kind: str`",
            "Idle": "`Idle.Config` should have a method `build` that makes the score",
        }.items(),
    )
    def test_required_attributes(self, write, name, message):
        with pytest.raises(ConfigError) as raised:
            load(write("my.yaml", f"score: {{kind: 'my_plugin:{name}'}}"), Root)
        assert f"my.yaml:1:15: `score.kind`: {message}\n" in str(raised.value)

    @pytest.mark.parametrize("bug", ["import no_such_module", "raise ValueError('here')", "1 / 0"])
    def test_their_bugs_keep_their_traceback(self, write, bug):
        write("broken_score.py", bug)
        with pytest.raises((ModuleNotFoundError, RuntimeError, ZeroDivisionError)):
            load(write("my.yaml", "score: {kind: 'broken_score:Mine'}"), Root)


CONFIGS = [
    Root(),
    Root(score=Additive(kind="additive"), scores={"no": [Dot(kind="scaled-dot")], "": []}),
    Root(data=Data(train=Path("/ä/b c"), words=["no", "1", "", "# x", "a\nb", "~"], weights={"1e3": 1e-5})),
    Root(lr=1e-300, steps=0, note="é" * 300, where=Path("a")),
    *(Times(every=every) for every in ("1000000 updates", "1234567.5 seconds", "0.00001 epochs", "1 hour")),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_dump_is_the_inverse_of_load(write, config):
    path = write("my.yaml", "")
    path.write_text(dump(config), encoding="utf-8")
    assert load(path, type(config)) == config


def test_json_schema():
    schema = json_schema(Root)
    assert list(schema["properties"]) == ["extends", *Root.model_fields]
    assert schema["additionalProperties"] is False
    assert "required" not in schema
    union, plugin = schema["properties"]["score"]["anyOf"]
    assert union == {"anyOf": [{"$ref": "#/$defs/Additive"}, {"$ref": "#/$defs/Dot"}]}
    assert plugin["properties"]["kind"]["pattern"] == ":" and plugin["required"] == ["kind"]
    additive = schema["$defs"]["Additive"]
    assert additive["description"] == "A layer between query and key."
    assert additive["properties"]["kind"]["const"] == "additive"
    assert additive["properties"]["dim"]["description"] == "Size of the hidden layer."
    assert "required" not in additive
    assert schema["$defs"]["Dot"]["properties"]["kind"]["enum"] == ["dot", "scaled-dot"]
