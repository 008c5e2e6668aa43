"""The `tokenizer` section of a config."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from seq2attn.config.base import Config, FieldError, RunPath, run_path
from seq2attn.config.plugin import is_of_run
from seq2attn.errors import RunError
from seq2attn.io.files import MAX_FILE_BYTES, read_object, validate
from seq2attn.tokenizers.base import LEADING_TAG, TAGS_FILE, TOKENIZER_FILE, VOCABULARY_FILE, Tokenizer, TokenizerPair
from seq2attn.tokenizers.given import GivenTokenizerConfig
from seq2attn.tokenizers.hf_tokenizer import HFTokenizerConfig
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizerConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig, UnigramTokenizerConfig
from seq2attn.tokenizers.vocabulary import TOKENIZER_HINT, Vocabulary, check_same
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from seq2attn.tokenizers.words import CharacterTokenizerConfig, WordTokenizerConfig

TokenizerConfig = Annotated[
    BPETokenizerConfig
    | UnigramTokenizerConfig
    | WordTokenizerConfig
    | CharacterTokenizerConfig
    | WordPieceTokenizerConfig
    | SentencePieceTokenizerConfig
    | HFTokenizerConfig,
    Field(discriminator="kind"),
]


def _read_sides(run: Path) -> dict[str, Any]:
    """The settings of the tokenizers of a run: `joint` if both sides have the same."""
    hint = "give the run directory of a training"
    try:
        source, target = (
            (
                read_object(run / side / TOKENIZER_FILE, hint).get("config"),
                read_object(run / side / VOCABULARY_FILE, hint, MAX_FILE_BYTES),
            )
            for side in ("source", "target")
        )
    except RunError as error:
        raise FieldError("run_dir", str(error)) from None
    if source == target:
        return {"joint": source[0]}
    return {"source": source[0], "target": target[0]}


class TokenizersConfig(Config):
    """The tokenizers of both languages: one `joint`, or one for `source` and one for `target`, or those of a run."""

    joint: TokenizerConfig | None = None
    """One tokenizer and one vocabulary, trained on both sides."""
    source: TokenizerConfig | None = None
    """The tokenizer of the source language."""
    target: TokenizerConfig | None = None
    """The tokenizer of the target language."""
    run_dir: RunPath | None = None
    """Take the tokenizers and vocabularies of this run, relative to the working directory, instead of training new
    ones. Their settings are filled in, and then the run is only needed to prepare the text."""
    right_to_left: bool = False
    """Target tokens in reverse order, for a model that writes translations from their end (Liu et al. 2016)."""
    reverse_source: bool = False
    """Source tokens in reverse order, for decoders without attention (Sutskever et al. 2014, section 3.3)."""

    @model_validator(mode="before")
    @classmethod
    def _read_run(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(run := data.get("run_dir"), str | Path):
            return data
        if any(data.get(side) for side in ("joint", "source", "target")):
            return data
        if isinstance(run, str) and is_of_run(run):
            raise FieldError("run_dir", "the settings of its tokenizers are missing, which the config of a run has")
        return {**data, **_read_sides(run_path(run))}

    def check_fields(self) -> Iterator[FieldError]:
        """Errors of sides without a tokenizer, or with one that does not support its use."""
        joint, source, target = self.joint, self.source, self.target
        message = "has no tokenizer: give `joint`, or both `source` and `target`"
        if joint is not None:
            message = "`joint` is for both sides: leave this out, or leave `joint` out and give both sides"
        sides = {"source": source, "target": target}
        yield from (FieldError(side, message) for side, one in sides.items() if (one is None) == (joint is None))
        message = "`wordpiece` is for the source: its decoding does not restore the text exactly"
        for side, config in {"joint": joint, "target": target}.items():
            if isinstance(config, WordPieceTokenizerConfig):
                yield FieldError(f"{side}.kind", message)
        for key, config in {"right_to_left": joint or target, "reverse_source": joint or source}.items():
            if dict(self)[key] and isinstance(config, GivenTokenizerConfig):
                message = f"needs a tokenizer that is trained here; `{config.kind}` belongs to a pretrained model"
                yield FieldError(key, message)

    @property
    def is_joint(self) -> bool:
        """True if one tokenizer is trained on both sides."""
        return self.joint is not None

    @property
    def shares_vocabulary(self) -> bool:
        """True if both sides have the same vocabulary."""
        source, target = (config.vocabulary_source for config in self.per_side)
        return self.is_joint or (source is not None and source == target)

    @property
    def per_side(self) -> tuple[TokenizerConfig, TokenizerConfig]:
        """The tokenizers of source and target: the same one twice if it is joint."""
        source, target = self.joint or self.source, self.joint or self.target
        assert source is not None and target is not None  # guaranteed by check_fields
        return source, target


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer saved in `folder`. Raises RunError when a file is missing or the files do not belong together."""
    header = read_object(folder / TOKENIZER_FILE, TOKENIZER_HINT)
    problem = "describes no tokenizer known to this version"
    kinds: Any = TokenizerConfig
    config: TokenizerConfig = validate(kinds, header.get("config"), folder / TOKENIZER_FILE, problem, TOKENIZER_HINT)
    vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
    tokenizer: Tokenizer = config.load(folder, vocabulary)
    check_same(vocabulary, tokenizer.vocabulary, folder / next(iter(tokenizer.files), VOCABULARY_FILE))
    tokenizer = tokenizer.with_direction(right_to_left=header.get("right_to_left") is True)
    return _with_tags(tokenizer, folder / TAGS_FILE) if (folder / TAGS_FILE).exists() else tokenizer


def _with_tags(tokenizer: Tokenizer, path: Path) -> Tokenizer:
    content = read_object(path, TOKENIZER_HINT)
    tags = content.get("tags")
    if not isinstance(tags, list) or not all(isinstance(tag, str) and LEADING_TAG.match(tag) for tag in tags):
        raise RunError(f"{path}: does not list tags; {TOKENIZER_HINT}")
    return tokenizer.with_tags(tuple(tags), required=content.get("required") is True)


def load_tokenizers(folder: Path) -> TokenizerPair:
    """The tokenizers of source and target that are saved in `folder`. Raises RunError as `load_tokenizer`."""
    return TokenizerPair(load_tokenizer(folder / "source"), load_tokenizer(folder / "target"))
