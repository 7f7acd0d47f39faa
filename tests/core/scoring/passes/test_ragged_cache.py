"""Rows of different lengths side by side: what is written is read, whatever grows or rolls back."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from marith.scoring.passes.rectangle_cache import KVCache

HEADS, DIM = 2, 3


def written(cache: KVCache, rows: list[int], slots: list[list[int]], seen: int) -> Tensor:
    """One update of layer 0 with new random keys (values are twice the keys)."""
    cache.aim(rows, torch.tensor(slots), seen)
    keys = torch.rand(len(rows), HEADS, len(slots[0]), DIM)
    got_keys, got_values = cache.update(keys, 2 * keys, 0)
    assert got_keys.shape == (len(rows), HEADS, seen, DIM)
    torch.testing.assert_close(got_values, 2 * got_keys)
    for i, row_slots in enumerate(slots):
        for j, slot in enumerate(row_slots):
            if slot < seen:
                torch.testing.assert_close(got_keys[i, :, slot], keys[i, :, j])
    return keys


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
        cache.resize(max(row + 1, cache.rows), max(start + count, cache.capacity))
        keys = written(cache, [row], [list(range(start, start + count))], start + count)
        before = model.get(row, torch.zeros(HEADS, 0, DIM))
        model[row] = torch.cat([before[:, :start], keys[0]], dim=1)
    for row, want in model.items():
        layer = cache.layers[0]
        torch.testing.assert_close(layer.keys[row, :, : want.shape[1]], want)
        torch.testing.assert_close(layer.values[row, :, : want.shape[1]], 2 * want)


def test_rows_of_different_lengths_are_written_in_one_pass() -> None:
    cache = KVCache(1)
    cache.resize(3, 10)
    first = written(cache, [0, 2], [[0, 1], [5, 6]], 7)
    second = written(cache, [2, 0], [[7], [2]], 8)
    keys = cache.layers[0].keys
    torch.testing.assert_close(keys[0, :, :3], torch.cat([first[0], second[1]], dim=1))
    torch.testing.assert_close(keys[2, :, 5:8], torch.cat([first[1], second[0]], dim=1))


def test_padding_is_written_out_of_sight_of_every_row() -> None:
    cache = KVCache(1)
    cache.resize(2, 4)
    written(cache, [0, 1], [[0, 1, 2], [cache.padding_slot, cache.padding_slot, 0]], 3)
    keys = cache.layers[0].keys
    assert bool((keys[1, :, 1 : cache.capacity] == 0).all())
    cache.resize(2, cache.capacity + 1)
    grown = cache.layers[0].keys
    assert bool((grown[1, :, 1:] == 0).all())


def test_a_smaller_cache_keeps_what_fits() -> None:
    cache = KVCache(2)
    cache.resize(3, 9)
    keys = written(cache, [0, 1, 2], [[0, 1], [0, 1], [0, 1]], 2)
    assert cache.bytes_of(3, 9) == 3 * 10 * 2 * HEADS * DIM * 4  # one layer has been written
    cache.resize(2, 1)
    assert (cache.rows, cache.capacity, cache.padding_slot) == (2, 1, 1)
    torch.testing.assert_close(cache.layers[0].keys[:, :, :1], keys[:2, :, :1])


def test_rows_are_copied_and_exchanged_up_to_a_length() -> None:
    cache = KVCache(1)
    cache.resize(3, 4)
    keys = written(cache, [0, 1, 2], [[0, 1, 2]] * 3, 3)
    cache.copy(0, 2, 2)
    got = cache.layers[0].keys
    torch.testing.assert_close(got[2, :, :2], keys[0, :, :2])
    torch.testing.assert_close(got[2, :, 2], keys[2, :, 2])
    cache.swap(0, 1, 3)
    torch.testing.assert_close(cache.layers[0].values[0, :, :3], 2 * keys[1])
    torch.testing.assert_close(cache.layers[0].values[1, :, :3], 2 * keys[0])
    cache.copy(7, 8, 0)  # nothing is copied from rows that are not there yet
