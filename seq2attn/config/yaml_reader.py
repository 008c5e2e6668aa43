"""Reader of the YAML of one config, from files and the command line."""

import errno
import os.path
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NoReturn

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode
from yaml.error import Mark, MarkedYAMLError
from yaml.reader import ReaderError

from seq2attn.config.base import Config, PathString
from seq2attn.config.hints import look_alike, suggest_file
from seq2attn.config.merge import merge
from seq2attn.config.plugin import is_run
from seq2attn.config.yaml_tree import COMMAND_LINE, Diagnostic, YAMLValue, format_diagnostics
from seq2attn.errors import ConfigError, RunError
from seq2attn.io.files import check_num_values, open_regular

_YAML = "tag:yaml.org,2002:"
_TEXT = {_YAML + name for name in ("str", "timestamp", "value")}
_KNOWN = _TEXT | {_YAML + name for name in ("int", "float", "bool", "null", "map", "seq")}
_OTHER_BASE = re.compile(r"[-+]?(0[0-7_]+$|[^:]*:)")
"""Numbers that YAML 1.1 reads in base 8, such as 010, and in base 60, such as 1:30."""
MAX_FILE_BYTES = 2**18
"""Maximum size of a config file."""
_TOO_LONG = f"more than {MAX_FILE_BYTES:,} bytes, the maximum of a config"
MAX_VALUES = 2**16
"""Maximum number of values of a config, with anchors expanded."""
MAX_DEPTH = 64
"""Maximum depth of nesting."""


class YAMLReader:
    """Reader of the files and overrides of one config. Collects all errors after which it can continue."""

    def __init__(self, path: Path, model: type[Config] = Config) -> None:
        self.path = path
        self.model = model
        self.diagnostics: list[Diagnostic] = []
        self._num_values = 0

    def read_file(self, path: Path, chain: tuple[Path, ...] = (), reference: Node | None = None) -> YAMLValue:
        """The mapping in `path` merged into those it extends. `reference` is its name in the last file of `chain`.

        Raises ConfigError if a file cannot be read, or is not a YAML mapping.
        """
        tree = self.parse_file(self._read(path, reference), path)
        extends = tree.content.pop("extends", None)
        if extends is None or extends.content is None:
            return tree
        if is_run(path.parent):
            self._stop(extends.node, "the config of a run is complete and may not extend another file")
        references = extends.content if isinstance(extends.content, list) else [extends]
        bases = [self._read_base(reference, (*chain, path)) for reference in references]
        return reduce(partial(merge, model=self.model), (*bases, tree))

    def parse_file(self, raw: bytes, path: Path) -> YAMLValue:
        """The mapping in the content of `path`. Raises ConfigError for other content."""
        text = self._decode(raw, path)
        node = self._compose(text, str(path))
        if node is None:
            self._stop_at(str(path), text, 0, "the file is empty; expected `key: value` lines", len(text))
        if not isinstance(node, MappingNode):
            self._stop(node, f"expected `key: value` lines{look_alike(str(node.value))}")
        return self._value(node)

    def parse_override(self, text: str) -> YAMLValue:
        """The mapping of an override such as `model.decoder.dim=256`. The nodes above its value have no items.

        Raises ConfigError if it has no `=`, or no YAML after it.
        """
        dotted, equals, _ = text.partition("=")
        names = dotted.split(".")
        if not equals or not all(names) or len(names) > MAX_DEPTH:
            self._stop_at(COMMAND_LINE, text, 0, "expected `key=value`, such as `search.beam_size=10`", len(text))
        end = _mark(COMMAND_LINE, text, len(text))
        node = self._compose(text, COMMAND_LINE, skip=len(dotted) + 1) or ScalarNode(_YAML + "null", "", end, end)
        value, stop = self._value(node), len(dotted)
        for name in reversed(names):
            start = stop - len(name)
            place = _mark(COMMAND_LINE, text, start), _mark(COMMAND_LINE, text, stop)
            value = replace(value, key=ScalarNode(_YAML + "str", name, *place))
            value = YAMLValue({name.strip(): value}, MappingNode(_YAML + "map", [], place[0], end))
            stop = start - len(".")
        return value

    def _read_base(self, reference: YAMLValue, chain: tuple[Path, ...]) -> YAMLValue:
        name, node = reference.content, reference.node
        if not isinstance(name, str):
            self._stop(node, "`extends` should be the path of a file, or a list of paths")
        expanded = os.path.expanduser(name)  # noqa: PTH111  # accepts the `~` of an unknown user
        base = Path(os.path.normpath(chain[-1].parent / expanded))
        try:
            is_circle = base.resolve() in [file.resolve() for file in chain]
        except RuntimeError as error:  # links in a circle
            self._stop(node, f"`extends` is not a valid path: {error}")
        if is_circle:
            circle = " -> ".join(file.name for file in (*chain, base))
            self._stop(node, f"`extends` is circular: {circle}")
        return self.read_file(base, chain, node)

    def _read(self, path: Path, reference: Node | None) -> bytes:
        try:
            with open_regular(path) if is_run(path.parent) else path.open("rb") as file:
                raw = file.read(MAX_FILE_BYTES + 1)
            if len(raw) > MAX_FILE_BYTES:
                raise OSError(errno.EFBIG, f"it has {_TOO_LONG}")
            return raw
        except OSError as error:
            if reference is None:
                raise ConfigError(f"{path}: {_reason(path, error)}") from None
            self._stop(reference, f"`extends`: {_reason(path, error)}")

    def _decode(self, raw: bytes, path: Path) -> str:
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            content = error.object  # without a byte order mark
            before = content[: error.start].decode()
            text = before + content[error.start :].decode(errors="replace")
            message = f"this is not UTF-8 (byte 0x{content[error.start]:02x}); save the file as UTF-8"
            self._stop_at(str(path), text, len(before), message)

    def _compose(self, text: str, name: str, *, skip: int = 0) -> Node | None:
        """The YAML in `text` after the first `skip` characters, which count as columns."""
        try:
            loader = yaml.SafeLoader(text)
            loader.name = name
            loader.forward(skip)
            return loader.get_single_node()
        except ReaderError as error:
            message = f"YAML allows no character {ord(text[error.position]):#04x}"
            self._stop_at(name, text, error.position, message)
        except MarkedYAMLError as error:
            problem = ", ".join(part for part in (error.context, error.problem) if part)
            mark = error.problem_mark or error.context_mark
            index = mark.index if mark else 0
            before = re.sub(r"(^|\s)#.*", "", "\n".join(text[:index].split("\n")[-2:]))  # without comments
            hint = "; indent with spaces" if "'\\t'" in problem else look_alike(before)
            self._stop_at(name, text, index, f"this is not YAML: {problem}{hint}")
        except RecursionError:
            self._stop_at(name, text, loader.index, "this is nested too deep")

    def _value(self, node: Node, key: Node | None = None, above: tuple[Node, ...] = ()) -> YAMLValue:
        """The value of a node that is in the nodes `above`, without parts that cannot be read."""
        self._check_size(node, above)
        if isinstance(node, ScalarNode):
            return YAMLValue(self._scalar(node), node, key)
        if node.tag not in _KNOWN:
            self._report(node, f"unknown tag {node.tag}")
        above = (*above, node)
        if isinstance(node, MappingNode):
            pairs = self._pairs(node, above).items()
            return YAMLValue({name: self._value(value, key, above) for name, (key, value) in pairs}, node, key)
        return YAMLValue([self._value(item, None, above) for item in node.value], node, key)

    def _check_size(self, node: Node, above: tuple[Node, ...]) -> None:
        if node in above:
            self._stop(node, "this anchor contains itself")
        self._num_values += 1
        if self._num_values > MAX_VALUES or len(above) > MAX_DEPTH:
            reason = "too large for a config" if self._num_values > MAX_VALUES else "nested too deep"
            self._stop(node, f"with its anchors expanded, this is {reason}")

    def _pairs(self, node: MappingNode, above: tuple[Node, ...]) -> dict[str, tuple[Node, Node]]:
        """Keys and values of a mapping, and of those that it merges by `<<`."""
        pairs = dict[str, tuple[Node, Node]]()
        merged = dict[str, tuple[Node, Node]]()
        for key, value in node.value:
            if key.tag == _YAML + "merge":
                for part in value.value if isinstance(value, SequenceNode) else [value]:
                    self._check_size(part, above)
                    if isinstance(part, MappingNode):
                        merged = self._pairs(part, (*above, part)) | merged
                    else:
                        self._report(part, "`<<` should be a mapping, or a list of mappings")
            elif not isinstance(key, ScalarNode):
                self._report(key, "a key should be a name")
            elif self._is_text(key) and key.value in pairs:
                line = pairs[key.value][0].start_mark.line + 1
                self._report(key, f"the key `{key.value}` appears twice; first in line {line}")
            else:
                pairs[key.value] = key, value
        return merged | pairs

    def _scalar(self, node: ScalarNode) -> Any:
        """A number, a boolean or nothing; else a PathString, also for values that cannot be read."""
        is_text = self._is_text(node)
        if node.tag not in _KNOWN:
            self._report(node, f"unknown tag {node.tag}")
        elif is_text and node.tag not in _TEXT:
            try:
                value = yaml.SafeLoader("").construct_object(node)
                if isinstance(value, int) and not -(2**63) <= value < 2**63:
                    self._report(node, "this number is too large")
                elif _OTHER_BASE.match(node.value):
                    reads = f"YAML reads {node.value} as {value}"
                    self._report(node, f"{reads}: write it in decimal, or in quotes if it is text")
                else:
                    return value
            except (LookupError, ValueError, OverflowError, yaml.YAMLError):
                self._report(node, f"{node.value!r} is not a YAML {node.tag.removeprefix(_YAML)}")
        name = str(node.start_mark.name)
        return PathString.of(node.value, Path.cwd() if name == COMMAND_LINE else Path(name).parent)

    def _is_text(self, node: ScalarNode) -> bool:
        """True for text without NUL or surrogates, which can be printed and can be a file name."""
        if "\0" not in node.value and not re.search("[\ud800-\udfff]", node.value):
            return True
        self._report(node, "text may not contain NUL or surrogates")
        node.value = "?"
        return False

    def _report(self, node: Node, message: str) -> None:
        self.diagnostics.append(Diagnostic.at(node, message))

    def _stop(self, node: Node, message: str) -> NoReturn:
        self._report(node, message)
        raise format_diagnostics(self.path, self.diagnostics) from None

    def _stop_at(self, name: str, text: str, index: int, message: str, length: int = 1) -> NoReturn:
        """Stop at `length` characters of the text of a file, or of the command line."""
        self._stop(Node("", "", _mark(name, text, index), _mark(name, text, index + length)), message)


def parse_yaml(raw: bytes, path: Path) -> dict[str, Any]:
    """The mapping in YAML that another program wrote to `path`, within the limits of a config.

    Raises ConfigError on one line, with the first mistake.
    """
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: cannot be read (it has {_TOO_LONG})")
    reader = YAMLReader(path)
    with suppress(ConfigError):
        tree = reader.parse_file(raw, path)
    if reader.diagnostics:
        first = reader.diagnostics[0]
        raise ConfigError(f"{path}: cannot be read (line {first.start.line + 1}: {first.message})")
    return dict(tree.data)


def read_ids(raw: bytes, path: Path, fix: str) -> dict[str, int]:
    """The ids in a vocabulary in YAML, where a piece such as `no` is text. Its nodes are never all in memory.

    Raises RunError.
    """
    check_num_values(raw, path, fix)
    try:
        events = yaml.parse(raw, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        *_, start = islice(events, 3)
        pairs: Iterator[Any] = takewhile(lambda event: not isinstance(event, yaml.MappingEndEvent), events)
        ids = {piece.value: int(id.value) for piece, id in zip(pairs, pairs, strict=True)}
        if not isinstance(start, yaml.MappingStartEvent) or len([*events]) > 2:
            raise ValueError("expected `piece: id` lines")
        return ids
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise RunError(f"{path}: is not a vocabulary of Marian ({reason}); {fix}") from None


def _mark(name: str, text: str, index: int) -> Mark:
    line = text.count("\n", 0, index)
    return Mark(name, index, line, index - text.rfind("\n", 0, index) - 1, text + "\0", index)


def _reason(path: Path, error: OSError) -> str:
    if not isinstance(error, FileNotFoundError):
        config = path / "config.yaml"
        command = shlex.join(["seq2attn", "train", str(config), "--set", f"run_dir={path}", "--resume"])
        resume = f"; to continue the training of this run: {command}" if config.is_file() else ""
        return f"cannot read {path}: {error.strerror}{resume}"
    names = [file.name for file in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    return f"there is no file {path}{suggest_file(path.name, names)}"
