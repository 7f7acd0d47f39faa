"""Where a runner's keys and values lie: one rectangle, or segments; and how a pass reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from marith.scoring.kv_cache.layer_masks import LayerMasks, Mask, layer_count
from marith.scoring.kv_cache.ragged_cache import KVCache
from marith.scoring.kv_cache.rectangle_lanes import RectangleLanes
from marith.scoring.kv_cache.rectangles import Rectangle, beside
from marith.scoring.kv_cache.segments.reads import Asking, Part, reads
from marith.scoring.kv_cache.segments.segment_attention import by_segments
from marith.scoring.kv_cache.segments.segment_cache import PADDING_ROW, SegmentCache
from marith.scoring.kv_cache.segments.segment_lanes import SegmentLanes
from marith.scoring.kv_cache.segments.windows import most_held
from marith.scoring.memory import Planned, own_lengths


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
        places = beside([each.places for each in rectangles])
        end = max(max(each.end) for each in asking)
        self.cache.aim(beside([_rows(each) for each in rectangles]), places, end)
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
