"""Lanes as sequences of llama.cpp: one memory, in which texts share what they have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from marith.errors import ModelError
from marith.scoring.memory import Planned, own_lengths
from marith.scoring.passes.lanes import Lane, Lanes
from marith.scoring.weights.ggml_context import GGMLContext
from marith.scoring.weights.ggml_model import FEWEST

IDLE_TOKENS = 8192  # that idle lanes hold: each pass looks at all of the memory


@dataclass(frozen=True, slots=True)
class SequenceWeight:
    """How many bytes a token takes that is held, and how many a text whatever its length."""

    token: int
    text: int

    def of(self, tokens: int, texts: int) -> int:
        """What so many take."""
        return self.token * tokens + self.text * texts


class SequenceLanes(Lanes):
    """Every lane is a sequence of one context, whose memory grows with what its lanes hold.

    A lane of a recurrent model goes on from another's text where that ends, and not before.
    """

    def __init__(self, context: GGMLContext, most_bytes: int, weight: SequenceWeight) -> None:
        super().__init__(most_bytes)
        self._context, self._weight = context, weight

    @property
    def nbytes(self) -> int:
        """What the memory weighs, whoever uses it."""
        return self._weight.of(self._context.cells, self._context.sequences)

    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes lanes of these texts take at most."""
        return self._weight.of(_roomy(sum(own_lengths(texts))), len(texts))

    def make_room(self, longest: int) -> None:
        """Idle lanes go where they hold much, and where all that is kept weighs too much."""
        idle = _idle(self)
        held = sum(len(lane.tokens) for lane in idle)
        for lane in idle if held > IDLE_TOKENS else ():
            held -= len(lane.tokens)
            self._drop(lane)
            if held <= IDLE_TOKENS:
                break
        self.drop_idle(self.nbytes - self.cache_limit.room(self, self.nbytes))

    def make_places(self, lanes: Sequence[Lane], tokens: int) -> None:
        """After there was no place for so many tokens more: memory for them, or fewer idle lanes.

        Raises ModelError where there is no memory; nothing is held then.
        """
        for lane in lanes:  # a part of them may have been read
            if not self._context.cut(lane.row, len(lane.tokens)):
                self._lost()
                raise ModelError("llama.cpp ran out of places, and cannot cut this text back")
        wanted = _roomy(self._context.cells + tokens)
        weight = self._weight.of(wanted, self._context.sequences)
        if weight > self.cache_limit.room(self, weight):
            for lane in _idle(self)[:1]:
                self._drop(lane)
                return
        self._resize(wanted)

    def drop_idle(self, extra: int) -> None:
        """Drop idle lanes, the longest unused first: `extra` bytes of them, or all."""
        dropped = 0
        for lane in _idle(self) if extra > 0 else ():
            if dropped * self._weight.token >= extra:
                break
            dropped += len(lane.tokens)
            self._drop(lane)
        cells = _roomy(sum(len(lane.tokens) for lane in self._all))
        if extra > 0 and cells < self._context.cells:
            self._resize(cells)

    def settle(self, lanes: Sequence[Lane], front: bool = False) -> None:
        """Nothing: lanes are read wherever they lie."""

    def forget(self) -> None:
        """Drop all lanes and what they hold; an owner gets another lane with its next question."""
        for lane in self._all:
            self._context.drop(lane.row)
        self._all, self.held = [], {}

    def _drop(self, lane: Lane) -> None:
        self._context.drop(lane.row)
        self._all.remove(lane)

    def _resize(self, cells: int) -> None:
        """Another size of the memory; where what was read is lost, texts are read anew."""
        try:
            kept = self._context.resize(cells)
        except ModelError:
            self.forget()
            raise
        if not kept:
            self._lost()
            raise ModelError("llama.cpp lost what it had read when its memory was resized")

    def _lost(self) -> None:
        for lane in self._all:
            self._context.drop(lane.row)
            lane.tokens.clear()

    def _new_lane(self, length: int, needed: bool) -> Lane | None:
        used = {lane.row for lane in self._all}
        row = next((i for i in range(self._context.sequences) if i not in used), None)
        if row is None and needed:
            if not self._context.more_sequences():
                raise ModelError(
                    f"llama.cpp reads at most {self._context.sequences} texts at once; a smaller "
                    "max_lanes lets requests wait"
                )
            self._lost()
            row = len(used)
        return None if row is None else Lane(row=row)

    def _give(self, source: Lane, target: Lane, length: int) -> None:
        self._context.share(source.row, target.row, length)

    def _usable(self, lane: Lane, length: int) -> int:
        whole = length == len(lane.tokens) or not self._context.recurrent
        return length if whole and self._context.holds(lane.row, length) else 0

    def _was_cut(self, lane: Lane, before: int) -> None:
        if not self._context.cut(lane.row, len(lane.tokens)):
            lane.tokens.clear()


def _roomy(tokens: int) -> int:
    """With room to grow: memory that grew at every token would copy itself at every token."""
    return -(-max(FEWEST, tokens * 5 // 4) // FEWEST) * FEWEST


def _idle(lanes: Iterable[Lane]) -> list[Lane]:
    """Lanes that nobody holds, the longest unused first."""
    return sorted((one for one in lanes if one.owner is None), key=lambda one: one.used)
