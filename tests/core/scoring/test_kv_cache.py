"""Rows of different lengths side by side: what is written is read, whatever grows or rolls back."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from marith.scoring.kv_cache import KVCache

HEADS, DIM = 2, 3


def written(cache: KVCache, rows: list[int], slots: list[list[int]], seen: int) -> Tensor:
    """One update of layer 0 with new random keys (values are twice the keys)."""
    cache.aim(torch.tensor(rows), torch.tensor(slots), seen)
    keys = torch.rand(len(rows), HEADS, len(slots[0]), DIM)
    got_keys, got_values = cache.update(keys, 2 * keys, 0)
    assert got_keys.shape == (len(rows), HEADS, seen, DIM)
    torch.testing.assert_close(got_values, 2 * got_keys)
    for i, row_slots in enumerate(slots):
        for j, slot in enumerate(row_slots):
            if slot < seen:
                torch.testing.assert_close(got_keys[i, :, slot], keys[i, :, j])
    return keys


@settings(max_examples=40, deadline=None)
@given(
    script=st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 60), st.integers(1, 5)), min_size=1, max_size=25
    )
)
def test_a_row_reads_what_was_last_written_to_it(script: list[tuple[int, int, int]]) -> None:
    cache, model = KVCache(1), {}
    for row, start, count in script:
        length = model[row].shape[1] if row in model else 0
        start = min(start, length)
        cache.reserve(row + 1, start + count)
        keys = written(cache, [row], [list(range(start, start + count))], start + count)
        before = model.get(row, torch.zeros(HEADS, 0, DIM))
        model[row] = torch.cat([before[:, :start], keys[0]], dim=1)
    for row, want in model.items():
        layer = cache.layers[0]
        torch.testing.assert_close(layer.keys[row, :, : want.shape[1]], want)
        torch.testing.assert_close(layer.values[row, :, : want.shape[1]], 2 * want)


def test_rows_of_different_lengths_are_written_in_one_pass() -> None:
    cache = KVCache(1)
    cache.reserve(3, 10)
    first = written(cache, [0, 2], [[0, 1], [5, 6]], 7)
    second = written(cache, [2, 0], [[7], [2]], 8)
    keys = cache.layers[0].keys
    torch.testing.assert_close(keys[0, :, :3], torch.cat([first[0], second[1]], dim=1))
    torch.testing.assert_close(keys[2, :, 5:8], torch.cat([first[1], second[0]], dim=1))


def test_padding_is_written_out_of_sight_of_every_row() -> None:
    cache = KVCache(1)
    cache.reserve(2, 4)
    written(cache, [0, 1], [[0, 1, 2], [cache.padding_slot, cache.padding_slot, 0]], 3)
    keys = cache.layers[0].keys
    assert bool((keys[1, :, 1 : cache.capacity] == 0).all())
    cache.reserve(2, cache.capacity + 1)
    grown = cache.layers[0].keys
    assert bool((grown[1, :, 1:] == 0).all())


def test_room_grows_by_doubling_and_never_shrinks() -> None:
    cache = KVCache(2)
    cache.reserve(1, 5)
    capacity = cache.capacity
    cache.reserve(1, capacity + 1)
    assert cache.capacity == 2 * capacity
    cache.reserve(1, 1)
    assert (cache.rows, cache.capacity) == (1, 2 * capacity)
    cache.reserve(40, 1)
    assert cache.rows >= 40
    assert cache.padding_slot == cache.capacity


def test_what_the_model_may_ask_is_what_the_next_pass_reads() -> None:
    cache = KVCache(1)
    cache.reserve(2, 10)
    cache.aim(torch.tensor([1]), torch.tensor([[3]]), 4)
    layer = cache.layers[0]
    assert layer.get_seq_length() == 4
    assert layer.get_mask_sizes(1) == (4, 0)
    assert layer.get_max_length() == cache.capacity
