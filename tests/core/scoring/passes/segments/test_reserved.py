"""Reserved memory: written values are read back, and freed memory is zero again."""

from __future__ import annotations

import mmap

import pytest
import torch

from marith.scoring.passes.segments.segment_cache import Reserved, lazy

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [16, 48, 64])
def test_written_memory_is_read_back_and_the_rest_is_zero(dtype: torch.dtype, dim: int) -> None:
    kept = Reserved(torch.zeros(1, 3, 1, dim, dtype=dtype), rows=4, capacity=1000)
    rows, heads, capacity, width = kept.tensor.shape
    assert (rows, heads, width) == (4, 3, dim)
    assert capacity >= 1000
    kept.tensor[2, :, 10:700] = 1
    assert float(kept.tensor.float().sum()) == 3 * 690 * dim


@pytest.mark.parametrize(
    ("first", "last"), [(0, None), (64, None), (0, 10_000), (0, 100), (37, 801), (64, 128), (5, 6)]
)
def test_only_whole_pages_within_the_positions_are_given_back(first: int, last: int | None) -> None:
    kept = Reserved(torch.zeros(1, 2, 1, 16), rows=3, capacity=1024)
    kept.tensor.fill_(1)
    kept.give_back(1, first, last)
    last = 1024 if last is None else last
    assert bool((kept.tensor[[0, 2]] == 1).all())
    assert bool((kept.tensor[1, :, :first] == 1).all())
    assert bool((kept.tensor[1, :, last:] == 1).all())
    whole = mmap.PAGESIZE // (16 * 4)  # positions of a page
    inside = slice(-(-first // whole) * whole, min(last, 1024) // whole * whole)
    if lazy(CPU):
        assert bool((kept.tensor[1, :, inside] == 0).all())


@pytest.mark.skipif(not lazy(CPU), reason="this system reserves no memory without taking it")
def test_a_reservation_may_be_larger_than_the_memory_of_the_machine() -> None:
    kept = Reserved(torch.zeros(1, 8, 1, 128), rows=1024, capacity=131_072)
    assert kept.tensor.nbytes >= 2**39
    kept.tensor[1023, 7, 131_071] = 3
    assert float(kept.tensor[1023, 7, 131_070:].sum()) == 3 * 128
