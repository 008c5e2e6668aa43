"""docs/config.md and docs/cli.md, written from the code: `python scripts/reference.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from seq2attn.cli import app
from seq2attn.experiment.experiment_config import ExperimentConfig

DOCS = Path(__file__).parents[1] / "docs"
NOTE = "<!-- Written from the code by `python scripts/reference.py`: do not edit this page. -->"
CONFIG_INTRO = f"""\
# Config keys

{NOTE}

A config is one YAML file. `seq2attn config check CONFIG` finds mistakes in a config, each with its line; an unknown key
is a mistake. It reports all mistakes at once, except for rules between several keys: these are checked once the
sections of the keys have no other mistake. `seq2attn config show CONFIG` prints a config with all defaults, and
`seq2attn config schema` prints a JSON Schema for editors.

Two keys are not in the tables:

- `extends: base.yaml` (or a list of files) takes the values of other files. The file itself overrides them, key by key.
- `kind` chooses a component; the headings have its values. It may be left out where a default exists. With
  `kind: package.module:Class` you use a component of your own ([extending.md](extending.md)).

A component of another `kind` replaces the old one completely: its other values are dropped. The command line works in
the same way: `--set "model.encoder={{kind: lstm}}"` replaces the encoder. In contrast, `--set model.encoder.kind=lstm`
keeps the old values of all keys that the new kind has.

A duration is a number with a unit: `500 updates`, `3 epochs`, `40 minutes`, `2 hours`.
"""
CLI_INTRO = f"""\
# Commands

{NOTE}

This page has the `--help` of each command. Exit codes:

| code | meaning |
|---|---|
| 0 | success |
| 1 | `doctor`, a sweep or a reproduction found a failure; `speedrun` missed its target, or found a difference |
| 2 | an error in the input; the message says what to change |
| 75, 129, 130, 143 | an interrupted training; a checkpoint is saved if it had begun ([training](training.md#resume)) |
| 130 | another command, ended by Ctrl-C |
"""
Schema = Mapping[str, Any]
TABLE = "| key | type | default | meaning |\n|---|---|---|---|"


def config_page() -> str:
    """All config keys: a table for each section and each kind of component."""
    schema = ExperimentConfig.model_json_schema()
    _describe(schema["properties"], schema["$defs"])
    for definition in schema["$defs"].values():
        _describe(definition.get("properties", {}), schema["$defs"])
    sections = dict(_sections(schema, schema["$defs"]))
    top = [TABLE, *(_row(name, field, schema, sections) for name, field in schema["properties"].items())]
    parts = [CONFIG_INTRO, "## The file\n", "\n".join(top)]
    for name, heading in sections.items():
        section = schema["$defs"][name]
        rows = [
            _row(key, field, section, sections) for key, field in section.get("properties", {}).items() if key != "kind"
        ]
        level = "##" if re.fullmatch(r"\w+", heading) else "###"
        parts += [f"\n{level} {heading}\n", _prose(section.get("description", "")) or "\b"]
        parts += ["\n" + "\n".join([TABLE, *rows])] if rows else ["\nNo further keys."]
    return re.sub("\b\n", "", "\n".join(parts)) + "\n"


def _describe(properties: Schema, definitions: Schema) -> None:
    """A key without a description has that of its section."""
    for field in properties.values():
        if "$ref" in field and "description" not in field:
            field["description"] = definitions[field["$ref"].rpartition("/")[2]].get("description", "")


def _sections(schema: Schema, definitions: Schema) -> Iterator[tuple[str, str]]:
    """Each class of the config with its heading, in the order of the file, once."""
    seen = set[str]()

    def walk(properties: Schema, prefix: str) -> Iterator[tuple[str, str]]:
        for key, field in properties.items():
            path = f"{prefix}{key}"
            for name in _references(field):
                if name in seen:
                    continue
                seen.add(name)
                section = definitions[name]
                kinds = _kinds(section)
                yield name, f"{path}, kind {' or '.join(kinds)}" if kinds else path
                yield from walk(section.get("properties", {}), f"{path}.")

    yield from walk(schema["properties"], "")


def _references(field: Any) -> Iterator[str]:
    if isinstance(field, Mapping):
        if "$ref" in field:
            yield field["$ref"].rpartition("/")[2]
        for key, value in field.items():
            if key not in ("discriminator", "default"):
                yield from _references(value)
    elif isinstance(field, list):
        for value in field:
            yield from _references(value)


def _kinds(section: Schema) -> list[str]:
    kind = section.get("properties", {}).get("kind", {})
    return kind["enum"] if "enum" in kind else [kind["const"]] if "const" in kind else []


def _row(key: str, field: Schema, section: Schema, headings: Mapping[str, str]) -> str:
    default = "required" if key in section.get("required", ()) else _default(field)
    cells = (f"`{key}`", _type(field, headings), default, _prose(field.get("description", "")))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(field: Schema, headings: Mapping[str, str]) -> str:
    if "$ref" in field:
        heading = headings[field["$ref"].rpartition("/")[2]]
        kinds = heading.partition(", kind ")[2].replace(" or ", ", ")
        return f"[{kinds or 'section'}](#{_slug(heading)})"
    if options := field.get("anyOf", field.get("oneOf")):
        return ", ".join(dict.fromkeys(filter(None, (_type(option, headings) for option in options))))
    if "enum" in field or "const" in field:
        return ", ".join(f"`{_yaml(value)}`" for value in field.get("enum", [field.get("const")]))
    match field.get("type"):
        case "null":
            return "`null`"
        case "array":
            items = field.get("prefixItems", [field.get("items", {})])
            return "list of " + ", ".join(dict.fromkeys(_type(item, headings) for item in items))
        case "object" if isinstance(field.get("additionalProperties"), Mapping):
            return f"names, each with {_type(field['additionalProperties'], headings).replace(', ', ' or ')}"
        case "object":
            return ""  # a component of one's own
        case "string" if "pattern" in field and "epoch" in field["pattern"]:
            return "duration"
        case "string":
            return "path" if field.get("format") == "path" else "text"
        case kind:
            return f"{kind or 'any'}{_range(field)}"


def _range(field: Schema) -> str:
    signs = (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
    bounds = [f"{sign} {field[name]:g}" for name, sign in signs if name in field and abs(field[name]) < 1e18]
    return f" {', '.join(bounds)}" if bounds else ""


def _default(field: Schema) -> str:
    if "default" not in field:
        return ""
    value = field["default"]
    if isinstance(value, dict) and value:
        return f"`{value['kind']}`" if "kind" in value else ""
    return f"`{_yaml(value)}`"


def _yaml(value: Any) -> str:
    """A value as one writes it in YAML; durations are a number and a unit."""
    if isinstance(value, list | tuple):
        if len(value) == 2 and isinstance(value[1], str) and isinstance(value[0], int | float):
            return f"{value[0]:g} {value[1] if value[0] != 1 else value[1].removesuffix('s')}"
        return f"[{', '.join(map(_yaml, value))}]"
    return value if isinstance(value, str) and value else json.dumps(value)


def _slug(heading: str) -> str:
    """The anchor of a heading, on GitHub and in MkDocs."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def cli_page() -> str:
    """The help of all commands."""
    names = [*_command_names("", typer.main.get_command(app))]
    blocks = [f"## seq2attn {name}\n\n```\n{_help(name)}\n```\n" for name in names]
    return "\n".join([CLI_INTRO, *blocks])


def _command_names(name: str, command: Any) -> Iterator[str]:
    if not (commands := getattr(command, "commands", None)):
        yield name
        return
    for child, below in commands.items():
        yield from _command_names(f"{name} {child}".strip(), below)


def _help(name: str) -> str:
    environment = {"COLUMNS": "110", "TERMINAL_WIDTH": "110"}
    done = CliRunner().invoke(app, [*name.split(), "--help"], prog_name="seq2attn", env=environment)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def _prose(text: str) -> str:
    """Text on one line, with links to the pages that it names."""
    return re.sub(r"\bdocs/(\w+\.md)", r"[\1](\1)", " ".join(text.split()))


def main() -> None:
    for name, page in (("config.md", config_page()), ("cli.md", cli_page())):
        (DOCS / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
