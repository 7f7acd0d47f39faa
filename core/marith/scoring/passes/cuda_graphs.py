"""Decode steps at fixed shapes, each captured once as a CUDA graph and replayed.

The kernels of a step for one token a row take longer to launch than to run; a graph launches them
all at once, but knows only the shapes and the addresses that it was captured with.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marith.scoring.passes.layer_masks import LayerMasks
from marith.scoring.passes.rectangle_cache import KVCache

MOST = 32  # graphs kept: the driver holds some megabytes for each
LEAST = 128  # positions that the smallest graph reads


@dataclass(slots=True)
class _Step:
    """One shape: the inputs of the pass [4: tokens, places, slots, rows; size], and reads."""

    inputs: Tensor
    view: slice | Tensor
    seen: int
    graph: Any = None
    logits: Tensor | None = None


class Captured:
    """One token for every row of a group, in a pass whose shapes are powers of two.

    Rows past the group's are padding: written to the padding slot, at position 0, seeing slot 0
    only. Where the group lies among the first rows the cache is read as a view; elsewhere its
    rows are copied out by index, so that one graph serves them wherever they lie. Keeps state,
    for one thread, that changes the cost of an answer and never the answer: the graphs latest
    used, until the cache's memory moves. On a device without graphs the same passes run eagerly.
    """

    def __init__(self, model: Any, cache: KVCache, masks: LayerMasks) -> None:
        self.model = model
        self.cache = cache
        self.masks = masks
        self._stream = torch.cuda.Stream(model.device) if model.device.type == "cuda" else None
        self._pool: Any = None
        self._version = -1
        self._steps: OrderedDict[tuple[int, int, bool], _Step] = OrderedDict()

    def step(self, rows: Sequence[int], tokens: Sequence[int], places: Sequence[int]) -> Tensor:
        """Logits [rows, 1, vocab] after one token a row, at its place; rows in ascending order.

        They last until the next step. Raises RuntimeError where the model cannot be captured.
        """
        cache, count = self.cache, len(rows)
        seen = min(max(LEAST, _bucket(max(places) + 1)), cache.capacity)
        size, first = min(_bucket(count), cache.rows), rows[0]
        near = rows[-1] < size and rows[-1] - first == count - 1
        inputs = torch.zeros(4, size, dtype=torch.long)
        inputs[2] = cache.padding_slot
        inputs[3] = torch.arange(size) if near else 0
        asked = slice(first, first + count) if near else slice(count)
        inputs[:, asked] = torch.tensor([tokens, places, places, rows])
        return self._run(inputs, seen, near)[asked]

    def _run(self, inputs: Tensor, seen: int, near: bool) -> Tensor:
        """Logits [size, 1, vocab], by the graph of this shape."""
        if self._version != self.cache.version:
            self._steps.clear()
            self._version = self.cache.version
            self._pool = None  # a pool dies with its last graph
        key = inputs.shape[1], seen, near
        step = self._steps.pop(key, None) or self._new(inputs, seen, near)
        step.inputs.copy_(inputs)
        if step.graph is not None:
            step.graph.replay()
        elif self._stream is None:
            step.logits = self._pass(step)
        else:
            self._capture(step, self._stream)
        self._steps[key] = step
        if len(self._steps) > MOST:
            self._steps.popitem(last=False)
        assert step.logits is not None
        return step.logits

    def _new(self, inputs: Tensor, seen: int, near: bool) -> _Step:
        fixed = inputs.to(self.model.device, copy=True)
        return _Step(fixed, slice(0, inputs.shape[1]) if near else fixed[3], seen)

    def _capture(self, step: _Step, stream: torch.cuda.Stream) -> None:
        """Run the step, to have done once what is done once, record it, and replay the record."""
        with torch.cuda.device(stream.device):
            stream.wait_stream(torch.cuda.current_stream())
            graph = torch.cuda.CUDAGraph()
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            # Outside too: a capture that fails would leave its asked stream the current one.
            with torch.cuda.stream(stream):
                self._pass(step)
                with torch.cuda.graph(graph, self._pool, stream, "thread_local"):
                    step.logits = self._pass(step)
            torch.cuda.current_stream().wait_stream(stream)
            step.graph = graph
            graph.replay()

    def _pass(self, step: _Step) -> Tensor:
        """Logits [size, 1, vocab]; nothing passes between host and device."""
        tokens, places, slots, rows = step.inputs[:, :, None]
        self.cache.point(rows, slots, step.seen, step.view)
        logits: Tensor = self.model(
            input_ids=tokens,
            attention_mask=self.masks.of(places, step.seen),
            position_ids=places,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        return logits[:, -1:]


def _bucket(count: int) -> int:
    """The next power of two."""
    return 1 << (count - 1).bit_length()
