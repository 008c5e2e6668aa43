"""The `data` section of a config: training text, dev set and test sets."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, WrapSerializer

from seq2attn.config.base import Config, FieldError, to_list
from seq2attn.data.filter import FiltersConfig
from seq2attn.data.readers import CorpusConfig, PlainTextConfig
from seq2attn.tokenizers.vocabulary import SPECIAL_TOKENS


def _serialize(corpora: tuple[CorpusConfig, ...], serialize: SerializerFunctionWrapHandler) -> Any:
    """A single corpus as a mapping, so that its keys can be overridden; several as a list."""
    mappings = serialize(corpora)
    return mappings[0] if len(mappings) == 1 else mappings


TrainingCorpora = Annotated[
    tuple[CorpusConfig, ...],
    Field(min_length=1),
    BeforeValidator(to_list, json_schema_input_type=CorpusConfig | tuple[CorpusConfig, ...]),
    WrapSerializer(_serialize),
]
"""One corpus, or a list of corpora."""


def _without_null(value: Any) -> Any:
    """The corpora that are not null, which removes those of an extended file."""
    if isinstance(value, Mapping):
        return {name: corpus for name, corpus in value.items() if corpus is not None}
    return {} if value is None else value


NamedCorpora = Annotated[
    dict[str, CorpusConfig],
    BeforeValidator(_without_null, json_schema_input_type=dict[str, CorpusConfig | None] | None),
]
"""Corpora by name."""


class DataConfig(Config):
    """The text for training, validation and evaluation."""

    train: TrainingCorpora
    """Training text of the tokenizers and the model: a corpus, or a list of corpora."""
    dev: CorpusConfig
    """Text for validation: early stopping and the choice of checkpoints; never filtered."""
    test: NamedCorpora = Field(default_factory=dict)
    """Test sets by name, for `evaluate`; never filtered. null removes all test sets of an extended file, or one."""
    filters: FiltersConfig = FiltersConfig()
    """Filters for training pairs."""

    def check_fields(self) -> Iterator[FieldError]:
        """Errors of names of test sets, and of options of corpora that are not used there."""
        message = "is also a file name: use letters, digits, `_`, `-` and `.`"
        yield from (FieldError(f"test.{name}", message) for name in self.test if not re.fullmatch(r"\w[\w.-]*", name))
        for number, corpus in enumerate(self.train):
            if isinstance(corpus, PlainTextConfig) and corpus.references:
                message = "are for `dev` and `test`: training uses one target for each source"
                yield FieldError(f"train.{number}.references", message)
            if f"<{corpus.tag}>" in SPECIAL_TOKENS:
                message = f"`<{corpus.tag}>` is a special token; use another name"
                yield FieldError(f"train.{number}.tag", message)
        tags = {corpus.tag for corpus in self.train} - {None}
        known_tags = ", ".join(f"`{tag}`" for tag in sorted(map(str, tags))) or "none"
        for name, corpus in {"dev": self.dev, **{f"test.{name}": corpus for name, corpus in self.test.items()}}.items():
            if corpus.tag is not None and corpus.tag not in tags:
                message = f"no corpus of `data.train` has the tag `{corpus.tag}`; known: {known_tags}"
                yield FieldError(f"{name}.tag", message)
            if corpus.repeat != 1:
                yield FieldError(f"{name}.repeat", "is for `train`: dev and test sets are used once")

    @property
    def training_files(self) -> tuple[set[Path], set[Path]]:
        """The files of the training sources and of the targets, where they are separate."""
        corpora = [corpus for corpus in self.train if isinstance(corpus, PlainTextConfig)]
        return {corpus.source for corpus in corpora}, {corpus.target for corpus in corpora}

    @property
    def has_alignments(self) -> bool:
        """True if a training corpus has word alignments."""
        return any(isinstance(corpus, PlainTextConfig) and corpus.alignment is not None for corpus in self.train)

    @property
    def tags(self) -> tuple[str, ...]:
        """The distinct tags of the training corpora, in their order."""
        return tuple(dict.fromkeys(f"<{corpus.tag}>" for corpus in self.train if corpus.tag is not None))
