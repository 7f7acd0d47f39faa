"""Lanes as sequences of one context of llama.cpp, which share the memory of the context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from marith.errors import ModelError
from marith.scoring.lane_text import LaneText, own_lengths
from marith.scoring.passes.lanes import Lane, Lanes, Rectangle, roomy
from marith.scoring.weights.llama_cpp.ggml import FEWEST, GGMLContext, Item

# Idle lanes hold at most this number of tokens, because each pass scans the memory of all lanes.
IDLE_TOKENS = 8192


@dataclass(frozen=True, slots=True)
class SequenceBytes:
    """The bytes that a cached token takes, and the bytes that a text takes whatever its length."""

    token: int
    text: int

    def of(self, tokens: int, texts: int) -> int:
        """Return the bytes of `texts` texts with `tokens` tokens in all."""
        return self.token * tokens + self.text * texts


@dataclass(frozen=True, slots=True)
class Aimed:
    """The input of a pass: its tokens, their lanes, and the owner of the lanes."""

    owner: SequenceLanes
    items: Sequence[Item]
    lanes: Sequence[Lane]


class SequenceLanes(Lanes):
    """Lanes as sequences of one context, whose memory grows with the cached tokens.

    In a recurrent model, a text can continue another text's lane only at the end of that lane. One
    pass reads texts of any lengths.
    """

    packs = True

    def __init__(
        self, context: GGMLContext, most_bytes: int, sequence_bytes: SequenceBytes
    ) -> None:
        super().__init__(most_bytes)
        self.context, self._sequence_bytes = context, sequence_bytes

    @property
    def nbytes(self) -> int:
        """The bytes of the context's memory, used or not."""
        return self._sequence_bytes.of(self.context.cells, self.context.sequences)

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of lanes of these texts."""
        return self._sequence_bytes.of(roomy(sum(own_lengths(texts)), FEWEST), len(texts))

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
        # The pass that failed may have read some of the new tokens.
        for lane in lanes:
            if not self.context.cut(lane.row, len(lane.tokens)):
                cells = self.context.cells
                self._lost()
                raise ModelError(
                    f"llama.cpp has no room for {tokens} more tokens in {cells} places, and cannot "
                    "truncate a text of this model; set a smaller max_lanes, and try again"
                )
        wanted = roomy(self.context.cells + tokens, FEWEST)
        nbytes = self._sequence_bytes.of(wanted, self.context.sequences)
        if nbytes > self.cache_limit.room(self, nbytes):
            # The caller tries again after each dropped lane.
            for lane in _idle(self)[:1]:
                self._drop(lane)
                return
        self._resize(wanted)

    def drop_idle(self, extra: int) -> None:
        """Free `extra` bytes, or all bytes of idle lanes, the least recently used lane first."""
        dropped = 0
        for lane in _idle(self) if extra > 0 else ():
            if dropped * self._sequence_bytes.token >= extra:
                break
            dropped += len(lane.tokens)
            self._drop(lane)
        cells = roomy(sum(len(lane.tokens) for lane in self._all), FEWEST)
        if extra > 0 and cells < self.context.cells:
            self._resize(cells)

    def settle(self, lanes: Sequence[Lane], fixed: int = 0) -> None:
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
            # The context with more sequences is a new one, without cached tokens.
            self._lost()
            row = len(used)
        return None if row is None else Lane(row=row)

    def _give(self, source: Lane, target: Lane, length: int) -> None:
        self.context.share(source.row, target.row, length)

    def _usable(self, lane: Lane, length: int) -> int:
        whole = length == len(lane.tokens) or not self.context.recurrent
        return length if whole and self.context.holds(lane.row, length) else 0

    def _was_cut(self, lane: Lane, before: int) -> None:
        # If the context cannot truncate the text, it has dropped all its tokens.
        if not self.context.cut(lane.row, len(lane.tokens)):
            lane.tokens.clear()


def _idle(lanes: Iterable[Lane]) -> list[Lane]:
    """Return the lanes without an owner, least recently used first."""
    return sorted((one for one in lanes if one.owner is None), key=lambda one: one.used)
