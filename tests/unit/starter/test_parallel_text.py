"""The laws of a dev set that is split off, and of the sample of a text."""

import random
from pathlib import Path

import numpy as np
import pytest

from seq2attn.errors import DataError
from seq2attn.starter.parallel_text import MAX_CHARACTERS, SAMPLE_PAIRS, ParallelText, split_rows, write_split
from tests.support.commands import write_lines


def write_pairs(folder: Path, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    for name, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        write_lines(folder / name, lines)
    return folder / "source", folder / "target"


def connected_pairs(seed: int, number: int = 300, sentences: int = 400) -> list[tuple[str, str]]:
    """Random pairs, many of which have a sentence in common, with or without a space before it."""
    draw = random.Random(seed)
    return [
        (f"s{draw.randrange(sentences)}", f"{draw.choice(('', ' '))}t{draw.randrange(sentences)}")
        for _ in range(number)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_no_sentence_is_on_both_sides(tmp_path, seed):
    pairs = connected_pairs(seed)
    files = write_pairs(tmp_path, pairs)
    rows = split_rows(files, 30)
    assert rows.sum() == 30 and np.array_equal(rows, split_rows(files, 30))
    dev, train = (
        {text.strip() for row, pair in zip(rows, pairs, strict=True) if row == is_dev for text in pair}
        for is_dev in (True, False)
    )
    assert dev and train and not dev & train


def test_pairs_with_a_sentence_in_common_are_not_split(tmp_path):
    """Each pair of a chain has one in common with the next, in any order; a single one has none."""
    chain = [(f"s{(number + 1) // 2}", f"t{number // 2}") for number in range(100)]
    random.Random(1).shuffle(chain)
    rows = split_rows(write_pairs(tmp_path, [*chain, ("single", "one")]), 1)
    assert np.flatnonzero(rows).tolist() == [100]
    with pytest.raises(DataError, match="a dev set of 10 is too large"):
        split_rows(write_pairs(tmp_path, chain), 10)


def test_all_lines_are_kept_in_their_order(tmp_path):
    pairs = connected_pairs(7)
    files = write_pairs(tmp_path, pairs)
    rows = split_rows(files, 20)
    write_split(files, rows, tmp_path / "split")
    for part, is_dev in zip(ParallelText.read(files).split(rows, tmp_path / "split"), (False, True), strict=True):
        written = ParallelText.read(part.files)
        assert written.num_pairs == part.num_pairs
        assert written.sample == [pair for pair, row in zip(pairs, rows, strict=True) if row == is_dev]


@pytest.mark.parametrize("number", [1, 50, 2 * SAMPLE_PAIRS - 1, 2 * SAMPLE_PAIRS, 7 * SAMPLE_PAIRS + 3])
def test_a_sample_is_spread_evenly(tmp_path, number):
    text = ParallelText.read(write_pairs(tmp_path, [(f"{row}", "a") for row in range(number)]))
    places = np.array([int(source) for source, _ in text.sample])
    step = number / len(places)
    assert text.num_pairs == number and min(number, SAMPLE_PAIRS) <= len(places) < 2 * SAMPLE_PAIRS
    assert len(set(np.diff(places))) <= 1 and places[0] <= step + 1 and number - places[-1] <= step + 1
    train, dev = text.split(np.arange(number) < min(number, 20), tmp_path)
    assert len(dev.sample) == dev.num_pairs == min(number, 20) and train.num_pairs == number - dev.num_pairs


def test_a_very_long_line_is_cut_in_a_sample_only(tmp_path):
    """A trial would take minutes to translate such a line of a dev set."""
    pairs = [("a", "b"), ("word " * MAX_CHARACTERS, "c")]
    files = write_pairs(tmp_path, pairs)
    assert max(len(line) for pair in ParallelText.read(files).sample for line in pair) == MAX_CHARACTERS
    write_split(files, np.array([False, True]), tmp_path / "split")
    assert (tmp_path / "split/dev.source").read_text(encoding="utf-8") == pairs[1][0] + "\n"
    assert ParallelText.read(files, others=ParallelText.read(files).sample).num_found == 2


def test_pairs_of_another_text_are_counted_once(tmp_path):
    pairs = [("a", "b"), ("c", "d"), ("a", "b"), ("a", "d")]
    text = ParallelText.read(write_pairs(tmp_path, pairs), others=[("a", "b"), ("c", "x"), ("a", "d")])
    assert text.num_found == 2
