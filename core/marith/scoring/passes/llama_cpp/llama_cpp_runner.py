"""The runner of a GGUF file with llama.cpp.

A lane is a sequence of a llama.cpp context, and a pass is one call of `llama_decode`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.cache_limit import CacheLimit
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.chunked_prefill import PrefillLimits
from marith.scoring.passes.early_exit import Exits
from marith.scoring.passes.llama_cpp.sequence_lanes import Aimed, SequenceBytes, SequenceLanes
from marith.scoring.passes.passes import Passes, Runner
from marith.scoring.passes.questions import Answer, Span
from marith.scoring.weights.control_vectors import ControlVector
from marith.scoring.weights.llama_cpp.ggml import FEWEST, GGMLContext, GGMLModel, Item
from marith.scoring.weights.llama_cpp.llama_cpp_loading import (
    LlamaCppAdapter,
    read_adapter,
    read_vector,
    steered_adapter,
)
from marith.scoring.weights.lora_files import Adapter

# Texts of these two lengths are measured. Their difference gives the bytes of a token.
_SHORT, _LONG = 2, 66
# At most this number of contexts have vectors.
STEERED = 4


class SequencePasses(Passes):
    """Passes of all contexts of one model."""

    exits_checked = False

    def __init__(self, model: GGMLModel, vocab: int, name: str, holes: Sequence[int]) -> None:
        super().__init__(vocab, name, holes, torch.device("cpu"))
        self._model = model

    def why_nan(self) -> str:
        """Return a sentence on NaN. llama.cpp does not say which tensor is damaged."""
        problem = f"llama.cpp computed NaN (not a number) with {self.name!r}"
        return f"{problem}; copy the file again, or read it with transformers: backend=None"

    def read_adapter(self, name: str) -> Adapter:
        """Read a LoRA for these weights from a GGUF file. Raises ModelError."""
        return read_adapter(name, self._model)

    def read_vector(self, name: str) -> ControlVector:
        """Read a control vector for these weights. Raises ModelError if it cannot be read."""
        return read_vector(name, self._model)

    def steered(
        self,
        lora: Adapter | None,
        vectors: Sequence[tuple[ControlVector, float]],
        positions: Literal["all", "answer"],
    ) -> Adapter:
        """Return the adapter of a term with vectors. Raises ModelError if they do not fit."""
        return steered_adapter(self._model, lora, vectors, positions)

    @property
    def exits(self) -> Exits:
        """No exits: raises ModelError, because llama.cpp returns logits of the last layer only."""
        raise ModelError(
            f"backend='llama.cpp' gives no log-probabilities of inner layers, so no term of "
            f"{self.name!r} can have exit_layer; backend=None reads the file with transformers"
        )

    def run(
        self,
        adapters: Sequence[Adapter | None],
        kept: int | Tensor,
        layers: Sequence[int] = (),
        cache: Any = None,
        shifted: Tensor | None = None,
        **inputs: Any,
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the logits [1, positions, vocab] of the tokens that the lanes aimed at.

        The context of the lanes decides the adapter and the cache. Raises ModelError if llama.cpp
        fails. All lanes are dropped then.
        """
        aimed: Aimed = inputs["attention_mask"]
        try:
            while (logits := aimed.owner.context.decode(aimed.items)) is None:
                aimed.owner.make_places(aimed.lanes, len(aimed.items))
        except ModelError:
            aimed.owner.forget()
            raise
        return torch.from_numpy(logits)[None], []


class LlamaCppRunner(Runner):
    """A runner of a llama.cpp model: one pass reads all texts of a call that use the same weights.

    The cache changes the cost of an answer, never the answer, except for rounding: llama.cpp uses
    other kernels for a row that is decoded together with other rows.
    """

    plain = False

    def __init__(
        self,
        model: GGMLModel,
        vocab: int,
        most_bytes: int,
        name: str,
        holes: Sequence[int],
        max_batched_tokens: int | None = None,
    ) -> None:
        self._model, self._most_bytes = model, most_bytes
        accelerated, nbytes = model.accelerated, model.nbytes
        self._prefill = PrefillLimits.of_device(accelerated, nbytes, max_batched_tokens)
        self.passes = SequencePasses(model, vocab, name, holes)
        self._limit: CacheLimit | None = None
        self._adapted: WeakKeyDictionary[Adapter, CachedRunner] = WeakKeyDictionary()
        context = GGMLContext(model)
        self._sequence_bytes, self._working = _sequence_bytes(context), context.working_bytes
        self._bare = self._reading(context)

    def ask(self, questions: Sequence[Span]) -> list[Answer | None]:
        """Answer the questions that can be answered now.

        An answer is None while its long text is still being read.
        """
        adapters = [*dict.fromkeys(asked.lane.adapter for asked in questions)]
        self._make_room_for_vectors([one for one in adapters if one is not None and one.shifts])
        if len(adapters) == 1:
            return self._of(adapters[0]).ask(questions)
        answers: dict[int, Answer | None] = {}
        for adapter in adapters:
            # Two equal adapters may be two objects, if a file was written again as it was.
            places = [i for i, asked in enumerate(questions) if asked.lane.adapter == adapter]
            found = self._of(adapter).ask([questions[i] for i in places])
            answers |= dict(zip(places, found, strict=True))
        return [answers[i] for i in range(len(questions))]

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of keys, values and states of all these texts."""
        # Each adapter has a context of its own, with at least `FEWEST` cells.
        others = len(self._adapted)
        working = self._working * (1 + others)
        return self._bare.memory(texts) + self._sequence_bytes.of(FEWEST, 0) * others + working

    def join(self, limit: CacheLimit) -> None:
        """Keep the caches within `limit`, which several models share, from now on."""
        self._limit = limit
        for one in self._all():
            one.join(limit)

    def release(self, owner: Hashable) -> None:
        """Free the lane of `owner` for another text, which may continue its cached tokens."""
        for one in self._all():
            one.release(owner)

    def forget(self) -> None:
        """Drop the keys and values of all lanes."""
        for one in self._all():
            one.forget()

    def _all(self) -> list[CachedRunner]:
        return [self._bare, *self._adapted.values()]

    def _of(self, adapter: Adapter | None) -> CachedRunner:
        """Return the runner for an adapter, with its own context. It is freed with the adapter."""
        if adapter is None:
            return self._bare
        runner = self._adapted.get(adapter)
        if runner is None:
            assert isinstance(adapter, LlamaCppAdapter)
            runner = self._reading(GGMLContext(self._model, adapter.held))
        # The most recently used adapter is last.
        self._adapted.pop(adapter, None)
        self._adapted[adapter] = runner
        return runner

    def _make_room_for_vectors(self, asked: Sequence[Adapter]) -> None:
        """Drop the least recently used idle contexts with vectors beyond `STEERED`, but none asked.

        Each strength of a vector has a context, and a slider would fill the memory with them.
        Raises ModelError, before anything is read, if texts are generated in too many of them.
        """
        others = [one for one in self._adapted if one.shifts and one not in asked]
        idle = [one for one in others if not self._adapted[one].lanes.busy]
        excess = len(asked) + len(others) - STEERED if asked else 0
        if len(idle) < excess:
            raise ModelError(
                f"{self.passes.name!r} cannot use more than {STEERED} sets of vectors and strengths"
                " at once in llama.cpp, which needs a context for each; use fewer strengths, or "
                "load the file with backend=None"
            )
        for adapter in idle[: max(0, excess)]:
            self._adapted.pop(adapter).forget()

    def _reading(self, context: GGMLContext) -> CachedRunner:
        lanes = SequenceLanes(context, self._most_bytes, self._sequence_bytes)
        runner = CachedRunner(self.passes, lanes, self._prefill)
        if self._limit is not None:
            runner.join(self._limit)
        return runner


def _sequence_bytes(context: GGMLContext) -> SequenceBytes:
    """Measure the bytes of a token and of a text.

    Layers may keep keys, states or both, and no call of llama.cpp returns their size.
    """
    sizes = []
    for length in (_SHORT, _LONG):
        context.decode([Item(0, place, 0, False) for place in range(length)])
        sizes.append(context.state_bytes(0))
        context.drop(0)
    token = (sizes[1] - sizes[0]) // (_LONG - _SHORT)
    return SequenceBytes(token, max(0, sizes[0] - _SHORT * token))
