"""Reader of the YAML of one config, from files and the command line, as nodes with their places."""

from __future__ import annotations

import errno
import os.path
import re
from functools import reduce
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode
from yaml.error import Mark, MarkedYAMLError
from yaml.reader import ReaderError

from seq2attn.config.base import PathString
from seq2attn.config.hints import suggest
from seq2attn.config.plugin import is_run
from seq2attn.config.source_location import COMMAND_LINE, Diagnostic, child, format_diagnostics, kind_of
from seq2attn.errors import ConfigError
from seq2attn.io.files import open_regular

N = TypeVar("N", bound=Node)

_YAML = "tag:yaml.org,2002:"
_TEXT = {_YAML + name for name in ("str", "timestamp", "value")}
MAX_FILE_BYTES = 2**18
"""Maximum size of a config file."""
MAX_VALUES = 2**16
"""Maximum number of values of a config, with anchors expanded."""
MAX_DEPTH = 64
"""Maximum depth of nesting."""
_KNOWN = _TEXT | {_YAML + name for name in ("int", "float", "bool", "null", "map", "seq")}


def merge(base: Node, over: N) -> N:
    """`over` merged into `base`: mappings recursively; other values, and components of another kind, replace."""
    if not (isinstance(base, MappingNode) and isinstance(over, MappingNode)):
        return over
    is_override = over.start_mark.name == COMMAND_LINE
    kind, base_kind = kind_of(over), kind_of(base)
    if kind and base_kind and kind != base_kind and not is_override:
        return over
    entries = {key.value: (key, value) for key, value in base.value}
    for key, value in over.value:
        base_key, base_value = entries.get(key.value, (key, None))
        merged = value if base_value is None else merge(base_value, value)
        entries[key.value] = (base_key if is_override else key, merged)
    place = base if is_override else over  # errors in the mapping have their place in a file rather
    node = MappingNode(base.tag, list(entries.values()), place.start_mark, place.end_mark, place.flow_style)
    return cast(N, node)


def to_python(node: Node) -> Any:
    """Dicts, lists and scalars; strings are PathStrings."""
    if isinstance(node, MappingNode):
        return {key.value: to_python(value) for key, value in node.value}
    if isinstance(node, SequenceNode):
        return [to_python(item) for item in node.value]
    if node.tag in _TEXT:
        name = str(node.start_mark.name)
        text = PathString(node.value)
        text.folder = Path.cwd() if name == COMMAND_LINE else Path(name).parent
        return text
    return yaml.SafeLoader("").construct_object(node)


class YAMLReader:
    """Reader of the files and overrides of one config. Collects all errors after which it can continue."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.diagnostics: list[Diagnostic] = []
        self._num_values = 0

    def read_file(self, path: Path, chain: tuple[Path, ...] = (), reference: Node | None = None) -> MappingNode:
        """The mapping in `path` merged into those it extends. `reference` is its name in the last file of `chain`.

        Raises:
            ConfigError: a file cannot be read, or is not a YAML mapping.
        """
        text = self._text(path, reference)
        node = self._compose(text, str(path))
        if node is None:
            self._stop(Diagnostic("the file is empty; expected `key: value` lines", _mark(str(path), text, 0)))
        if not isinstance(node, MappingNode):
            self._stop(_at(node, "expected `key: value` lines"))
        tree, extends = self._clean(node), child(node, "extends")[1]
        if extends is not None and is_run(path.parent):
            self._stop(_at(extends, "the config of a run is complete and may not extend another file"))
        tree.value = [(key, value) for key, value in tree.value if key.value != "extends"]
        bases = (self._base(name, path, (*chain, path)) for name in _items(extends))
        return reduce(merge, (*bases, tree))

    def parse_override(self, text: str) -> MappingNode:
        """The mapping of an override such as `model.decoder.dim=256`.

        Raises:
            ConfigError: it has no `=`, or no YAML after it.
        """
        dotted, equals, _ = text.partition("=")
        if not equals or not all(dotted.split(".")) or dotted.count(".") >= MAX_DEPTH:
            self._stop(Diagnostic("expected `key=value`, such as `search.beam_size=10`", _mark(COMMAND_LINE, text, 0)))
        node = self._compose(text, COMMAND_LINE, skip=len(dotted) + 1)
        end = _mark(COMMAND_LINE, text, len(text))
        value = ScalarNode(_YAML + "null", "", end, end) if node is None else self._clean(node)
        stop = len(dotted)
        for name in reversed(dotted.split(".")):
            start = stop - len(name)
            place = _mark(COMMAND_LINE, text, start), _mark(COMMAND_LINE, text, stop)
            key = ScalarNode(_YAML + "str", name.strip(), *place)
            value = MappingNode(_YAML + "map", [(key, value)], place[0], end, flow_style=True)
            stop = start - 1
        return value  # type: ignore[return-value]  # `dotted` has at least one name

    def _base(self, reference: Node, path: Path, chain: tuple[Path, ...]) -> MappingNode:
        if not isinstance(reference, ScalarNode) or reference.tag not in _TEXT:
            self._stop(_at(reference, "`extends` should be the path of a file, or a list of paths"))
        expanded = os.path.expanduser(reference.value)  # noqa: PTH111  # accepts the `~` of an unknown user
        base = Path(os.path.normpath(path.parent / expanded))
        if base.resolve() in [file.resolve() for file in chain]:
            circle = " -> ".join(file.name for file in (*chain, base))
            self._stop(_at(reference, f"`extends` goes in a circle: {circle}"))
        return self.read_file(base, chain, reference)

    def _text(self, path: Path, reference: Node | None) -> str:
        try:
            with open_regular(path) if is_run(path.parent) else path.open("rb") as file:
                raw = file.read(MAX_FILE_BYTES + 1)
            if len(raw) > MAX_FILE_BYTES:
                raise OSError(errno.EFBIG, f"it has more than {MAX_FILE_BYTES:,} bytes, the maximum of a config")
        except OSError as error:
            if reference is None:
                raise ConfigError(f"{path}: {_reason(path, error)}") from None
            self._stop(_at(reference, f"`extends`: {_reason(path, error)}"))
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = raw[: error.start].decode("utf-8-sig")
            text = before + raw[error.start :].decode(errors="replace")
            message = f"this is not UTF-8 (byte 0x{raw[error.start]:02x}); save the file as UTF-8"
            self._stop(_character(message, str(path), text, len(before)))

    def _compose(self, text: str, name: str, *, skip: int = 0) -> Node | None:
        """The YAML in `text` after the first `skip` characters, which count as columns."""
        try:
            loader = yaml.SafeLoader(text)
            loader.name = name
            loader.forward(skip)
            return loader.get_single_node()
        except ReaderError as error:
            message = f"YAML allows no character {ord(text[error.position]):#04x}"
            self._stop(_character(message, name, text, error.position))
        except MarkedYAMLError as error:
            problem = ", ".join(part for part in (error.context, error.problem) if part)
            mark = error.problem_mark or error.context_mark or _mark(name, text, 0)
            self._stop(_character(f"this is not YAML: {problem}", name, text, mark.index))
        except RecursionError:
            self._stop(_character("this is nested too deep", name, text, loader.index))

    def _clean(self, node: N, above: tuple[Node, ...] = ()) -> N:
        """The same tree without `<<` and double keys, and with scalars that `to_python` can read."""
        if node in above:
            self._stop(_at(node, "this anchor contains itself"))
        self._num_values += 1
        if self._num_values > MAX_VALUES or len(above) > MAX_DEPTH:
            reason = "too large for a config" if self._num_values > MAX_VALUES else "nested too deep"
            self._stop(_at(node, f"with its anchors expanded, this is {reason}"))
        value: Any = node.value
        if isinstance(node, SequenceNode):
            value = [self._clean(item, (*above, node)) for item in node.value]
        elif isinstance(node, MappingNode):
            value = self._entries([(key, self._clean(value, (*above, node))) for key, value in node.value])
        tag = node.tag if self._is_valid(node) else _YAML + "str"
        return type(node)(tag, value, node.start_mark, node.end_mark)

    def _entries(self, pairs: list[tuple[Node, Node]]) -> list[tuple[Node, Node]]:
        entries: dict[str, tuple[Node, Node]] = {}
        merged: dict[str, tuple[Node, Node]] = {}
        for key, value in pairs:
            if key.tag == _YAML + "merge":
                for part in _items(value):
                    if isinstance(part, MappingNode):
                        merged = {k.value: (k, v) for k, v in part.value} | merged
                    else:
                        self.diagnostics.append(_at(part, "`<<` should be a mapping, or a list of mappings"))
            elif not isinstance(key, ScalarNode):
                self.diagnostics.append(_at(key, "a key should be a name"))
            elif self._is_text(key) and key.value in entries:
                line = entries[key.value][0].start_mark.line + 1
                self.diagnostics.append(_at(key, f"the key `{key.value}` is here twice; first in line {line}"))
            else:
                entries[key.value] = (key, value)
        return list((merged | entries).values())

    def _is_valid(self, node: Node) -> bool:
        if node.tag not in _KNOWN:
            self.diagnostics.append(_at(node, f"unknown tag {node.tag}"))
            return False
        try:
            value = to_python(node) if isinstance(node, ScalarNode) else None
        except (KeyError, ValueError, OverflowError, yaml.YAMLError):
            self.diagnostics.append(_at(node, f"{node.value!r} is not a YAML {node.tag.removeprefix(_YAML)}"))
            return False
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            self.diagnostics.append(_at(node, "this number is too large"))
            return False
        return not isinstance(node, ScalarNode) or self._is_text(node)

    def _is_text(self, node: ScalarNode) -> bool:
        """True for text without NUL or surrogates, which can be printed and can be a file name."""
        if "\0" not in node.value and not re.search("[\ud800-\udfff]", node.value):
            return True
        self.diagnostics.append(_at(node, "text may not contain NUL or surrogates"))
        node.value = "?"
        return False

    def _stop(self, diagnostic: Diagnostic) -> NoReturn:
        raise format_diagnostics(self.path, [*self.diagnostics, diagnostic]) from None


def _at(node: Node, message: str) -> Diagnostic:
    return Diagnostic(message, node.start_mark, node.end_mark)


def _character(message: str, name: str, text: str, index: int) -> Diagnostic:
    return Diagnostic(message, _mark(name, text, index), _mark(name, text, index + 1))


def _mark(name: str, text: str, index: int) -> Mark:
    line = text.count("\n", 0, index)
    return Mark(name, index, line, index - text.rfind("\n", 0, index) - 1, text + "\0", index)


def _items(node: Node | None) -> list[Node]:
    """The items of a list; a single node counts as a list of one."""
    return [] if node is None else node.value if isinstance(node, SequenceNode) else [node]


def _reason(path: Path, error: OSError) -> str:
    if not isinstance(error, FileNotFoundError):
        return f"cannot read {path}: {error.strerror}"
    known = [file.name for file in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    return f"there is no file {path}{suggest(path.name, known)}"
