"""Lines of public corpora: nothing is lost or shared between splits."""

import random
from itertools import combinations

import pytest

from seq2attn.data import corpus_formats
from seq2attn.data.corpus_formats import plain, tatoeba, unescaped


@pytest.mark.parametrize("seed", range(4))
def test_splits_of_tatoeba_share_no_sentence(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_formats, "HELD_OUT_PAIRS", 20)
    rng = random.Random(seed)
    pairs = [(f"e{rng.randrange(150)}", f"d{rng.randrange(150)}") for _ in range(90)]
    pairs += [("hub", f"h{i}") for i in range(40)]  # too large a group to be held out
    lines = ["\t".join(pair).encode() + b"\tCC-BY\n" for pair in pairs] + [b"alone\n", b"empty\t\n"]

    def sides(split: str) -> list[list[bytes]]:
        return [[*tatoeba(lines, split=split, column=column)] for column in (0, 1)]

    splits = [sides(split) for split in ("train", "dev", "test")]
    assert [len(side) for split in splits[1:] for side in split] == [20] * 4
    for first, second in combinations(splits, 2):
        assert not {*first[0]} & {*second[0]} and not {*first[1]} & {*second[1]}
    found = [pair for english, german in splits for pair in zip(english, german, strict=True)]
    assert sorted(found) == sorted({(f"{e}\n".encode(), f"{d}\n".encode()) for e, d in pairs})
    rng.shuffle(lines)
    assert [sides(split) for split in ("train", "dev", "test")] == splits


def test_lines_end_at_newlines_only() -> None:
    assert [*plain([b"a\xe2\x80\xa8b\r\n", b"c"])] == [b"a\xe2\x80\xa8b\n", b"c\n"]
    assert [*unescaped([b"I &apos;d &amp; \xff\n"])] == [b"I 'd & \xff\n"]
