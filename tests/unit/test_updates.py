"""How many tokens fit, and what is made ahead."""

from __future__ import annotations

import threading

import pytest

from seq2attn.data.ahead import ahead
from seq2attn.training.updates import FIRST, MARGIN, most


@pytest.mark.parametrize("room", [2_000, 5_000, 300_000, 1_234_567])
def test_nearly_all_of_the_room_is_found_and_a_margin_left(room):
    tried = []

    def holds(tokens):
        tried.append(tokens)
        return tokens <= room

    found = most(holds)
    assert found >= FIRST
    assert (1 - 1 / 8) * MARGIN * room <= max(found, FIRST / MARGIN) <= max(room, FIRST / MARGIN)
    assert len(tried) <= 16


def test_all_is_made_in_order_and_one_ahead():
    made = []
    coming = ahead(lambda item: made.append(item) or -item, [1, 2, 3])
    assert next(coming) == -1
    assert next(coming) == -2
    assert made[:2] == [1, 2]
    assert list(coming) == [-3]
    assert made == [1, 2, 3]
    assert list(ahead(abs, [])) == []


def test_what_goes_wrong_ahead_is_told_where_it_is_wanted():
    coming = ahead(lambda item: 1 // item, [1, 0])
    assert next(coming) == 1
    with pytest.raises(ZeroDivisionError):
        next(coming)


def test_no_thread_is_left_behind():
    before = threading.active_count()
    for _ in ahead(abs, [1, 2, 3]):
        break
    assert threading.active_count() == before
