"""Shapes in which torch's attention kernel is called, so that no text changes another text's bits.

The kernel reads slots in blocks of `BLOCK`. For each block it computes two matrix products, and the
order of their additions depends on the shape of the products: on the number of query rows, and on
the number of slots of the last block. So query rows are padded, and a read ends where the order of
additions is the same as in a longer read. Which numbers of rows are safe depends on the processor;
they are measured once for each dtype and head size.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from marith.scoring.notices import note_neighbors

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_log = logging.getLogger(__name__)
# The kernel reads this number of slots at a time.
BLOCK = 512
# A product over at most this number of slots adds them in one sequence. A product over a whole
# block adds several sequences, and the first of them has at least this number of slots. It is the
# smallest number of the processors that were tried: 256 on most, and 192 on an AMD EPYC with
# avx512_vp2intersect.
SEQUENCE = 192
# The number of slots of a read is a multiple of this number, because the kernel adds the last slots
# one by one if they do not fill its vectors.
STEP = 16


def read_end(start: int, end: int) -> int:
    """Return the end of a read from slot `start` on, which contains the slots up to `end`.

    All reads with this end, or with a later end of the same rule, have the same bits.
    """
    count = -(-(end - start) // STEP) * STEP
    if count % BLOCK > SEQUENCE:
        count = -(-count // BLOCK) * BLOCK
    return start + count


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The numbers of query rows with which the kernel is called.

    There are at least `least` rows. The number of more than `few` rows is a multiple of `multiple`,
    because the kernel itself divides many rows into blocks, and the last block may not be small.
    More than `at_once` rows are divided into calls of `at_once` rows; None if one call may have any
    number of rows.
    """

    least: int
    few: int
    multiple: int
    at_once: int | None = None

    def padded(self, rows: int) -> int:
        """Return the number of rows after padding."""
        if rows <= self.few:
            return max(rows, self.least)
        multiple = self.multiple
        if self.at_once is not None and rows > self.at_once:
            multiple = self.at_once
        return -(-rows // multiple) * multiple

    def attend(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs of attention, and the logsumexp of the scores.

        `query` is [texts, heads, rows, dim], and `keys` and `values` are [texts, heads, slots,
        dim]. The mask [texts or 1, 1, padded(rows), slots] is added to the scores.
        """
        rows = query.shape[2]
        padded = self.padded(rows)
        if padded > rows:
            query = functional.pad(query, (0, 0, 0, padded - rows))
        if self.at_once is None or padded <= self.at_once:
            out, score = _flash(query, keys, values, attn_mask=mask, scale=scale)
        else:
            out, score = self._in_calls(query, keys, values, mask, scale)
        return (out[:, :, :rows], score[:, :, :rows]) if padded > rows else (out, score)

    def _in_calls(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float
    ) -> tuple[Tensor, Tensor]:
        """Call the kernel once for each text, whose blocks of rows stand for separate texts."""
        assert self.at_once is not None
        outs, scores = [], []
        blocks = query.shape[2] // self.at_once
        for i, own in enumerate(query.unflatten(2, (blocks, self.at_once)).unbind()):
            kept = (one[i].expand(blocks, -1, -1, -1) for one in (keys, values))
            seen = None
            if mask is not None:
                seen = mask[min(i, len(mask) - 1), 0].unflatten(0, (blocks, 1, self.at_once))
            out, score = _flash(own.transpose(0, 1), *kept, attn_mask=seen, scale=scale)
            outs.append(out.transpose(0, 1).flatten(1, 2))
            scores.append(score.transpose(0, 1).flatten(1))
        return torch.stack(outs), torch.stack(scores)


# The kernel divides its rows into blocks of this number, or of a multiple of it.
_KERNEL_ROWS = 32
# The last candidate was safe on every processor that was tried, but it is slower for long prompts.
_CANDIDATES = (
    *(RowCounts(n, _KERNEL_ROWS, max(4, 1 << (n - 1).bit_length())) for n in (1, 2, 3, 4, 8, 16)),
    RowCounts(6, 0, 6, at_once=24),
)


@cache
def row_counts(dtype: torch.dtype, dim: int) -> RowCounts:
    """Return numbers of rows with which the bits of a row do not depend on the other rows.

    They are measured on first use. If no numbers are safe, log that a text may depend on others. In
    16-bit types calls of few rows would take too long, so they are only a candidate in float32.
    """
    candidates = _CANDIDATES if dtype == torch.float32 else _CANDIDATES[:-1]
    with torch.inference_mode():
        for counts in candidates:
            if _is_stable(counts, dtype, dim):
                _log.debug("attention in %s with heads of %d: %s", dtype, dim, counts)
                return counts
    note_neighbors(f"attention in {str(dtype).removeprefix('torch.')} (heads of size {dim})")
    return candidates[0]


def _is_stable(counts: RowCounts, dtype: torch.dtype, dim: int) -> bool:
    """Return True if a query has the same bits in calls of all shapes that occur."""
    draw = torch.Generator().manual_seed(0)
    query, keys, values = (
        torch.randn(1, 2, size, dim, generator=draw).to(dtype) for size in (1, 1024, 1024)
    )
    for seen in (40, 250, 500, 700):
        shapes = _shapes(counts, read_end(0, seen))
        results = (_bits(counts, query, keys, values, seen, *shape) for shape in shapes)
        first = next(results)
        if not all(torch.equal(first, other) for other in results):
            return False
    return True


def _shapes(counts: RowCounts, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield a number of rows, the query's place among them, and the number of slots."""
    sizes = {*map(counts.padded, (*range(1, 10), 33, 100, 193, 769))}
    for rows in sorted(sizes):
        yield from ((rows, place, end) for place in {0, rows - 1})
    for slots in {read_end(0, end + 1), read_end(0, min(1024, end + 300))}:
        yield counts.padded(1), 0, slots


def _bits(
    counts: RowCounts, query: Tensor, keys: Tensor, values: Tensor,
    seen: int, rows: int, place: int, slots: int,
) -> Tensor:  # fmt: skip
    """Return the output and the logsumexp of one query, which stands at `place` among `rows`."""
    queries = torch.zeros(1, 2, rows, query.shape[-1], dtype=query.dtype)
    queries[:, :, place] = query[:, :, 0]
    mask = torch.zeros(1, 1, rows, slots, dtype=query.dtype)
    mask[..., seen:] = -torch.inf
    out, score = counts.attend(queries, keys[:, :, :slots], values[:, :, :slots], mask, 0.125)
    return torch.cat((out[0, :, place].float(), score[0, :, place, None].float()), dim=1)
