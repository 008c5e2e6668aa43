"""Merge of the YAML of several files and of the command line."""

from dataclasses import replace

from pydantic import ValidationError

from seq2attn.config.base import Config
from seq2attn.config.kinds import KeyType
from seq2attn.config.yaml_tree import COMMAND_LINE, Names, YAMLValue


def merge(base: YAMLValue, over: YAMLValue, model: type[Config], dropped: list[str] | None = None) -> YAMLValue:
    """`over` merged into `base`: mappings recursively; other values, and components of another kind, replace.

    A component whose kind alone was overridden, such as by `model.encoder.kind=lstm`, is merged too. With a list
    `dropped` it loses the keys that its new kind lacks, and a message about those that had not their default is added.
    """

    def merged(old: YAMLValue, new: YAMLValue, key_type: KeyType, names: Names) -> YAMLValue:
        if not (isinstance(old.content, dict) and isinstance(new.content, dict)):
            return new
        old_kind = key_type.default_kind if old.kind is None else old.kind
        is_other_kind = new.kind not in (None, old_kind)
        if is_other_kind and old_kind is not None and new.node.value:
            return new
        both = replace(new, content={**old.content, **new.content})
        new_class = key_type.config_class(both)
        if dropped is not None and is_other_kind and new_class:
            lost = [key for key in old.content if key not in new.content and key not in new_class.model_fields]
            for key in lost:
                del both.content[key]
            old_class = key_type.config_class(old)
            if named := [key for key in lost if not _is_default(old_class, old, key)]:
                keys = ", ".join(f"`{'.'.join((*names, key))}`" for key in named)
                dropped.append(f"`{'.'.join(names)}` of kind `{new.kind}` has no {keys}: dropped")
        for key in [key for key in old.content if key in new.content]:
            inner = key_type.child(both, key)
            both.content[key] = merged(old.content[key], new.content[key], inner, (*names, key))
        if new.node.start_mark.name == COMMAND_LINE and (old.node.value or not new.node.value):
            return replace(old, content=both.content)  # errors in the mapping have their place in a file rather
        return both

    return merged(base, over, KeyType(model), ())


def _is_default(section: type[Config] | None, value: YAMLValue, key: str) -> bool:
    """True if the section has the default value of `key`."""
    if section is None or key not in section.model_fields:
        return False
    try:
        fields = dict(section.model_validate(value.data))
    except ValidationError:
        return False
    return bool(fields[key] == section.model_fields[key].get_default(call_default_factory=True))
