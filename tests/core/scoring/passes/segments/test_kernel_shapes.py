"""A query has the same bits whatever other queries and slots a call of the kernel has."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from marith.scoring.passes.lanes import Lane, rectangle
from marith.scoring.passes.segments import kernel_shapes
from marith.scoring.passes.segments.kernel_shapes import BLOCK, RowCounts, read_end, row_counts
from marith.scoring.passes.segments.segment_attention import _Attention, reads

ROWS, HEADS, GROUPS, SLOTS, DIM = 7, 2, 1, 1536, 64
KINDS = [("full_attention", None), ("sliding_attention", 100), ("chunked_attention", 200)]
LENGTHS = st.integers(1, 900)


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


KEYS, VALUES = numbers(1, ROWS, HEADS, SLOTS, DIM), numbers(2, ROWS, HEADS, SLOTS, DIM)
QUERIES = numbers(3, ROWS, HEADS * GROUPS, SLOTS, DIM)  # of each row and place
ATTENTION = _Attention(KEYS, VALUES, GROUPS, DIM**-0.5, None, None)


def attended(
    texts: dict[int, tuple[int, int]], kind: str, width: int | None
) -> dict[int, torch.Tensor]:
    """The outputs of one pass, which reads tokens of texts by row, from a place up to another."""
    lanes = [Lane(row, tokens=[0] * first) for row, (first, _) in texts.items()]
    new = [[0] * (end - first) for first, end in texts.values()]
    one = rectangle(lanes, new, [None] * len(lanes), 1)
    query = torch.stack([QUERIES[row, :, first:end] for row, (first, end) in texts.items()])
    out = ATTENTION.part(reads(one, kind, width), query)
    return dict(zip(texts, out, strict=True))


@example({0: 300, 1: 440, 2: 510}, KINDS[0])
@given(st.dictionaries(st.integers(0, ROWS - 1), LENGTHS, min_size=1), st.sampled_from(KINDS))
def test_a_text_has_the_same_bits_alone_and_among_others(
    lengths: dict[int, int], layer: tuple[str, int | None]
) -> None:
    texts = {row: (end - 1, end) for row, end in sorted(lengths.items())}
    among = attended(texts, *layer)
    for row, where in texts.items():
        assert torch.equal(attended({row: where}, *layer)[row], among[row])


@example(1, [250, 60, 1, 1, 120, 3], KINDS[0])
@given(LENGTHS, st.lists(st.integers(1, 300), min_size=1, max_size=4), st.sampled_from(KINDS))
def test_a_text_has_the_same_bits_however_its_tokens_are_divided_among_passes(
    first: int, pieces: list[int], layer: tuple[str, int | None]
) -> None:
    end = min(SLOTS - BLOCK, first + sum(pieces))
    whole = attended({0: (first, end)}, *layer)[0]
    for size in pieces:
        if first < end:
            piece = attended({0: (first, min(end, first + size))}, *layer)[0]
            assert torch.equal(piece, whole[: len(piece)])
            first, whole = first + len(piece), whole[len(piece) :]


@given(st.integers(0, 2000), st.integers(1, 2000))
def test_a_read_ends_after_the_text_and_a_longer_text_ends_no_earlier(start: int, n: int) -> None:
    end = read_end(start, start + n)
    assert start + n <= end < start + n + BLOCK - kernel_shapes.SEQUENCE + 1
    assert end <= read_end(start, start + n + 1)
    assert (end - start) % BLOCK <= kernel_shapes.SEQUENCE


@given(st.integers(1, 100), st.booleans())
def test_calls_of_few_rows_give_what_one_call_gives(rows: int, masked: bool) -> None:
    counts = RowCounts(6, 0, 6, at_once=24)
    query = numbers(rows, 2, HEADS, rows, DIM)
    mask = None
    if masked:
        mask = torch.zeros(2, 1, counts.padded(rows), 128)
        mask[0, :, : rows // 2, 70:] = -torch.inf
    arguments = query, KEYS[:2, :, :128], VALUES[:2, :, :128], mask, 0.2
    one_call = RowCounts(1, 0, counts.padded(rows)).attend(*arguments)
    for here, there in zip(counts.attend(*arguments), one_call, strict=True):
        torch.testing.assert_close(here, there, atol=1e-6, rtol=1e-5)


def test_a_processor_without_stable_numbers_of_rows_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernel_shapes, "_is_stable", lambda *_: False)
    row_counts.cache_clear()
    with caplog.at_level("INFO"):
        for _ in range(2):
            assert row_counts(torch.float32, 48).at_once is None
    row_counts.cache_clear()
    [message] = caplog.messages
    assert "the last bits of attention in float32 (heads of size 48) depend on" in message
