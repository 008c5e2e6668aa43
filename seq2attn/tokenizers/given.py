"""The config of tokenizers in files of a pretrained model, which are not trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import model_validator

from seq2attn.config.base import Config, FieldError, input_path
from seq2attn.config.plugin import fill_in
from seq2attn.errors import DataError
from seq2attn.io.files import sha256_json, sha256_of

FILES_CHANGED = "the files have changed since `digest` was written; remove `digest` from the config to use them"


class GivenTokenizerConfig(Config):
    """A tokenizer in files of a pretrained model, which is not trained."""

    file_keys: ClassVar[Sequence[str]] = ("path",)
    """Keys of the files."""
    digest: str = ""
    """SHA-256 of the files; filled in, so that a run does not need them."""
    vocab_size: ClassVar[None] = None
    """No maximum: the size is that of the files."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_digest(cls, data: Any) -> Any:
        return fill_in(data, "digest", cls.digest_of)

    @classmethod
    def digest_of(cls, fields: Mapping[str, Any]) -> str:
        """SHA-256 of the files that a config names. Raises FieldError for one that cannot be read."""
        names = [key for key in cls.file_keys if isinstance(fields.get(key), str | Path)]
        return sha256_json([file_digest(key, fields[key]) for key in names])

    def check_digest(self) -> None:
        """Raises DataError if the files are not those of the digest."""
        fields = dict(self)
        try:
            is_same = self.digest_of(fields) == self.digest
        except FieldError as error:  # the digest was filled in on another machine, or the files are gone
            raise DataError(error.message) from None
        if not is_same:
            raise DataError(f"{fields['path']}: {FILES_CHANGED}")


def file_digest(key: str, path: str | Path) -> str:
    """SHA-256 of the file at a key of a config. Raises FieldError for one that cannot be read."""
    try:
        return sha256_of(input_path(key, path))
    except OSError as error:
        raise FieldError(key, f"{path} cannot be read ({error.strerror})") from None
