"""The runner of a GGUF file by llama.cpp: one context for the bare model and for each adapter."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from marith.scoring.memory import CacheLimit, Planned
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.passes import Answer, Asked
from marith.scoring.passes.sequence_lanes import SequenceWeight
from marith.scoring.passes.sequence_passes import SequencePasses, SequenceStore
from marith.scoring.weights.ggml_context import GGMLContext, Item
from marith.scoring.weights.ggml_model import FEWEST, GGMLModel
from marith.scoring.weights.llama_cpp_adapter import LlamaCppAdapter, read_adapter
from marith.scoring.weights.lora_files import Adapter

_SHORT, _LONG = 2, 66  # tokens of two texts, whose difference says what a token weighs


class LlamaCppRunner:
    """All texts of a call that are read with the same weights are one `llama_decode`.

    What is held changes the cost of an answer and never the answer, but for rounding: llama.cpp
    computes a row by other kernels beside others.
    """

    plain = False

    def __init__(
        self, model: GGMLModel, vocab: int, most_bytes: int, name: str, holes: Sequence[int]
    ) -> None:
        self._model, self._most_bytes = model, most_bytes
        self.passes = SequencePasses(vocab, name, holes, torch.device("cpu"))
        self._limit: CacheLimit | None = None
        self._adapted: WeakKeyDictionary[Adapter, CachedRunner] = WeakKeyDictionary()
        context = GGMLContext(model)
        self._weight, self._working = _weight(context), context.working_bytes
        self._bare = self._reading(context)

    def ask(self, questions: Sequence[Asked]) -> list[Answer | None]:
        """Answer what can be answered now; None where a long text is still being read."""
        adapters = [*dict.fromkeys(asked.adapter for asked in questions)]
        if len(adapters) == 1:
            return self._of(adapters[0]).ask(questions)
        answers: dict[int, Answer | None] = {}
        for adapter in adapters:
            places = [i for i, asked in enumerate(questions) if asked.adapter is adapter]
            found = self._of(adapter).ask([questions[i] for i in places])
            answers |= dict(zip(places, found, strict=True))
        return [answers[i] for i in range(len(questions))]

    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes of keys, values and states these texts take together at most."""
        others = len(self._adapted)
        working = self._working * (1 + others)
        return self._bare.memory(texts) + self._weight.of(FEWEST, 0) * others + working

    def join(self, limit: CacheLimit) -> None:
        """Let a limit hold for what this keeps too, from here on."""
        self._limit = limit
        for one in self._all():
            one.join(limit)

    def release(self, owner: Hashable) -> None:
        """The lane is free for another text, which may continue what it holds."""
        for one in self._all():
            one.release(owner)

    def forget(self) -> None:
        """Drop what all lanes hold."""
        for one in self._all():
            one.forget()

    def read_adapter(self, name: str) -> Adapter:
        """A LoRA over these weights, from a GGUF file. Raises ModelError."""
        return read_adapter(name, self._model)

    def _all(self) -> list[CachedRunner]:
        return [self._bare, *self._adapted.values()]

    def _of(self, adapter: Adapter | None) -> CachedRunner:
        """The context that reads with an adapter; it goes with the adapter."""
        if adapter is None:
            return self._bare
        runner = self._adapted.get(adapter)
        if runner is None:
            assert isinstance(adapter, LlamaCppAdapter)
            runner = self._reading(GGMLContext(self._model, adapter.held))
            self._adapted[adapter] = runner
        return runner

    def _reading(self, context: GGMLContext) -> CachedRunner:
        # A runner needs of passes and of a store what these have, and nothing of a model.
        store: Any = SequenceStore(context, self._most_bytes, self._weight)
        passes: Any = self.passes
        runner = CachedRunner(passes, store)
        if self._limit is not None:
            runner.join(self._limit)
        return runner


def _weight(context: GGMLContext) -> SequenceWeight:
    """Measured: layers may keep keys, states or both, and no call of llama.cpp says how much."""
    sizes = []
    for length in (_SHORT, _LONG):
        context.decode([Item(0, place, 0, False) for place in range(length)])
        sizes.append(context.state_bytes(0))
        context.drop(0)
    token = (sizes[1] - sizes[0]) // (_LONG - _SHORT)
    return SequenceWeight(token, max(0, sizes[0] - _SHORT * token))
