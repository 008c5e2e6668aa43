"""Characters that a model knows by its training text, and those of another text that it does not.

A tokenizer with bytes has no unknown tokens, and a joint vocabulary has the letters of the other language.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import compress

from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import is_blank

MIN_SCRIPT_SHARE, MIN_LETTER_SHARE = 1e-3, 1e-4
"""Shares of the training text's characters from which a model knows all letters of a script, and a letter alone."""
MAX_UNKNOWN_SHARE, MIN_UNKNOWN = 0.01, 3
"""Share of a text's characters above which unknown ones are reported, and their minimum number."""
NUM_EXAMPLES = 5


def untagged_text(tokenizer: Tokenizer, line: str) -> str:
    """The text of a line that the tokenizer segments, without a tag."""
    return tokenizer.normalize(tokenizer.split_tag(line)[1])


def known_characters(training: Mapping[str, int]) -> frozenset[str]:
    """The characters of a training text, by their counts, without letters of scripts that it hardly has."""
    total, scripts = sum(training.values()), Counter[str]()
    for character, count in training.items():
        scripts[_script(character)] += count
    are_known = (
        count >= MIN_LETTER_SHARE * total or scripts[_script(character)] >= MIN_SCRIPT_SHARE * total
        for character, count in training.items()
    )
    return frozenset(compress(training, are_known))


def _script(character: str) -> str:
    """The first word of the name of a letter, such as LATIN or CJK; all other characters are one script."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def describe_unknown(characters: Mapping[str, int], known: Collection[str]) -> str | None:
    """The share of the `characters` of a text that are not known, with examples.

    None for a small share, and if no known ones are given: then a model may know all.
    """
    unknown = Counter({character: count for character, count in characters.items() if character not in known})
    total, num_unknown = sum(characters.values()), unknown.total()
    if not known or num_unknown < MIN_UNKNOWN or num_unknown <= MAX_UNKNOWN_SHARE * total:
        return None
    most = (character for character, _ in unknown.most_common(NUM_EXAMPLES))
    examples = " ".join(f"U+{ord(one):04X}" if is_blank(one) else one for one in most)
    return f"{num_unknown / total:.1%} of the characters, {num_unknown:,} of {total:,} ({examples})"
