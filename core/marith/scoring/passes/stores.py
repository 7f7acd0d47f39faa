"""What a pass reads, and where keys and values lie: one rectangle of rows, or segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from marith.scoring.memory import Planned, own_lengths
from marith.scoring.passes.lanes import Lane
from marith.scoring.passes.layer_masks import LayerMasks, Mask, layer_count
from marith.scoring.passes.rectangle_cache import KVCache, RectangleLanes
from marith.scoring.passes.segment_attention import Asking, Part, by_segments, reads
from marith.scoring.passes.segment_cache import PADDING_ROW, SegmentCache, SegmentLanes, most_held

if TYPE_CHECKING:
    from marith.scoring.passes.lora import Adapter


@dataclass(slots=True)
class Rectangle:
    """New tokens of some texts, [texts, width], with their places; in order of their lanes' rows.

    Texts are aligned at their ends. The first `padding` tokens of each are none: they stand at
    place 0 and nobody reads them. Logits are asked of the last `count` positions.
    """

    lanes: Sequence[Lane]
    ids: Tensor
    places: Tensor
    padding: Sequence[int]
    adapters: Sequence[Adapter | None]
    width: int
    count: int = 1


def rectangle(
    lanes: Sequence[Lane],
    given: Sequence[Sequence[int]],
    adapters: Sequence[Adapter | None],
    count: int,
) -> Rectangle:
    """That of tokens which follow what each lane holds."""
    width = max(map(len, given))
    padding = [width - len(tokens) for tokens in given]
    ids, places = [], []
    for lane, tokens, none in zip(lanes, given, padding, strict=True):
        start = len(lane.tokens)
        ids.append([*[0] * none, *tokens])
        places.append([*[0] * none, *range(start, start + len(tokens))])
    return Rectangle(
        lanes, torch.tensor(ids), torch.tensor(places), padding, adapters, width, min(width, count)
    )


def in_one_row(parts: Sequence[Tensor]) -> Tensor:
    """One rectangle as it is, [texts, width]; the tokens of several in one row, [1, tokens]."""
    return parts[0] if len(parts) == 1 else torch.cat([part.flatten() for part in parts])[None]


def kept(rectangles: Sequence[Rectangle]) -> int | Tensor:
    """Of which positions logits are asked: the last ones of one rectangle, or places in the row."""
    if len(rectangles) == 1:
        return rectangles[0].count
    places, start = [], 0
    for each in rectangles:
        size = each.ids.numel()
        ends = torch.arange(start, start + size).view(each.ids.shape)[:, -each.count :]
        places.append(ends.flatten())
        start += size
    return torch.cat(places)


def adapters_of(rectangles: Sequence[Rectangle]) -> list[Adapter | None]:
    """The adapter of each text of one rectangle, or of each token of several."""
    if len(rectangles) == 1:
        return [*rectangles[0].adapters]
    return [one for each in rectangles for one in each.adapters for _ in range(each.width)]


class RectangleStore:
    """Rows of one length, side by side: any model reads them that takes a cache and a mask.

    `reader` is the tree of modules whose passes read the store.
    """

    packs = False

    def __init__(self, model: Any, masks: LayerMasks, most_bytes: int) -> None:
        self.cache = KVCache(layer_count(model))
        self.lanes = RectangleLanes(self.cache, most_bytes)
        self.masks = masks
        self.memory = self.lanes.memory
        self.reader = model

    def aim(self, rectangles: Sequence[Rectangle]) -> Mask:
        """Point the next pass at the lanes of a rectangle, and return its attention mask."""
        [given] = rectangles
        places = given.places.to(self.reader.device)
        slots = places.clone()
        for i, count in enumerate(given.padding):
            slots[i, :count] = self.cache.padding_slot
        seen = int(places[:, -1].max()) + 1
        self.cache.aim([lane.row for lane in given.lanes], slots, seen)
        return self.masks.of(places, seen)


class SegmentStore:
    """Chains of segments: prefixes are shared, and memory is taken token by token.

    For models that compute attention by an attention function of transformers, on the CPU. One pass
    reads texts of different numbers of new tokens: `packs`.
    """

    packs = True

    def __init__(self, model: Any, masks: LayerMasks, most_bytes: int, context_length: int) -> None:
        widths = masks.by_layer(model)
        windowed = [width is not None for width in widths]
        self.cache = SegmentCache(windowed, model.device, context_length)
        self._window = max((width for width in widths if width), default=None)
        self.lanes = SegmentLanes(self.cache, most_bytes, self._window)
        self.masks = masks
        self.reader = by_segments(model)

    def aim(self, rectangles: Sequence[Rectangle]) -> Mask:
        """Point the next pass at the lanes, and return what stands for its attention mask."""
        asking = [_asking(each, self.reader.dtype) for each in rectangles]
        places = in_one_row([each.places for each in rectangles])
        end = max(max(each.end) for each in asking)
        self.cache.aim(in_one_row([_rows(each) for each in rectangles]), places, end)
        masks = {
            kind: _standing_for([_part(one, kind, size) for one in asking])
            for kind, size in self.masks.widths.items()
        }
        return masks.get("", masks)

    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes lanes of these texts take at most; 0 before the first pass."""
        lengths, widest = [*own_lengths(texts)], most_held(self._window)
        return self.cache.bytes_of(sum(lengths), sum(min(one, widest) for one in lengths))


Store: TypeAlias = RectangleStore | SegmentStore


def _asking(given: Rectangle, dtype: torch.dtype) -> Asking:
    first = [len(lane.tokens) for lane in given.lanes]
    end = [start + given.width - none for start, none in zip(first, given.padding, strict=True)]
    return Asking(given.lanes, given.places, first, end, dtype)


def _part(asking: Asking, kind: str, width: int | None) -> Part:
    texts, count = asking.places.shape
    return Part(texts, count, reads(asking, kind, width))


def _rows(given: Rectangle) -> Tensor:
    """Where each token is written, [texts, width]."""
    rows = torch.tensor([lane.row for lane in given.lanes])[:, None].repeat(1, given.width)
    for i, count in enumerate(given.padding):
        rows[i, :count] = PADDING_ROW
    return rows


def _standing_for(parts: Sequence[Part]) -> Tensor:
    """A mask for models to hand on, which tells the attention function what to read."""
    shape = parts[0].texts, parts[0].width
    if len(parts) > 1:
        shape = 1, sum(part.texts * part.width for part in parts)
    mask = torch.ones(shape[0], 1, shape[1], 1, dtype=torch.bool)
    mask.parts = parts  # type: ignore[attr-defined]
    return mask
