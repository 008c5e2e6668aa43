"""Configs of the repository with random changes: each is accepted, or refused with a place."""

import copy
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from seq2attn.config.load import dump, load
from seq2attn.errors import ConfigError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.models.build import assumed_vocab_sizes, build_on_meta_device
from seq2attn.sweep.plan import load_plan
from tests.support.fuzzing import fuzz

CONFIGS = Path(__file__).parents[2] / "configs"
PATHS = sorted(path.relative_to(CONFIGS) for path in CONFIGS.rglob("*.yaml"))
PLACE = re.compile(r"^(?:[^\n]*\.yaml|<command line>):\d+:\d+: \S", re.MULTILINE)
WHOLE_FILE = re.compile(r"^[^\n]*\.yaml: (?:there is no file|cannot read|has more than|is a config for)")
DEEPEST = 6
"""Maximum number of layers of a model to build, on the meta device."""

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**9, 10**19, -(2**63), 10**400, 2**31, 0.1, -0.0, 1e308]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["gru", "transformer", "words", "bpe", "greedy", "plain", "1e-3", "yes", "~", "", "3 epochs", "a:b", "os:x"]
    ),
    st.lists(st.integers(0, 9), max_size=3),
    st.recursive(st.none(), lambda inner: st.lists(inner, max_size=2), max_leaves=30),
    st.dictionaries(st.sampled_from(["kind", "dim", "layers", "x", ""]), st.integers(0, 9), max_size=2),
)  # fmt: skip
"""Values of a wrong type or size."""

change = st.tuples(
    st.sampled_from(["put", "drop", "rename", "twice", "swap", "wrap", "graft"]),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    odd,
)
"""A change of the tree, two places, and a value."""

edit = st.tuples(
    st.booleans(),
    st.floats(0, 1),
    st.sampled_from([0, 0, 1, 4, 40]),
    st.one_of(
        st.text(max_size=6),
        st.sampled_from(
            ["\t", "&a ", "*a", "<<: *a", "- ", ": ", "{", "[", "]", "'", '"', "!!int ", "!!python/name:os.system ",
             "---\n", "...", "%YAML 9\n", "|", ">", "#", "\x00", "\ufeff", "\u2028", "\x85", "? ", "@", "`", "\r",
             "", "  ", "run_dir: x\n"]
        ),
    ),
)  # fmt: skip
"""A change of the text: True for one before a value, its place, the length that is cut, and an insertion."""
changes = st.one_of(*(st.lists(one, min_size=1, max_size=4) for one in (change, change, edit, st.one_of(change, edit))))


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from places(value)


def change_tree(tree: Any, what: str, where: int, other: int, value: Any) -> Any:
    every = list(places(tree))
    if not every:
        return value
    owner, key = every[where % len(every)]
    target, name = every[other % len(every)]
    match what:
        case "put":
            owner[key] = value
        case "drop":
            del owner[key]
        case "rename" if isinstance(owner, dict):
            owner[f"{value}"[:20]] = owner.pop(key)
        case "twice" if isinstance(owner, list):
            owner.append(owner[key])
        case "swap":
            owner[key], target[name] = copy.deepcopy(target[name]), copy.deepcopy(owner[key])
        case "wrap":
            owner[key] = [owner[key]]
        case "graft":
            owner[key] = copy.deepcopy(target[name])
    return tree


def changed_text(text: str, at_value: bool, where: float, length: int, what: str) -> str:
    start = int(where * len(text))
    if at_value:
        start = text.find(": ", start) + 2
    return text[:start] + what + text[start + length :]


def after(text: str, changes: list[Any]) -> bytes:
    """The text after changes of its tree and of its characters."""
    for one in changes:
        if isinstance(one[0], bool):
            text = changed_text(text, *one)
        else:
            try:
                tree = yaml.safe_load(text)
            except (yaml.YAMLError, ValueError):  # ValueError: a tag that the text is not of, such as !!int
                break
            text = yaml.safe_dump(change_tree(tree, *one), allow_unicode=True)
    return text.encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all configs, so that changed ones are beside those that they extend."""
    return Path(shutil.copytree(CONFIGS, tmp_path_factory.mktemp("fuzz") / "configs"))


def check_message(error: ConfigError, path: Path) -> None:
    message = str(error)
    if WHOLE_FILE.match(message):
        return
    count = re.search(r"^(\d+) mistakes? (?:in|on) ", message, re.MULTILINE)
    assert count and PLACE.match(message), message
    assert "Traceback" not in message and "pydantic" not in message, message


def try_config(path: Path, overrides: list[str]) -> None:
    try:
        experiment = load(path, ExperimentConfig, overrides)
    except ConfigError as error:
        check_message(error, path)
        return
    again = path.with_name("again.yaml")
    again.write_text(dump(experiment), encoding="utf-8")
    assert load(again, ExperimentConfig) == experiment
    if is_small(experiment.model.model_dump()):
        try:
            build_on_meta_device(experiment.model, *assumed_vocab_sizes(experiment.tokenizer))
        except UserError as error:
            assert str(error)


def is_small(tree: Any) -> bool:
    layers = (owner[key] for owner, key in places(tree) if key in ("layers", "num_hidden_layers"))
    return all(number <= DEEPEST for number in layers if isinstance(number, int))


@fuzz(st.tuples(st.sampled_from(PATHS), changes), quick=100, slow=3800)
def test_a_changed_config_is_accepted_or_refused_with_a_place(home, case):
    name, changes = case
    path = (home / name).with_name("changed.yaml")
    path.write_bytes(after((CONFIGS / name).read_text(encoding="utf-8"), changes))
    try_config(path, [])


paths = [
    "model.decoder.dim", "search.beam_size", "training.max_duration", "training.batch.tokens", "model.encoder",
    "data.test", "model.decoder.attention.score.kind", "tokenizer.joint.vocab_size", "run_dir", "search", "model", "",
    "x..y", ".", "training",
]  # fmt: skip
override = st.builds(
    lambda key, equals, value: f"{key}{equals}{value}",
    st.one_of(st.sampled_from(paths), st.text(max_size=6)),
    st.sampled_from(["=", "=", "=", "", "=="]),
    st.one_of(
        st.text(max_size=12), odd.map(str), st.sampled_from(["{", "[1, 2", "&a [*a]", "{kind: beam, beam_size: 2}"])
    ),
)


@fuzz(st.lists(override, min_size=1, max_size=3), quick=40, slow=800)
def test_overrides_are_accepted_or_refused_with_a_place(home, case):
    try_config(home / "phrasebook.yaml", case)


@fuzz(changes, quick=10, slow=500)
def test_a_changed_sweep_is_accepted_or_refused(home, case):
    path = home / "sweeps" / "changed.yaml"
    path.write_bytes(after((CONFIGS / "sweeps" / "phrasebook.yaml").read_text(encoding="utf-8"), case))
    try:
        load_plan(path, [])
    except UserError as error:
        assert str(error) and "Traceback" not in str(error)
