"""Rows are gathered as they were referred to, and copied only where they lie at odd distances."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from marith.tensor_rows import compacted, gather, rows_of, vector

TENSORS = [torch.randn(count, 3) for count in (1, 2, 5)]
ROWS = [row for tensor in TENSORS for row in rows_of(tensor)]


@given(st.lists(st.sampled_from(range(len(ROWS))), min_size=1, max_size=12))
def test_rows_come_in_the_order_of_their_references(places: list[int]) -> None:
    rows = [ROWS[place] for place in places]
    assert torch.equal(gather(rows), torch.stack([vector(row) for row in rows]))


def test_rows_at_even_distances_are_not_copied() -> None:
    tensor = TENSORS[-1]
    rows = rows_of(tensor)
    assert gather(rows) is tensor
    assert gather(rows[1:4]).data_ptr() == tensor[1:].data_ptr()
    assert gather(rows[::2]).data_ptr() == tensor.data_ptr()
    assert gather([rows[0], rows[1], rows[4]]).data_ptr() != tensor.data_ptr()


@given(st.lists(st.sampled_from(range(len(ROWS))), min_size=1, max_size=12))
def test_compacted_rows_are_the_same_and_keep_little_more_in_memory(places: list[int]) -> None:
    rows = [ROWS[place] for place in places]
    kept = compacted(rows)
    assert all(torch.equal(vector(a), vector(b)) for a, b in zip(kept, rows, strict=True))
    held = {tensor.untyped_storage().data_ptr(): tensor for tensor, _ in kept}
    size = sum(tensor.untyped_storage().nbytes() for tensor in held.values())
    assert size <= 2 * sum(vector(row).nbytes for row in rows)
