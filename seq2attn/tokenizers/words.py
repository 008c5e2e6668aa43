"""Words and punctuation as tokens, cut so that they can be joined again.

A line is cut into words (runs of letters, marks, digits and `_`) and single other characters. Where two
tokens touched, the punctuation carries the joiner `￭` (U+FFED) on that side; of two, the right one:

    Don't wait, (she) said.   ->   Don ￭'￭ t wait ￭, (￭ she ￭) said ￭.

so joining with spaces and then removing each `￭` with the space beside it gives the line back. A `￭` in the
text itself becomes `■`. Punctuation that is not in the vocabulary with its joiners is looked up with others or
none (vocabularies made elsewhere know `.`, not `￭.`); what is not found is `<unk>`.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from seq2attn.config.base import FieldError, InputPath
from seq2attn.errors import DataError
from seq2attn.io.text_lines import read_lines
from seq2attn.tokenizers.normalize import NormalizeConfig, collapse_whitespace
from seq2attn.tokenizers.tokenizer_files import save_tokenizer_files
from seq2attn.tokenizers.vocabulary import CONTROL_IDS, SPECIAL_TOKENS, UNK, Vocabulary, ids_to_tokens
from seq2attn.tokenizers.word_ids import assign_word_ids

JOINER = "￭"


def _one_origin(min_frequency: int, vocab_size: int | None, vocab_file: Path | None) -> list[FieldError]:
    counting = {"min_frequency": min_frequency != 1, "vocab_size": vocab_size is not None}
    message = "is for counting words, and `vocab_file` takes them from a file: leave one of the two out"
    return [FieldError(key, message) for key, is_set in counting.items() if is_set and vocab_file is not None]


class WordTokenizerConfig(NormalizeConfig):
    """A token for each word and punctuation mark of the training text; `￭` marks where no space was."""

    rules = (_one_origin,)

    kind: Literal["words"] = "words"
    pre_tokenizer: Literal["punctuation", "whitespace"] = "punctuation"
    """Cut at spaces and punctuation, or at spaces only (for text that was tokenized before)."""
    min_frequency: PositiveInt = 1
    """Words seen less often become `<unk>`."""
    vocab_size: Annotated[int, Field(gt=4)] | None = None
    """Largest vocabulary, the four special entries among it; none: no limit."""
    vocab_file: InputPath | None = None
    """Take the words from this file instead of counting them: `.txt` (a word a line) or `.json`
    (a vocabulary of ours)."""

    def train(self, lines: Iterable[str]) -> WordTokenizer:
        """Count the words of `lines`, or read the vocabulary.

        Raises: DataError or RunError for a vocabulary file that cannot be used.
        """
        if self.vocab_file is not None:
            return WordTokenizer(self, _read_vocabulary(self.vocab_file))
        words = (word for line in lines for word in self.segment(line))
        return WordTokenizer(self, Vocabulary.from_counts(words, self.min_frequency, self.vocab_size))

    def segment(self, line: str) -> list[str]:
        """The tokens of a line, with joiners."""
        line = self.normalize(line.replace(JOINER, "■"))
        return line.split() if self.pre_tokenizer == "whitespace" else list(_marked(line))


@dataclass(frozen=True)
class WordTokenizer:
    """Cuts a line into words and punctuation, and joins them again."""

    config: WordTokenizerConfig
    vocabulary: Vocabulary
    is_stochastic: ClassVar[bool] = False

    def encode(self, line: str) -> list[int]:
        """The ids of a line's words, without BOS and EOS."""
        return [self._id(word) for word in self.config.segment(line)]

    def _id(self, word: str) -> int:
        bare = word.strip(JOINER)
        ways = (word, bare, JOINER + bare, bare + JOINER, JOINER + bare + JOINER)
        # A `<s>` in the text is a word, not a control.
        return next((id for id in map(self.vocabulary.id, ways) if id >= len(SPECIAL_TOKENS)), UNK)

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        """The ids of each line: there is one way to cut it."""
        return [self.encode(line) for line in lines]

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The words as shown to people, with joiners."""
        return ids_to_tokens(self.vocabulary, ids)

    def word_ids(self, ids: Sequence[int]) -> list[int]:
        """For each id the number of the word of `decode(ids)` it belongs to; PAD, BOS and EOS: -1."""
        surfaces, touches = list[str](), False
        for id, word in zip(ids, ids_to_tokens(self.vocabulary, ids), strict=True):
            if id in CONTROL_IDS:
                surfaces.append("")
                continue
            surfaces.append(("" if touches or word.startswith(JOINER) else " ") + word.strip(JOINER))
            touches = word.endswith(JOINER)
        return assign_word_ids(surfaces)

    def decode(self, ids: Sequence[int]) -> str:
        """The text without PAD, BOS and EOS; an unknown word is shown as `<unk>`, with spaces around it."""
        words = ids_to_tokens(self.vocabulary, [id for id in ids if id not in CONTROL_IDS])
        return collapse_whitespace(re.sub(f" ?{JOINER} ?", "", " ".join(words)))

    def save(self, folder: Path) -> None:
        """Write what `load_tokenizer` reads."""
        save_tokenizer_files(folder, self.config, self.vocabulary)


def _marked(line: str) -> Iterator[str]:
    found = list(_pattern().finditer(line))
    ends, starts = [-1] + [one.end() for one in found], [one.start() for one in found] + [-1]
    for place, one in enumerate(found):
        if one.lastgroup == "word":
            yield one[0]
            continue
        left = JOINER if one.start() == ends[place] else ""
        follower_is_word = place + 1 < len(found) and found[place + 1].lastgroup == "word"
        right = JOINER if follower_is_word and one.end() == starts[place + 1] else ""
        yield left + one[0] + right


@cache
def _pattern() -> re.Pattern[str]:
    # `\w` leaves out the vowel signs and accents that many scripts write as characters of their own.
    marks = "".join(chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c))[0] == "M")
    return re.compile(rf"(?P<word>[\w{marks}]+)|\S")


def _read_vocabulary(path: Path) -> Vocabulary:
    match path.suffix:
        case ".json":
            return Vocabulary.load(path)
        case ".txt":
            words = list(read_lines(path))
        case _:
            raise DataError(f"{path}: expected a vocabulary as .txt (a word a line) or .json")
    seen: dict[str, int] = {}
    for number, word in enumerate(words, start=1):
        if word in seen:
            raise DataError(f"{path}:{number}: {json.dumps(word, ensure_ascii=False)} stands in line {seen[word]} too")
        seen[word] = number
    return Vocabulary.from_tokens(words)
