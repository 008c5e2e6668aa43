"""The JSON Schema of a config, for editors that complete and check YAML."""

from __future__ import annotations

from typing import Any

from seq2attn.config.base import Config

_EXTENDS = {
    "description": "The file, or list of files, that this one overrides; paths are relative to it.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
}


def json_schema(model: type[Config]) -> dict[str, Any]:
    """JSON Schema of a config file. No key is required, since an extended file may have it."""
    schema = _open(model.model_json_schema())
    for part in (schema, *schema.get("$defs", {}).values()):
        part.pop("required", None)
    properties = {"extends": _EXTENDS, **schema.pop("properties", {})}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "properties": properties}


def _open(schema: Any) -> Any:
    """`schema` with `anyOf` for `oneOf`: without `kind`, which an extended file may have, several kinds match."""
    if isinstance(schema, list):
        return [_open(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "oneOf" in schema:
        schema = {"anyOf": schema["oneOf"], **schema}
        del schema["oneOf"]
        schema.pop("discriminator", None)
    return {key: _open(value) for key, value in schema.items()}
