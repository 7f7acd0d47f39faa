"""Attention over segments: each segment is read once, and the results are joined by logsumexp.

For a query q and the keys of two segments A and B, softmax over both is (exp(a) · out_A + exp(b) ·
out_B) / (exp(a) + exp(b)), where a and b are the logsumexp of q's scores in A and in B. So a prefix
that many texts share is read once, by the queries of all these texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from marith.scoring.notices import note_neighbors
from marith.scoring.passes.lanes import Lane, Rectangle
from marith.scoring.passes.layer_masks import near
from marith.scoring.passes.segments.kernel_shapes import (
    BLOCK,
    RowCounts,
    read_end,
    row_counts,
)
from marith.scoring.weights.shared_weights import attending_by

# One more kernel call costs about as much as reading this number of slots of one row.
CALL = 96
NAME = "marith_segments"
# This stands for the logsumexp of no scores, because -inf would lead to NaN.
_NOTHING = torch.finfo(torch.float32).min
# If a text has fewer queries for the same keys, 16-bit types are slower than float32.
_FEW = 4
_SHORT = torch.bfloat16, torch.float16
# Keys and values in float32 stay in a processor's cache if they have at most this number of bytes.
_AT_ONCE = 2**23


@dataclass(slots=True)
class Read:
    """Slots `start` to `end` (exclusive) of some rows, read by some texts of a pass.

    If `shared` is True, `rows` is one row, which all `texts` read. Otherwise each text reads a row
    of its own. If other rows lie between these rows, `places` has the index of each text's row
    within `rows`. `mask` [texts, 1, width, slots] is added to the scores; None if all positions see
    all slots. `sees_nothing` [texts, 1, width] marks the positions that see none of the slots; None
    without such positions.
    """

    texts: slice | Tensor
    rows: slice
    start: int
    end: int
    shared: bool = False
    places: Tensor | None = None
    mask: Tensor | None = None
    sees_nothing: Tensor | None = None
    folded: dict[tuple[int, torch.dtype], Tensor] = field(default_factory=dict)

    def mask_of(self, groups: int, dtype: torch.dtype, counts: RowCounts | None) -> Tensor | None:
        """Return the mask, repeated for each of the `groups` heads that share a head of keys.

        Its shape is [texts, 1, groups · width, slots], or [1, 1, texts · groups · width, slots] for
        a shared read, with as many more rows as `counts` adds. `dtype` is the dtype of the scores.
        """
        if self.mask is None:
            return None
        key = groups, dtype
        if key not in self.folded:
            count, _, width, slots = self.mask.shape
            mask = self.mask.to(dtype).expand(count, groups, width, slots)
            mask = mask.reshape(1 if self.shared else count, 1, -1, slots)
            if counts is not None:
                rows = mask.shape[2]
                mask = functional.pad(mask, (0, 0, 0, counts.padded(rows) - rows))
            self.folded[key] = mask
        return self.folded[key]


@dataclass(frozen=True, slots=True)
class Part:
    """A rectangle of a pass, and the reads of its texts."""

    rectangle: Rectangle
    reads: Sequence[Read]


def reads(rectangle: Rectangle, kind: str, width: int | None) -> list[Read]:
    """Return the reads of layers of a `kind`: first the texts' own rows, then shared rows.

    `width` is the window or chunk of these layers; None if they see the whole text.
    """
    low = [_low(kind, width, place) for place in rectangle.first]
    starts = [_start(lane, least) for lane, least in zip(rectangle.lanes, low, strict=True)]
    found = [_own(rectangle, kind, width, group, starts) for group in _groups(rectangle, starts)]
    shared: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, lane in enumerate(rectangle.lanes):
        while lane.parent is not None and lane.start > low[i]:
            parent = lane.parent
            shared.setdefault((parent.row, parent.start), []).append((i, lane.start))
            lane = parent
    for (row, start), readers in shared.items():
        found.append(_shared(rectangle, kind, width, row, start, readers))
    return found


def _low(kind: str, width: int | None, place: int) -> int:
    """Return the first place that the token at `place` sees."""
    if width is None:
        return 0
    return place // width * width if kind == "chunked_attention" else max(0, place - width + 1)


def _start(lane: Lane, low: int) -> int:
    """Return the first slot that is read of a lane's own row.

    It depends on this lane alone, so that the bits of its text do, too. Slots before `low` are
    outside of the window.
    """
    return max(lane.start, low // BLOCK * BLOCK)


def _groups(rectangle: Rectangle, starts: Sequence[int]) -> list[list[int]]:
    """Return groups of texts whose rows one call reads, because padding costs less than a call.

    A longer read gives the same bits if it starts at the same slot, or a multiple of `BLOCK`
    earlier. The own rows of texts that share a prefix start anywhere, so these texts have groups
    apart from the others, whose bits they would change.
    """
    groups: list[list[int]] = []
    first = last = rows = 0
    lanes = rectangle.lanes
    # The texts are in the order of their rows.
    for i in sorted(range(len(lanes)), key=lambda i: (lanes[i].start > 0, i)):
        start, end = starts[i], rectangle.end[i]
        if groups and (lanes[groups[-1][0]].start > 0) == (lanes[i].start > 0):
            # One call reads all slots of the group's rows, and also the rows between them.
            wide = lanes[i].row - lanes[groups[-1][0]].row + 1
            lowest, highest = min(first, start), max(last, end)
            apart = rows * (last - first) + end - start + CALL
            if wide * (highest - lowest) <= apart:
                groups[-1].append(i)
                first, last, rows = lowest, highest, wide
                continue
        groups.append([i])
        first, last, rows = start, end, 1
    return groups


def _own(
    rectangle: Rectangle,
    kind: str,
    width: int | None,
    group: Sequence[int],
    starts: Sequence[int],
) -> Read:
    """Return the read of the own rows of a group of texts."""
    lanes = rectangle.lanes
    begin, rows = lanes[group[0]].row, [lanes[i].row for i in group]
    start = min(starts[i] for i in group)
    end = read_end(start, max(rectangle.end[i] for i in group))
    read = Read(_texts(group), slice(begin, rows[-1] + 1), start, end)
    if len(rows) < rows[-1] + 1 - begin:
        read.places = torch.tensor(rows) - begin
    # A single new token sees all slots of its row, if nothing is read beyond it.
    equal = all(lanes[i].start == start and rectangle.end[i] == end for i in group)
    if equal and rectangle.width == 1 and width is None:
        return read
    _see(rectangle, kind, width, read, torch.tensor([lanes[i].start for i in group]))
    if read.places is not None:
        assert read.mask is not None
        # The rows in between are computed too, and their results are dropped.
        wide = read.mask.new_zeros(rows[-1] + 1 - begin, *read.mask.shape[1:])
        read.mask = wide.index_copy(0, read.places, read.mask)
    return read


def _texts(which: Sequence[int]) -> slice | Tensor:
    """Return an index of texts, as a slice if they are adjacent."""
    adjacent = which[-1] - which[0] == len(which) - 1
    return slice(which[0], which[-1] + 1) if adjacent else torch.tensor(which)


def _shared(
    rectangle: Rectangle, kind: str, width: int | None, row: int, start: int,
    readers: Sequence[tuple[int, int]],
) -> Read:  # fmt: skip
    """Return the read of a row that several texts share, from slot `start` on.

    For each reader, `readers` has the index of the text, and the slot at which its next row begins.
    """
    which, ends = [i for i, _ in readers], [end for _, end in readers]
    # No reader sees the slots before the first of their windows.
    low = min(_low(kind, width, rectangle.first[i]) for i in which)
    start = max(start, low // BLOCK * BLOCK)
    end = read_end(start, max(ends))
    read = Read(_texts(which), slice(row, row + 1), start, end, shared=True)
    # Without a window, readers that leave the row at the end of the read see all of its slots.
    if width is not None or min(ends) < end:
        _see(rectangle, kind, width, read, highs=torch.tensor(ends))
    return read


def _see(
    rectangle: Rectangle,
    kind: str,
    width: int | None,
    read: Read,
    lows: Tensor | None = None,
    highs: Tensor | None = None,
) -> None:
    """Set the masks of a read: which slots each position sees, and which positions see nothing."""
    slots, places = torch.arange(read.start, read.end), rectangle.places[read.texts][:, :, None]
    seen = slots <= places
    if lows is not None:
        seen &= slots >= lows[:, None, None]
    if highs is not None:
        seen &= slots < highs[:, None, None]
    if width is not None:
        seen &= near(kind, width, places, slots)
    shut = torch.zeros(seen.shape)
    read.mask = shut.masked_fill_(~seen, -torch.inf)[:, None]
    # In its own row, each position sees at least itself.
    if read.shared and not bool((some := seen.any(dim=-1)).all()):
        read.sees_nothing = ~some[:, None]


def by_segments(model: Any) -> Any:
    """Return a second tree of modules over the same weights, whose passes read segments."""
    return attending_by(model, NAME)


def attention(
    _module: Any,
    query: Tensor,
    key: Tensor,
    _value: Tensor,
    attention_mask: Tensor,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_others: Any,
) -> tuple[Tensor, None]:
    """Compute attention over the segments in the `parts` of the mask, for transformers.

    Queries [texts, heads, width, dim] give outputs [texts, width, heads, dim]. Several parts lie in
    one row. `key` must be the tensor that the cache returned, and `attention_mask` the mask that
    the lanes returned, because attributes of these tensors name the layer and the segments.
    `softcap` limits the scores by a tanh (Gemma 2). `s_aux` [heads] are scores of attention sinks,
    which have no value (gpt-oss).
    """
    layer, parts = key.kept_in, attention_mask.parts  # type: ignore[attr-defined]
    _, heads, _, dim = query.shape
    scale = dim**-0.5 if scaling is None else scaling
    groups = heads // layer.keys.shape[1]
    attend = _Attention(layer.keys, layer.values, groups, scale, softcap, s_aux)
    if len(parts) == 1:
        return attend.part(parts[0].reads, query), None
    outs, start = [], 0
    for part in parts:
        shape = part.rectangle.places.shape
        end = start + shape.numel()
        own = query[0, :, start:end].reshape(heads, *shape, dim).transpose(0, 1)
        outs.append(attend.part(part.reads, own).flatten(0, 1))
        start = end
    return torch.cat(outs)[None], None


@dataclass(slots=True)
class _Attention:
    """Attention over one layer's keys and values, [rows, kv heads, slots, dim].

    `groups` heads of queries share the keys of one head. Scores are multiplied by `scale`.
    `softcap` and `sinks` are explained at `attention`.
    """

    keys: Tensor
    values: Tensor
    groups: int
    scale: float
    softcap: float | None
    sinks: Tensor | None

    def part(self, reads: Sequence[Read], query: Tensor) -> Tensor:
        """Return the outputs [texts, width, heads, dim] of queries [texts, heads, width, dim]."""
        texts, heads, width, dim = query.shape
        # Heads that read the same keys stand in one row, as if they were positions.
        folded = query.reshape(texts, heads // self.groups, self.groups * width, dim)
        if len(reads) == 1 and self.sinks is None:
            out, _ = self.read(reads[0], folded)
        else:
            out, total = self.joined(reads, folded)
            # A sink adds exp(sink) to the denominator of the softmax, and nothing to the numerator.
            if self.sinks is not None:
                sinks = self.sinks.float().view(1, -1, self.groups, 1).expand(-1, -1, -1, width)
                out = out * torch.sigmoid(total - sinks.flatten(2))[..., None]
            out = out.to(query.dtype)
        return out.reshape(texts, heads, width, -1).transpose(1, 2).contiguous()

    def joined(self, reads: Sequence[Read], query: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs [texts, kv heads, rows, dim] in float32, and the logsumexp of scores."""
        sizes = query.shape[:-1]
        out = query.new_empty(*sizes, self.values.shape[-1], dtype=torch.float32)
        total = query.new_empty(sizes, dtype=torch.float32)
        for read in reads:
            part, score = self.read(read, query[read.texts])
            # The own row of a text is its first read, so there is no output yet to join it with.
            if not read.shared:
                out[read.texts], total[read.texts] = part.float(), score
                continue
            # The share of this read, exp(score) / (exp(total) + exp(score)), is a sigmoid.
            before, share = total[read.texts], torch.sigmoid(score - total[read.texts])[..., None]
            out[read.texts] = torch.lerp(out[read.texts], part.float(), share)
            total[read.texts] = torch.logaddexp(before, score)
        return out, total

    def read(self, read: Read, query: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output of one read for its texts, and the logsumexp of their scores."""
        keys = self.keys[read.rows, :, read.start : read.end]
        values = self.values[read.rows, :, read.start : read.end]
        # The queries of one text decide this, so that other texts never change its result.
        few = query.dtype in _SHORT and query.shape[2] < _FEW
        dtype = torch.float32 if few and self.has_kernel else query.dtype
        mask = read.mask_of(self.groups, dtype, self.counts(dtype))
        if read.shared:
            return self._shared(read, query, keys, values, mask, dtype)
        if read.places is None:
            return self._attend(query, keys, values, mask, dtype)
        spread = query.new_zeros(keys.shape[0], *query.shape[1:])
        spread = spread.index_copy(0, read.places, query)
        out, score = self._attend(spread, keys, values, mask, dtype)
        return out[read.places], score[read.places]

    @property
    def has_kernel(self) -> bool:
        """True if torch's kernel can compute this attention.

        The kernel knows no softcap, and takes only keys and values of the same width.
        """
        return self.softcap is None and self.keys.shape[-1] == self.values.shape[-1]

    def counts(self, dtype: torch.dtype) -> RowCounts | None:
        """Return the numbers of rows that the kernel gets in a dtype; None without the kernel."""
        if self.has_kernel:
            return row_counts(dtype, self.keys.shape[-1])
        note_neighbors("attention with a softcap, or with values of another width than keys")
        return None

    def _shared(
        self,
        read: Read,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """Compute a shared read: the queries of all texts stand in one row, as if of one text."""
        texts, heads, rows, dim = query.shape
        one = query.transpose(0, 1).reshape(1, heads, texts * rows, dim)
        out, score = self._attend(one, keys, values, mask, dtype)
        out = out.reshape(heads, texts, rows, -1).transpose(0, 1)
        score = score.reshape(heads, texts, rows).transpose(0, 1)
        if read.sees_nothing is not None:
            score = score.masked_fill(read.sees_nothing.repeat(1, 1, self.groups), _NOTHING)
        return out, score

    def _attend(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Return the attention's output, and the logsumexp of its scores.

        For a query that sees nothing, the logsumexp is an arbitrary number. `dtype` is the type in
        which the kernel computes. It is wider than the type of the queries if a text has few.
        """
        counts = self.counts(dtype)
        if counts is not None:
            if dtype != query.dtype:
                return self._in_float32(query, keys, values, mask, counts)
            return counts.attend(query, keys, values, mask, self.scale)
        scores = (query @ keys.mT).float() * self.scale
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        if mask is not None:
            scores = scores + mask
        total = torch.logsumexp(scores, dim=-1).clamp(min=_NOTHING)
        share = torch.exp(scores - total[..., None])
        return share.to(values.dtype) @ values, total

    def _in_float32(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, counts: RowCounts
    ) -> tuple[Tensor, Tensor]:
        """Compute few queries of a 16-bit type in float32.

        The kernel of the 16-bit type takes twice as long or more. Texts and heads are converted in
        blocks that fit into a processor's cache.
        """
        texts, heads, rows, dim = query.shape
        # In float32, a number of a key and a number of a value take 8 bytes.
        limit = max(1, _AT_ONCE // (8 * keys.shape[2] * dim))
        at_once, together = min(heads, limit), max(1, limit // heads)
        out = query.new_empty(query.shape)
        total = query.new_empty(texts, heads, rows, dtype=torch.float32)
        for i in range(0, texts, together):
            seen = mask if mask is None or len(mask) == 1 else mask[i : i + together]
            for j in range(0, heads, at_once):
                part = slice(i, i + together), slice(j, j + at_once)
                own, read, added = (one[part].float() for one in (query, keys, values))
                out[part], total[part] = counts.attend(own, read, added, seen, self.scale)
        return out, total


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
