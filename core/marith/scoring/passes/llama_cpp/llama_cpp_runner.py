"""The runner of a GGUF file by llama.cpp: a lane is a sequence of a context, a pass one decode."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.cache_limit import CacheLimit
from marith.scoring.lane_text import LaneText, own_lengths
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.chunked_prefill import SMALL_CHUNK
from marith.scoring.passes.early_exit import Exits
from marith.scoring.passes.lanes import Lane, Lanes, Rectangle, roomy
from marith.scoring.passes.passes import Passes, Runner
from marith.scoring.passes.questions import Answer, Span
from marith.scoring.weights.llama_cpp.ggml import FEWEST, GGMLContext, GGMLModel, Item
from marith.scoring.weights.llama_cpp.llama_cpp_loading import LlamaCppAdapter, read_adapter
from marith.scoring.weights.lora_files import Adapter

IDLE_TOKENS = 8192  # most tokens of idle lanes: each pass scans all of the memory
_SHORT, _LONG = 2, 66  # tokens of two texts; their difference gives the bytes of a token


@dataclass(frozen=True, slots=True)
class SequenceWeight:
    """The bytes that a cached token takes, and the bytes that a text takes whatever its length."""

    token: int
    text: int

    def of(self, tokens: int, texts: int) -> int:
        """Return the bytes of `texts` texts with `tokens` tokens in all."""
        return self.token * tokens + self.text * texts


class SequenceLanes(Lanes):
    """Lanes as sequences of one context, whose memory grows with the cached tokens.

    In a recurrent model, a text can continue another text's lane only at the end of that lane. One
    pass reads texts of any lengths.
    """

    packs = True

    def __init__(self, context: GGMLContext, most_bytes: int, weight: SequenceWeight) -> None:
        super().__init__(most_bytes)
        self.context, self._weight = context, weight

    @property
    def nbytes(self) -> int:
        """The bytes of the context's memory, used or not."""
        return self._weight.of(self.context.cells, self.context.sequences)

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return the most bytes that lanes of these texts take."""
        return self._weight.of(roomy(sum(own_lengths(texts)), FEWEST), len(texts))

    def aim(self, rectangles: Sequence[Rectangle]) -> Aimed:
        """Return the input of the next pass. The last positions of each text get logits."""
        items, lanes = [], []
        for each in rectangles:
            assert not any(each.padding), "lanes that pack get groups of texts of equal width"
            first = each.width - each.count
            rows = zip(each.lanes, each.ids.tolist(), each.places.tolist(), strict=True)
            for lane, tokens, places in rows:
                lanes.append(lane)
                items += [
                    Item(token, place, lane.row, i >= first)
                    for i, (token, place) in enumerate(zip(tokens, places, strict=True))
                ]
        return Aimed(self, items, lanes)

    def make_room(self, longest: int) -> None:
        """Drop idle lanes if they hold many tokens, or if all caches are over the limit."""
        idle = _idle(self)
        held = sum(len(lane.tokens) for lane in idle)
        for lane in idle if held > IDLE_TOKENS else ():
            held -= len(lane.tokens)
            self._drop(lane)
            if held <= IDLE_TOKENS:
                break
        self.drop_idle(self.nbytes - self.cache_limit.room(self, self.nbytes))

    def make_places(self, lanes: Sequence[Lane], tokens: int) -> None:
        """Make places for `tokens` more tokens: grow the memory, or drop an idle lane.

        The caller found that there was no place. Raises ModelError if there is no memory; the lanes
        hold no tokens then.
        """
        for lane in lanes:  # some of the new tokens may have been read
            if not self.context.cut(lane.row, len(lane.tokens)):
                self._lost()
                raise ModelError("llama.cpp has no free place, and cannot truncate this text")
        wanted = roomy(self.context.cells + tokens, FEWEST)
        weight = self._weight.of(wanted, self.context.sequences)
        if weight > self.cache_limit.room(self, weight):
            for lane in _idle(self)[:1]:
                self._drop(lane)
                return
        self._resize(wanted)

    def drop_idle(self, extra: int) -> None:
        """Free `extra` bytes, or all that idle lanes hold, the least recently used lane first."""
        dropped = 0
        for lane in _idle(self) if extra > 0 else ():
            if dropped * self._weight.token >= extra:
                break
            dropped += len(lane.tokens)
            self._drop(lane)
        cells = roomy(sum(len(lane.tokens) for lane in self._all), FEWEST)
        if extra > 0 and cells < self.context.cells:
            self._resize(cells)

    def settle(self, lanes: Sequence[Lane], front: bool = False) -> None:
        """Do nothing: lanes are read wherever they lie."""

    def forget(self) -> None:
        """Drop all lanes and their keys and values. An owner's next question gets a new lane."""
        for lane in self._all:
            self.context.drop(lane.row)
        self._all, self.held = [], {}

    def _drop(self, lane: Lane) -> None:
        self.context.drop(lane.row)
        self._all.remove(lane)

    def _resize(self, cells: int) -> None:
        """Resize the memory. Raises ModelError if that fails, or if the cached tokens are lost."""
        try:
            kept = self.context.resize(cells)
        except ModelError:
            self.forget()
            raise
        if not kept:
            self._lost()
            raise ModelError("llama.cpp lost its cached tokens when its memory was resized")

    def _lost(self) -> None:
        for lane in self._all:
            self.context.drop(lane.row)
            lane.tokens.clear()

    def _new_lane(self, length: int, needed: bool) -> Lane | None:
        used = {lane.row for lane in self._all}
        row = next((i for i in range(self.context.sequences) if i not in used), None)
        if row is None and needed:
            if not self.context.more_sequences():
                raise ModelError(
                    f"llama.cpp reads at most {self.context.sequences} texts at once; set a "
                    "smaller max_lanes, and other requests wait"
                )
            self._lost()
            row = len(used)
        return None if row is None else Lane(row=row)

    def _give(self, source: Lane, target: Lane, length: int) -> None:
        self.context.share(source.row, target.row, length)

    def _usable(self, lane: Lane, length: int) -> int:
        whole = length == len(lane.tokens) or not self.context.recurrent
        return length if whole and self.context.holds(lane.row, length) else 0

    def _was_cut(self, lane: Lane, before: int) -> None:
        if not self.context.cut(lane.row, len(lane.tokens)):
            lane.tokens.clear()


def _idle(lanes: Iterable[Lane]) -> list[Lane]:
    """Return the lanes without an owner, least recently used first."""
    return sorted((one for one in lanes if one.owner is None), key=lambda one: one.used)


@dataclass(frozen=True, slots=True)
class Aimed:
    """The input of a pass: its tokens, their lanes, and the owner of the lanes."""

    owner: SequenceLanes
    items: Sequence[Item]
    lanes: Sequence[Lane]


class SequencePasses(Passes):
    """Passes of all contexts of one model."""

    exits_checked = False

    def __init__(self, model: GGMLModel, vocab: int, name: str, holes: Sequence[int]) -> None:
        super().__init__(vocab, name, holes, torch.device("cpu"))
        self._model = model

    def read_adapter(self, name: str) -> Adapter:
        """Read a LoRA for these weights from a GGUF file. Raises ModelError."""
        return read_adapter(name, self._model)

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
    """Runs a llama.cpp model: one `llama_decode` for all texts of a call that use the same weights.

    The cache changes the cost of an answer, never the answer, except for rounding: llama.cpp uses
    other kernels for a row that is decoded together with other rows.
    """

    plain = False

    def __init__(
        self, model: GGMLModel, vocab: int, most_bytes: int, name: str, holes: Sequence[int]
    ) -> None:
        self._model, self._most_bytes = model, most_bytes
        self.passes = SequencePasses(model, vocab, name, holes)
        self._limit: CacheLimit | None = None
        self._adapted: WeakKeyDictionary[Adapter, CachedRunner] = WeakKeyDictionary()
        context = GGMLContext(model)
        self._weight, self._working = _weight(context), context.working_bytes
        self._bare = self._reading(context)

    def ask(self, questions: Sequence[Span]) -> list[Answer | None]:
        """Answer the questions that can be answered now.

        An answer is None while its long text is still being read.
        """
        adapters = [*dict.fromkeys(asked.lane.adapter for asked in questions)]
        if len(adapters) == 1:
            return self._of(adapters[0]).ask(questions)
        answers: dict[int, Answer | None] = {}
        for adapter in adapters:
            places = [i for i, asked in enumerate(questions) if asked.lane.adapter is adapter]
            found = self._of(adapter).ask([questions[i] for i in places])
            answers |= dict(zip(places, found, strict=True))
        return [answers[i] for i in range(len(questions))]

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return the most bytes of keys, values and states that these texts take together."""
        others = len(self._adapted)
        working = self._working * (1 + others)
        return self._bare.memory(texts) + self._weight.of(FEWEST, 0) * others + working

    def join(self, limit: CacheLimit) -> None:
        """Bound the caches by `limit`, which several models share, from now on."""
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
        """Return the runner of the context for an adapter. It is freed with the adapter."""
        if adapter is None:
            return self._bare
        runner = self._adapted.get(adapter)
        if runner is None:
            assert isinstance(adapter, LlamaCppAdapter)
            runner = self._reading(GGMLContext(self._model, adapter.held))
            self._adapted[adapter] = runner
        return runner

    def _reading(self, context: GGMLContext) -> CachedRunner:
        limit = None if self._model.accelerated else SMALL_CHUNK
        lanes = SequenceLanes(context, self._most_bytes, self._weight)
        runner = CachedRunner(self.passes, lanes, limit)
        if self._limit is not None:
            runner.join(self._limit)
        return runner


def _weight(context: GGMLContext) -> SequenceWeight:
    """Measure the bytes of a token and of a text.

    Layers may keep keys, states or both, and no call of llama.cpp returns their size.
    """
    sizes = []
    for length in (_SHORT, _LONG):
        context.decode([Item(0, place, 0, False) for place in range(length)])
        sizes.append(context.state_bytes(0))
        context.drop(0)
    token = (sizes[1] - sizes[0]) // (_LONG - _SHORT)
    return SequenceWeight(token, max(0, sizes[0] - _SHORT * token))
