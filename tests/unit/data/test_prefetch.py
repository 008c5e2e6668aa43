"""Prefetching in a thread."""

from __future__ import annotations

import threading

import pytest

from seq2attn.data.collate import prefetch


def test_results_are_in_order_and_one_is_computed_ahead():
    computed = []
    results = prefetch(lambda item: computed.append(item) or -item, [1, 2, 3])
    assert [next(results), next(results)] == [-1, -2]
    assert computed[:2] == [1, 2]
    assert list(results) == [-3]
    assert computed == [1, 2, 3]
    assert list(prefetch(abs, [])) == []


def test_errors_are_raised_in_their_turn():
    results = prefetch(lambda item: 1 // item, [1, 0])
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_no_thread_is_left_behind():
    before = threading.active_count()
    for _ in prefetch(abs, [1, 2, 3]):
        break
    assert threading.active_count() == before
