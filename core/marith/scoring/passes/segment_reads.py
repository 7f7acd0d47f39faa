"""What a pass reads of the segments: which rows and slots, for which of its texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from marith.scoring.passes.lanes import Lane
from marith.scoring.passes.layer_masks import near

CALL = 96  # a further call of the kernel costs about as much as so many slots of one row


@dataclass(slots=True)
class Read:
    """Slots `start` until `end` of some rows, for some texts of a pass.

    Where a prefix is `shared`, all `texts` read the one row of `rows`; else each reads a row of its
    own, and `places` says which of `rows`, where there are others between them. `mask` is what each
    position sees, [texts, 1, width, slots], to be added to the scores; None where all see all.
    `sees_nothing` says which positions see nothing, [texts, 1, width]; None where there are none.
    """

    texts: slice | Tensor
    rows: slice
    start: int
    end: int
    shared: bool = False
    places: Tensor | None = None
    mask: Tensor | None = None
    sees_nothing: Tensor | None = None
    folded: dict[int, Tensor | None] = field(default_factory=dict)

    def mask_of(self, groups: int) -> Tensor | None:
        """The mask for `groups` heads of queries that read the same keys, one after another.

        [texts, 1, groups · width, slots], or [1, 1, texts · groups · width, slots] where shared.
        """
        if self.mask is None:
            return None
        if groups not in self.folded:
            count, _, width, slots = self.mask.shape
            mask = self.mask.expand(count, groups, width, slots).reshape(count, 1, -1, slots)
            self.folded[groups] = mask.reshape(1, 1, -1, slots) if self.shared else mask
        return self.folded[groups]


@dataclass(frozen=True, slots=True)
class Part:
    """What a rectangle of a pass reads, [texts, width]."""

    texts: int
    width: int
    reads: Sequence[Read]


@dataclass(slots=True)
class Asking:
    """The texts of a pass: their lanes, the places of their tokens [texts, width], and lengths.

    `first` is the place of a text's first new token, `end` the one after its last.
    """

    lanes: Sequence[Lane]
    places: Tensor
    first: Sequence[int]
    end: Sequence[int]
    dtype: torch.dtype


def reads(asking: Asking, kind: str, width: int | None) -> list[Read]:
    """What layers of a kind read, whose window or chunk is `width`: each text's own rows first."""
    low = [_low(kind, width, place) for place in asking.first]
    own = [max(lane.start, least) for lane, least in zip(asking.lanes, low, strict=True)]
    found = [_own(asking, kind, width, group, own) for group in _groups(asking, own)]
    shared: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, lane in enumerate(asking.lanes):
        while lane.parent is not None and lane.start > low[i]:
            parent = lane.parent
            shared.setdefault((parent.row, parent.start), []).append((i, lane.start))
            lane = parent
    for (row, start), readers in shared.items():
        found.append(_shared(asking, kind, width, row, start, readers))
    return found


def _low(kind: str, width: int | None, place: int) -> int:
    """The first place that a token sees."""
    if width is None:
        return 0
    return place // width * width if kind == "chunked_attention" else max(0, place - width + 1)


def _groups(asking: Asking, own: Sequence[int]) -> list[range]:
    """Texts whose rows one call reads, in order of their rows: padding costs less than a call."""
    groups: list[range] = []
    first = last = rows = 0
    for i, lane in enumerate(asking.lanes):
        start, end = own[i], asking.end[i]
        if groups:
            group = groups[-1]
            wide = lane.row - asking.lanes[group.start].row + 1
            lowest, highest = min(first, start), max(last, end)
            apart = rows * (last - first) + end - start + CALL
            if wide * (highest - lowest) <= apart:
                groups[-1] = range(group.start, i + 1)
                first, last, rows = lowest, highest, wide
                continue
        groups.append(range(i, i + 1))
        first, last, rows = start, end, 1
    return groups


def _own(asking: Asking, kind: str, width: int | None, group: range, own: Sequence[int]) -> Read:
    """The rows of a group."""
    lanes = asking.lanes
    begin, rows = lanes[group.start].row, [lanes[i].row for i in group]
    start, end = min(own[i] for i in group), max(asking.end[i] for i in group)
    read = Read(slice(group.start, group.stop), slice(begin, rows[-1] + 1), start, end)
    if len(rows) < rows[-1] + 1 - begin:
        read.places = torch.tensor(rows) - begin
    alike = all(own[i] == start and asking.end[i] == end for i in group)
    if asking.places.shape[1] > 1 or not alike:
        lows = torch.tensor([lanes[i].start for i in group])
        _see(asking, kind, width, read, lows)
        if read.places is not None:
            assert read.mask is not None
            wide = read.mask.new_zeros(rows[-1] + 1 - begin, *read.mask.shape[1:])
            read.mask = wide.index_copy(0, read.places, read.mask)
    return read


def _shared(
    asking: Asking, kind: str, width: int | None, row: int, start: int,
    readers: Sequence[tuple[int, int]],
) -> Read:  # fmt: skip
    """A row that several texts begin with, each until its own row begins."""
    which, ends = [i for i, _ in readers], [end for _, end in readers]
    low = min(_low(kind, width, asking.first[i]) for i in which)
    start = max(start, low)
    beside = which == list(range(which[0], which[-1] + 1))
    texts = slice(which[0], which[-1] + 1) if beside else torch.tensor(which)
    read = Read(texts, slice(row, row + 1), start, max(ends), shared=True)
    if width is not None or min(ends) < max(ends):
        _see(asking, kind, width, read, highs=torch.tensor(ends))
    return read


def _see(
    asking: Asking,
    kind: str,
    width: int | None,
    read: Read,
    lows: Tensor | None = None,
    highs: Tensor | None = None,
) -> None:
    """Give a read its mask: what of its slots each position sees, and which see nothing."""
    slots, places = torch.arange(read.start, read.end), asking.places[read.texts][:, :, None]
    seen = slots <= places
    if lows is not None:
        seen &= slots >= lows[:, None, None]
    if highs is not None:
        seen &= slots < highs[:, None, None]
    if width is not None:
        seen &= near(kind, width, places, slots)
    shut = torch.zeros(seen.shape, dtype=asking.dtype)
    read.mask = shut.masked_fill_(~seen, -torch.inf)[:, None]
    if read.shared and not bool((some := seen.any(dim=-1)).all()):
        read.sees_nothing = ~some[:, None]
