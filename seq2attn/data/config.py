"""The `data` section of a config: which text to train on and to measure on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, WrapSerializer

from seq2attn.config.base import Config, FieldError
from seq2attn.data.filter import FiltersConfig
from seq2attn.data.readers import CorpusConfig, PlainTextConfig
from seq2attn.tokenizers.vocabulary import SPECIAL_TOKENS


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _as_written(corpora: tuple[CorpusConfig, ...], serialize: SerializerFunctionWrapHandler) -> Any:
    """One corpus as a mapping rather than as a list of one, so that a key of it can be overridden."""
    listed = serialize(corpora)
    return listed[0] if len(listed) == 1 else listed


TrainingCorpora = Annotated[
    tuple[CorpusConfig, ...],
    Field(min_length=1),
    BeforeValidator(_listed, json_schema_input_type=CorpusConfig | tuple[CorpusConfig, ...]),
    WrapSerializer(_as_written),
]
"""One corpus, or a list of corpora."""


def _names_of_files(test: Mapping[str, CorpusConfig]) -> list[FieldError]:
    message = "is the name of files with translations too: take letters, digits, `_`, `-` and `.`"
    return [FieldError(f"test.{name}", message) for name in test if not re.fullmatch(r"\w[\w.-]*", name)]


def _references_are_for_scores(train: tuple[CorpusConfig, ...]) -> list[FieldError]:
    message = "are for `dev` and `test`: training takes one target a source"
    return [
        FieldError(f"train.{number}.references", message)
        for number, corpus in enumerate(train)
        if isinstance(corpus, PlainTextConfig) and corpus.references
    ]


def _tags_are_trained(
    train: tuple[CorpusConfig, ...], dev: CorpusConfig, test: Mapping[str, CorpusConfig]
) -> list[FieldError]:
    tags = {corpus.tag for corpus in train} - {None}
    mistakes = [
        FieldError(f"train.{number}.tag", f"`<{corpus.tag}>` is a special token; take another name")
        for number, corpus in enumerate(train)
        if f"<{corpus.tag}>" in SPECIAL_TOKENS
    ]
    for name, corpus in {"dev": dev, **{f"test.{name}": corpus for name, corpus in test.items()}}.items():
        if corpus.tag is not None and corpus.tag not in tags:
            known = ", ".join(f"`{tag}`" for tag in sorted(map(str, tags))) or "none"
            message = f"no corpus of `data.train` has the tag `{corpus.tag}`; known: {known}"
            mistakes.append(FieldError(f"{name}.tag", message))
        if corpus.repeat != 1:
            mistakes.append(FieldError(f"{name}.repeat", "is for `train`: what is measured on is read once"))
    return mistakes


class DataConfig(Config):
    """The text to train on and to be measured on."""

    rules = (_names_of_files, _references_are_for_scores, _tags_are_trained)

    train: TrainingCorpora
    """What the tokenizers and the model learn from: a corpus, or a list of corpora."""
    dev: CorpusConfig
    """What decides when to stop and which weights are best; never filtered."""
    test: dict[str, CorpusConfig] = Field(default_factory=dict)
    """What finished models are measured on, each set by a name; never filtered."""
    filters: FiltersConfig = FiltersConfig()
    """Which training pairs to leave out."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the training corpora, each once, in their order."""
        return tuple(dict.fromkeys(f"<{corpus.tag}>" for corpus in self.train if corpus.tag is not None))
