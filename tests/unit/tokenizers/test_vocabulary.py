"""Vocabularies: ids, files, and what is said when two do not fit."""

import re
from pathlib import Path

import pytest

from seq2attn.errors import RunError
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, Vocabulary, check_same


def test_the_special_ids() -> None:
    vocabulary = Vocabulary.from_tokens(["a"])
    assert [vocabulary.tokens[id] for id in (PAD, BOS, EOS, UNK)] == list(SPECIAL_TOKENS)
    assert vocabulary.id("a") == 4 and vocabulary.id("b") == UNK and len(vocabulary) == 5


def test_a_special_in_a_list_keeps_its_place() -> None:
    assert Vocabulary.from_tokens(["a", "<pad>", "b", "<unk>"]).tokens == (*SPECIAL_TOKENS, "a", "b")


@pytest.mark.parametrize("tokens", [(), ("a",), (*SPECIAL_TOKENS, "a", "a")])
def test_what_is_no_vocabulary(tokens: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):
        Vocabulary(tokens)


def test_counting_breaks_ties_by_code_point() -> None:
    words = ["b", "a", "c", "c", "d", "<s>"]
    assert Vocabulary.from_counts(words, 1, None).tokens[4:] == ("c", "a", "b", "d")
    assert Vocabulary.from_counts(words, 1, 6).tokens[4:] == ("c", "a")
    assert Vocabulary.from_counts(words, 2, None).tokens[4:] == ("c",)


def test_it_reads_back_what_it_wrote(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_tokens(["é", "▁", "\t", "日"])
    vocabulary.save(tmp_path / "v.json")
    assert Vocabulary.load(tmp_path / "v.json") == vocabulary
    assert [path.name for path in tmp_path.iterdir()] == ["v.json"]


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
def test_bad_files(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "v.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RunError) as error:
        Vocabulary.load(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert re.search("; prepare the data again, or copy the file from .*|upgrade seq2attn$", str(error.value))


def test_two_that_differ() -> None:
    expected, found, file = (
        Vocabulary.from_tokens("abc"),
        Vocabulary.from_tokens("axc"),
        Path("run/source/vocabulary.json"),
    )
    check_same(expected, Vocabulary.from_tokens("abc"), file)
    with pytest.raises(RunError) as error:
        check_same(expected, found, file)
    assert str(error.value) == (
        "run/source/vocabulary.json: is not the vocabulary expected: 7 entries, expected 7; "
        "the first difference is entry 5: 'x', expected 'b'"
    )
    with pytest.raises(RunError, match="5 entries, expected 7; the first difference is entry 5: nothing, exp"):
        check_same(expected, Vocabulary.from_tokens("a"), file)
