"""Where a runner's keys and values lie: one rectangle, or segments; and how a pass reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import torch
from torch import Tensor

from marith.scoring.kv_cache.lanes import Lane
from marith.scoring.kv_cache.layer_masks import LayerMasks, Mask
from marith.scoring.kv_cache.planned import Planned, own_lengths
from marith.scoring.kv_cache.ragged_cache import KVCache
from marith.scoring.kv_cache.rectangle_lanes import RectangleLanes
from marith.scoring.kv_cache.segments.reads import Asking, reads
from marith.scoring.kv_cache.segments.segment_attention import by_segments
from marith.scoring.kv_cache.segments.segment_cache import PADDING_ROW, SegmentCache
from marith.scoring.kv_cache.segments.segment_lanes import SegmentLanes
from marith.scoring.kv_cache.segments.windows import most_held


class RectangleStore:
    """Rows of one length, side by side: any model reads them that takes a cache and a mask."""

    def __init__(self, model: Any, masks: LayerMasks, most_bytes: int) -> None:
        self.cache = KVCache(_layers(model))
        self.lanes = RectangleLanes(self.cache, most_bytes)
        self.masks = masks
        self.memory = self.lanes.memory

    def aim(self, lanes: Sequence[Lane], places: Tensor, padding: Sequence[int]) -> Mask:
        """Point the next pass at the lanes, and return its attention mask.

        `places` [lanes, width] are those of its tokens, of which the first `padding` are none.
        Lanes stand in order of their rows.
        """
        slots = places.clone()
        for i, count in enumerate(padding):
            slots[i, :count] = self.cache.padding_slot
        seen = int(places[:, -1].max()) + 1
        self.cache.aim([lane.row for lane in lanes], slots, seen)
        return self.masks.of(places, seen)

    def reading(self) -> AbstractContextManager[None]:
        """Within it the model reads what the cache returns."""
        return nullcontext()


class SegmentStore:
    """Chains of segments: prefixes are shared, and memory is taken token by token.

    For models that compute attention by an attention function of transformers, on the CPU.
    """

    def __init__(self, model: Any, masks: LayerMasks, most_bytes: int, context_length: int) -> None:
        widths = masks.by_layer(model)
        windowed = [width is not None for width in widths]
        self.cache = SegmentCache(windowed, model.device, context_length)
        self._window = max((width for width in widths if width), default=None)
        self.lanes = SegmentLanes(self.cache, most_bytes, self._window)
        self.masks = masks
        self._model = model

    def aim(self, lanes: Sequence[Lane], places: Tensor, padding: Sequence[int]) -> Mask:
        """Point the next pass at the lanes, and return what stands for its attention mask.

        `places` [lanes, width] are those of its tokens, of which the first `padding` are none.
        Lanes stand in order of their rows.
        """
        width = places.shape[1]
        rows = torch.tensor([lane.row for lane in lanes])[:, None].repeat(1, width)
        for i, count in enumerate(padding):
            rows[i, :count] = PADDING_ROW
        first = [len(lane.tokens) for lane in lanes]
        end = [start + width - count for start, count in zip(first, padding, strict=True)]
        self.cache.aim(rows, places, max(end))
        asking = Asking(lanes, places, first, end, self._model.dtype)
        masks = {
            kind: _standing_for(reads(asking, kind, size), len(lanes), width)
            for kind, size in self.masks.widths.items()
        }
        return masks.get("", masks)

    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes lanes of these texts take at most; 0 before the first pass."""
        lengths, widest = [*own_lengths(texts)], most_held(self._window)
        return self.cache.bytes_of(sum(lengths), sum(min(one, widest) for one in lengths))

    def reading(self) -> AbstractContextManager[None]:
        """Within it the model reads segments."""
        return by_segments(self._model)


Store: TypeAlias = RectangleStore | SegmentStore


def _standing_for(found: Any, texts: int, width: int) -> Tensor:
    """A mask for models to hand on, which tells the attention function what to read."""
    mask = torch.ones(texts, 1, width, 1, dtype=torch.bool)
    mask.reads = found  # type: ignore[attr-defined]
    return mask


def _layers(model: Any) -> int:
    return int(model.config.get_text_config().num_hidden_layers)
