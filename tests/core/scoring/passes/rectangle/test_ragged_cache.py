"""Rows of different lengths: written keys are read, whatever grows or is rolled back."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from marith.scoring.passes.rectangle.rectangle_cache import KVCache

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


def test_padding_is_written_where_no_row_reads() -> None:
    cache = KVCache(1)
    cache.resize(2, 4)
    written(cache, [0, 1], [[0, 1, 2], [cache.padding_slot, cache.padding_slot, 0]], 3)
    keys = cache.layers[0].keys
    assert bool((keys[1, :, 1 : cache.capacity] == 0).all())
    cache.resize(2, cache.capacity + 1)
    grown = cache.layers[0].keys
    assert bool((grown[1, :, 1:] == 0).all())
