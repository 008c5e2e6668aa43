"""Vocabularies: ids, files, and errors."""

from pathlib import Path

import pytest

from seq2attn.errors import RunError
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, Vocabulary, check_same


def test_ids() -> None:
    vocabulary = Vocabulary.from_tokens(["a", "<pad>", "b", "<unk>"])
    assert vocabulary.tokens == (*SPECIAL_TOKENS, "a", "b") and len(vocabulary) == 6
    assert [vocabulary.tokens[id] for id in (PAD, BOS, EOS, UNK)] == list(SPECIAL_TOKENS)
    assert vocabulary.id("b") == 5 and vocabulary.id("c") == UNK


@pytest.mark.parametrize("tokens", [(), ("a",), (*SPECIAL_TOKENS, "a", "a")])
def test_invalid_vocabularies(tokens: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):
        Vocabulary(tokens)


def test_equal_counts_are_in_the_order_of_code_points() -> None:
    tokens = ["b", "a", "c", "c", "d", "<s>"]
    assert Vocabulary.from_counts(tokens, 1, None).tokens[4:] == ("c", "a", "b", "d")
    assert Vocabulary.from_counts(tokens, 1, 6).tokens[4:] == ("c", "a")
    assert Vocabulary.from_counts(tokens, 2, None).tokens[4:] == ("c",)


def test_it_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_tokens(["é", "▁", "\t", "日"])
    vocabulary.save(tmp_path / "v.json")
    assert Vocabulary.load(tmp_path / "v.json") == vocabulary


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read (No such file or directory)"),
        ("{", "is not JSON"),
        ("[]", "expected a JSON object, found a list"),
        ("{}", "has no list of tokens"),
        ('{"tokens": [1]}', "has no list of tokens"),
        ('{"tokens": ["a"]}', "a vocabulary begins with"),
    ],
)
def test_invalid_files(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "v.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RunError) as error:
        Vocabulary.load(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert str(error.value).endswith("; copy the whole run directory from where it was made, or make it again")


def test_differences() -> None:
    expected, path = Vocabulary.from_tokens("abc"), Path("run/source/vocabulary.json")
    check_same(expected, Vocabulary.from_tokens("abc"), path)
    with pytest.raises(RunError) as error:
        check_same(expected, Vocabulary.from_tokens("axc"), path)
    assert str(error.value) == (
        "run/source/vocabulary.json: is not the vocabulary expected: 7 entries, expected 7; "
        "the first difference is entry 5: 'x', expected 'b'"
    )
    with pytest.raises(RunError, match="5 entries, expected 7; the first difference is entry 5: nothing, expected 'b'"):
        check_same(expected, Vocabulary.from_tokens("a"), path)


def test_a_token_is_composed_of_the_fewest_entries():
    entries = Vocabulary.from_tokens(["<0xC3>", "<0xA4>", "▁h", "▁haus", "a", "u", "s", "au", "boot", "<2en>"])

    def compose(token):
        return [entries.tokens[id] for id in entries.compose(token)]

    assert compose("▁haus") == ["▁haus"] and compose("<2en>") == ["<2en>"]
    assert compose("▁hausboot") == ["▁haus", "boot"] and compose("aus") == ["au", "s"]
    assert compose("sä") == ["s", "<0xC3>", "<0xA4>"]
    assert compose("x") == compose("▁") == compose("<2de>") == compose("<0xC4>") == []


def test_parts_of_a_long_token_that_no_entry_has_are_not_tried():
    """A text may have a word of thousands of letters, such as a number in base 64."""

    class Counted(str):
        num_parts = 0

        def __getitem__(self, key):
            Counted.num_parts += isinstance(key, slice)
            return super().__getitem__(key)

    entries = Vocabulary.from_tokens(["a", "b", "ab", "longer"])
    assert len(entries.compose(Counted("ab" * 500))) == 500
    assert Counted.num_parts <= 1000 * len("longer")
