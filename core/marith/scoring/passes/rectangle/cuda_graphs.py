"""Decode steps at fixed shapes. Each is captured once as a CUDA graph, and then replayed.

The kernels of a step for one token per row take longer to launch than to run. A graph launches all
kernels at once, but only for the shapes and memory addresses with which it was captured.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marith.scoring.passes.layer_masks import LayerMasks
from marith.scoring.passes.lora import Adapted
from marith.scoring.passes.passes import cache_argument
from marith.scoring.passes.rectangle.rectangle_cache import KVCache, power_of_two
from marith.scoring.weights.lora_files import Adapter

# At most this number of graphs is kept, because the driver holds some megabytes for each.
MOST = 32
# The smallest graph reads this number of positions.
LEAST = 128
# A copy of some rows of the cache costs as much as reading this number of times as many rows.
COPY = 4
# The last of the inputs of a step says which rows of the logits are asked for.
ASKED = 5


class _Step:
    """A step of one shape.

    `inputs` [6, size] are the tokens, places, slots and rows of the pass, the rows of the tables of
    vectors, which only a step `with_vectors` reads, and the rows of the logits that are asked for.
    `view` are the rows of the cache that it reads, and `seen` is the number of slots that it reads
    of each row.
    """

    def __init__(
        self,
        device: torch.device,
        padding: NDArray[np.int64],
        near: bool,
        seen: int,
        with_vectors: bool,
    ) -> None:
        self.seen, self.with_vectors = seen, with_vectors
        self.graph: Any = None
        self.logits: Tensor | None = None
        self._padding = padding
        cuda = device.type == "cuda"
        # Only from pinned memory does a copy to a GPU let the host go on.
        self._host = torch.zeros(padding.shape, dtype=torch.long, pin_memory=cuda)
        self._numbers: NDArray[np.int64] = self._host.numpy()
        self._copied = torch.cuda.Event() if cuda else None
        self.inputs = self._host.to(device, copy=True)
        self.view = slice(0, padding.shape[1]) if near else self.inputs[3]

    def fill(self, at: Sequence[int], *asked: Sequence[int]) -> None:
        """Set the inputs of the next pass: those of the positions `at`, and padding elsewhere."""
        if self._copied is not None:
            # The last inputs must be copied before they are overwritten. This waits only if nobody
            # has read the results of the last step.
            self._copied.synchronize()
        self._numbers[:] = self._padding
        self._numbers[: len(asked), at] = asked
        self._numbers[ASKED, : len(at)] = at
        self.inputs.copy_(self._host, non_blocking=True)
        if self._copied is not None:
            self._copied.record(torch.cuda.current_stream(self.inputs.device))


class Captured:
    """Passes over one token for every row of a group, whose shapes are powers of two.

    The other rows of a shape are padding: they are written to the padding slot, stand at position
    0, and see slot 0 only. If the group lies among the first rows, the cache is read as a view, and
    the rows between the rows of the group are padding too, whatever lanes they belong to. Otherwise
    the rows are copied by index, so that one graph serves them wherever they lie.

    Keeps state, for one thread: the most recently used graphs, until the memory of the cache moves.
    Graphs of passes with vectors, and the tree of modules that they were captured with, are dropped
    by the first step after another tree took its place. The state changes the cost of an answer,
    never the answer. On a device without graphs, the same passes run eagerly.
    """

    def __init__(self, adapted: Adapted, cache: KVCache, masks: LayerMasks) -> None:
        self.adapted = adapted
        self.model = model = adapted.model
        self._argument = cache_argument(model)
        self.cache = cache
        self.masks = masks
        self._stream = torch.cuda.Stream(model.device) if model.device.type == "cuda" else None
        self._pool: Any = None
        self._version = -1
        # The tree of modules with which steps with vectors were captured.
        self._tree: Any = None
        self._steps: OrderedDict[tuple[int, int, bool, bool], _Step] = OrderedDict()

    def step(
        self,
        rows: Sequence[int],
        tokens: Sequence[int],
        places: Sequence[int],
        adapters: Sequence[Adapter | None] = (),
    ) -> Tensor:
        """Return the logits [rows, 1, vocab] after one token for each row, at its place.

        `rows` are in ascending order. `adapters`, if there are any, have vectors and no LoRA. The
        logits are valid until the next step. Raises RuntimeError if the model cannot be captured.
        """
        # Sizes that are powers of two need few graphs.
        least, span = power_of_two(len(rows)), power_of_two(rows[-1] + 1)
        near = span <= COPY * least
        size = min(span if near else least, self.cache.rows)
        seen = min(max(LEAST, power_of_two(max(places) + 1)), self.cache.capacity)
        table_rows = [self.adapted.table_rows(adapters)] if adapters else []
        step = self._prepared(size, seen, near, bool(table_rows))
        at = rows if near else range(len(rows))
        step.fill(at, tokens, places, places, rows, *table_rows)
        logits = self._run(step)
        if at[-1] - at[0] == len(at) - 1:
            return logits[at[0] : at[-1] + 1]
        # An index that is on the device already is not copied to it.
        return logits[step.inputs[ASKED, : len(at)]]

    def _prepared(self, size: int, seen: int, near: bool, with_vectors: bool) -> _Step:
        """Return the step of this shape, which is now the one used last."""
        if self._version != self.cache.version:
            self._steps.clear()
            self._version = self.cache.version
            # A memory pool is freed with its last graph, so the next graph needs a new pool.
            self._pool = None
        if self._tree is not self.adapted.tree:
            self._tree = self.adapted.tree
            for stale in [key for key, step in self._steps.items() if step.with_vectors]:
                del self._steps[stale]
            if not self._steps:
                self._pool = None
        key = size, seen, near, with_vectors
        step = self._steps.pop(key, None) or self._new(*key)
        self._steps[key] = step
        if len(self._steps) > MOST:
            self._steps.popitem(last=False)
        return step

    def _new(self, size: int, seen: int, near: bool, with_vectors: bool) -> _Step:
        padding = np.zeros((ASKED + 1, size), dtype=np.int64)
        padding[2] = self.cache.padding_slot
        padding[3] = np.arange(size) if near else 0
        return _Step(self.model.device, padding, near, seen, with_vectors)

    def _run(self, step: _Step) -> Tensor:
        """Return the logits [size, 1, vocab], from the graph of a step."""
        if step.graph is not None:
            step.graph.replay()
        elif self._stream is None:
            step.logits = self._pass(step)
        else:
            self._capture(step, self._stream)
        assert step.logits is not None
        return step.logits

    def _capture(self, step: _Step, stream: torch.cuda.Stream) -> None:
        """Run the step once for its one-time work. Then record a graph of it, and replay that."""
        with torch.cuda.device(stream.device):
            stream.wait_stream(torch.cuda.current_stream())
            graph = torch.cuda.CUDAGraph()
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            # A failed capture leaves its stream as the current one, so this context restores it.
            with torch.cuda.stream(stream):
                self._pass(step)
                # With "thread_local", other threads may use CUDA during the capture.
                with torch.cuda.graph(graph, self._pool, stream, "thread_local"):
                    step.logits = self._pass(step)
            torch.cuda.current_stream().wait_stream(stream)
            step.graph = graph
            # The kernels were recorded and not run, so the logits are computed only now.
            graph.replay()

    def _pass(self, step: _Step) -> Tensor:
        """Return the logits [size, 1, vocab]. Nothing is copied between host and device."""
        tokens, places, slots, rows = step.inputs[:4, :, None]
        self.cache.point(rows, slots, step.seen, step.view)
        model = self.adapted.shifting(step.inputs[4, :, None]) if step.with_vectors else self.model
        logits: Tensor = model(
            input_ids=tokens,
            attention_mask=self.masks.of(places, step.seen),
            position_ids=places,
            use_cache=True,
            logits_to_keep=1,
            **{self._argument: self.cache},
        ).logits
        return logits[:, -1:]
