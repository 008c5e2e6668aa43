"""Batches of an epoch: each pair once, none over budget, ranks equal; their tensors, and prefetching."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from seq2attn.data.batch_planner import padding_ratio, plan_batches
from seq2attn.data.collate import IGNORE_INDEX, collate, collate_source, make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.data.prefetch import prefetch
from seq2attn.errors import DataError
from seq2attn.nn.kernels.linear import ROW_MULTIPLE
from seq2attn.tokenizers.vocabulary import BOS, EOS, PAD

Length = st.integers(0, 40)
Few = st.lists(st.tuples(Length, Length), min_size=8, max_size=60).map(np.array)
Many = st.builds(
    lambda pairs, start: natural_lengths(1500)[start : start + pairs], st.integers(400, 1000), st.integers(0, 500)
)


def natural_lengths(pairs: int) -> NDArray[np.int64]:
    """Lengths distributed as in natural text."""
    random = np.random.default_rng(0)
    source = np.maximum(1, random.gamma(9, 1.65, pairs)).astype(int)
    return np.stack([source, np.maximum(1, source + random.normal(0, 2.5, pairs)).astype(int)], axis=1)


@given(
    lengths=Few | Many,
    tokens=st.integers(1, 400) | st.integers(2000, 6000),  # of `Many`, batches of more than 2 * ROW_MULTIPLE rows
    seed=st.integers(0, 2**31),
    epoch=st.integers(0, 99),
    world=st.integers(1, 8),
)
def test_each_pair_once_none_over_budget_ranks_equal(
    lengths: NDArray[np.int64], tokens: int, seed: int, epoch: int, world: int
) -> None:
    try:
        ranks = [
            plan_batches(
                lengths, tokens=tokens, seed=seed, epoch=epoch, rank=rank, num_ranks=world, row_multiple=ROW_MULTIPLE
            )
            for rank in range(world)
        ]
    except DataError:
        assert len(lengths) % world  # batches of one pair each
        return
    assert len({len(batches) for batches in ranks}) == 1
    batches = [batch for rank in ranks for batch in rank]
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) >= 1
        assert len(batch) == 1 or len(batch) * (lengths[batch].max() + 1) <= tokens


@given(short=st.integers(2 * ROW_MULTIPLE, 4 * ROW_MULTIPLE), tokens=st.integers(8 * ROW_MULTIPLE, 32 * ROW_MULTIPLE))
def test_a_large_batch_leaves_no_rows_to_one_over_budget(short: int, tokens: int) -> None:
    lengths = np.array([(1, 1)] * short + [(40, 40)] * 3)
    batches = plan_batches(lengths, tokens=tokens, seed=0, epoch=0, row_multiple=ROW_MULTIPLE)
    assert all(len(batch) * (lengths[batch].max() + 1) <= tokens for batch in batches)


@pytest.mark.parametrize("tokens", [4096, 8192])
def test_large_batches_have_a_multiple_of_rows(tokens: int) -> None:
    batches = plan_batches(natural_lengths(5000), tokens=tokens, seed=1, epoch=0, row_multiple=ROW_MULTIPLE)
    large = [len(batch) for batch in batches if len(batch) >= 2 * ROW_MULTIPLE]
    assert sum(rows % ROW_MULTIPLE == 0 for rows in large) >= len(large) - 1
    assert len(large) > 5


def test_a_plan_is_a_function_of_its_arguments() -> None:
    lengths = natural_lengths(2000)

    def plan(seed: int, epoch: int) -> list[list[int]]:
        return [batch.tolist() for batch in plan_batches(lengths, tokens=512, seed=seed, epoch=epoch)]

    assert plan(1, 2) == plan(1, 2)
    assert len({str(plan(*at)) for at in ((1, 2), (2, 1), (1, 3), (3, 3))}) == 4
    sets = [{frozenset(batch) for batch in plan(1, epoch)} for epoch in (0, 1)]
    assert len(sets[0] & sets[1]) < 0.2 * len(sets[0])  # other pairs in a batch, not only another order


def test_little_padding() -> None:
    lengths = natural_lengths(30_000)
    batches = plan_batches(lengths, tokens=4096, seed=0, epoch=0)
    assert padding_ratio(lengths, batches) < 0.03
    assert len(batches) < 1.1 * (lengths.max(axis=1) + 1).sum() / 4096
    lengths = np.array([[1, 3], [3, 1], [1, 1]])  # both sides count
    assert padding_ratio(lengths, [np.array([0, 1]), np.array([2])]) == pytest.approx(4 / 20)


def test_too_few_pairs_for_the_processes() -> None:
    with pytest.raises(DataError, match="batches of one pair each, 3 in all, cannot be shared equally by 2 processes"):
        plan_batches(np.full((3, 2), 9), tokens=1, seed=0, epoch=0, num_ranks=2)


def test_collate() -> None:
    batch = collate([([5, 6, 7], [8]), (np.array([9], dtype=np.uint16), np.array([10, 11], dtype=np.uint16))])
    assert batch.source.tolist() == [[5, 6, 7, EOS], [9, EOS, PAD, PAD]]
    assert batch.sequences.mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.sequences.lengths.tolist() == [4, 2]
    assert batch.target.tolist() == [[BOS, 8, PAD], [BOS, 10, 11]]
    assert batch.labels.tolist() == [[8, EOS, IGNORE_INDEX], [10, 11, EOS]]
    assert batch.label_index.tolist() == [0, 1, 3, 4, 5]
    assert batch.source.dtype == batch.target.dtype == batch.labels.dtype == batch.label_index.dtype == torch.int64
    moved = batch.to("meta")
    tensors = [value for value in vars(moved).values() if isinstance(value, torch.Tensor)]
    assert {tensor.device.type for tensor in (*tensors, moved.sequences.mask)} == {"meta"}
    assert moved.sequences.lengths.device.type == "cpu"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("size", [2**16, 2**20])  # of 16 and of 32 bits
def test_a_batch_of_a_corpus_is_that_of_its_pairs(packed: bool, size: int) -> None:
    pairs = [([5, 6, 7], [8]), ([], [9, size - 1]), ([10], []), ([4] * 9, [7] * 5)]
    corpus, rows = Corpus.from_pairs(pairs, size), [3, 1, 2, 1]
    batch = make_batch(corpus, rows, packed=packed)
    expected = collate([pairs[row] for row in rows], packed=packed)
    for name, tensor in vars(expected).items():
        if isinstance(tensor, torch.Tensor):
            assert torch.equal(getattr(batch, name), tensor) and getattr(batch, name).dtype == tensor.dtype, name
    assert torch.equal(batch.sequences.mask, expected.sequences.mask)
    assert (batch.target_layout is None) == (expected.target_layout is None) == (not packed)
    assert (batch.sequences.layout is None) == (expected.sequences.layout is None) == (not packed)
    assert batch.alignment_targets is None


def test_collate_source_takes_empty_lines() -> None:
    source, sequences = collate_source([[], [4]])
    assert source.tolist() == [[EOS, PAD], [4, EOS]] and sequences.mask.tolist() == [[True, False], [True, True]]
    assert sequences.lengths.tolist() == [1, 2]


def test_prefetched_results_are_in_order_and_one_is_computed_ahead():
    computed = []
    results = prefetch(lambda item: computed.append(item) or -item, [1, 2, 3])
    assert [next(results), next(results)] == [-1, -2]
    assert computed[:2] == [1, 2]
    assert list(results) == [-3]
    assert computed == [1, 2, 3]
    assert list(prefetch(abs, [])) == []
    ahead = threading.Event()
    results = prefetch(lambda item: ahead.set() if item == 2 else None, [1, 2, 3])
    next(results)
    assert ahead.wait(10)


def test_errors_of_prefetching_are_raised_in_their_turn():
    results = prefetch(lambda item: 1 // item, [1, 0])
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_no_thread_is_left_behind():
    before = threading.active_count()
    for _ in prefetch(abs, [1, 2, 3]):
        break
    assert threading.active_count() == before
