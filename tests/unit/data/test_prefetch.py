"""What is made ahead."""

from __future__ import annotations

import threading

import pytest

from seq2attn.data.prefetch import prefetch


def test_all_is_made_in_order_and_one_ahead():
    made = []
    coming = prefetch(lambda item: made.append(item) or -item, [1, 2, 3])
    assert next(coming) == -1
    assert next(coming) == -2
    assert made[:2] == [1, 2]
    assert list(coming) == [-3]
    assert made == [1, 2, 3]
    assert list(prefetch(abs, [])) == []


def test_what_goes_wrong_ahead_is_told_where_it_is_wanted():
    coming = prefetch(lambda item: 1 // item, [1, 0])
    assert next(coming) == 1
    with pytest.raises(ZeroDivisionError):
        next(coming)


def test_no_thread_is_left_behind():
    before = threading.active_count()
    for _ in prefetch(abs, [1, 2, 3]):
        break
    assert threading.active_count() == before
