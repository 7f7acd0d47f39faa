"""Lanes: whose text a row of a cache holds, who goes on from it, and what a pass reads of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.memory import Keeper, Planned
from marith.scoring.weights.lora_files import Adapter

IDLE_LANES = 64
SHORT_PREFIX = 16  # so many tokens are computed again sooner than copied


@dataclass(slots=True, eq=False)
class Lane:
    """A row of the cache, and the tokens whose keys and values it holds.

    Lanes of the same `key` may take prefixes from each other: it names the weights that computed
    them, and the salt of the text. `prompt` is the one asked last, which need not be compared
    again: it cannot change. Where lanes share rows, its own row holds the tokens from `start`;
    those before are read in the rows of its `parent`, of the parent's parent, and so on. Layers
    with windows no longer hold what its own row held before `lost`. `waited` counts the calls that
    read of others and nothing of its text.
    """

    row: int
    key: Hashable = None
    owner: Hashable | None = None
    tokens: list[int] = field(default_factory=list)
    used: int = 0
    prompt: tuple[int, ...] | None = None
    parent: Lane | None = None
    start: int = 0
    lost: int = 0
    waited: int = 0

    def lacks_one(self, key: Hashable, prompt: Sequence[int], continuation: Sequence[int]) -> bool:
        """Whether it holds all of a text but the last token of its continuation.

        Also False where the prompt is not the one that was compared last; `cut` compares it.
        """
        if prompt is not self.prompt or key != self.key or not continuation:
            return False
        start = len(prompt)
        as_long = len(self.tokens) == start + len(continuation) - 1
        return as_long and self.tokens[start:] == continuation[:-1]

    def cut(self, prompt: Sequence[int], continuation: Sequence[int]) -> None:
        """Drop what it has not in common with a text."""
        tokens, start = self.tokens, len(prompt)
        if prompt is not self.prompt:
            self.prompt = prompt if isinstance(prompt, tuple) else None
            if (kept := common(tokens, list(prompt))) < start:
                del tokens[kept:]
        after, asked = tokens[start:], list(continuation)
        if after != asked[: len(after)]:
            del tokens[start + common(after, asked) :]


@dataclass(slots=True)
class Rectangle:
    """New tokens of some texts, [texts, width], with their places; in order of their lanes' rows.

    `new` has the tokens of each text. Texts are aligned at their ends. The first `padding` tokens
    of each are none: they stand at place 0 and nobody reads them. `first` is the place of each
    text's first new token, `end` the one after its last. Logits are asked of the last `count`
    positions.
    """

    lanes: Sequence[Lane]
    new: Sequence[list[int]]
    ids: Tensor
    places: Tensor
    padding: Sequence[int]
    first: Sequence[int]
    end: Sequence[int]
    adapters: Sequence[Adapter | None]
    width: int
    count: int = 1


def rectangle(
    lanes: Sequence[Lane],
    new: Sequence[list[int]],
    adapters: Sequence[Adapter | None],
    count: int,
) -> Rectangle:
    """Return the rectangle of the new tokens, which follow what each lane holds."""
    width = max(map(len, new))
    padding = [width - len(tokens) for tokens in new]
    first = [len(lane.tokens) for lane in lanes]
    end = [start + len(tokens) for start, tokens in zip(first, new, strict=True)]
    ids = [[*[0] * none, *tokens] for none, tokens in zip(padding, new, strict=True)]
    places = [
        [*[0] * none, *range(start, stop)]
        for none, start, stop in zip(padding, first, end, strict=True)
    ]
    return Rectangle(
        lanes=lanes,
        new=new,
        ids=torch.tensor(ids),
        places=torch.tensor(places),
        padding=padding,
        first=first,
        end=end,
        adapters=adapters,
        width=width,
        count=min(width, count),
    )


def in_one_row(parts: Sequence[Tensor]) -> Tensor:
    """One rectangle as it is, [texts, width]; the tokens of several in one row, [1, tokens]."""
    return parts[0] if len(parts) == 1 else torch.cat([part.flatten() for part in parts])[None]


def kept(rectangles: Sequence[Rectangle]) -> int | Tensor:
    """Return the positions with logits: a count of last ones, or places in one row of several."""
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


class Lanes(Keeper):
    """Lanes given out by owner, and kept when they are released, for texts that go on from them.

    Lanes that nobody holds stay while all that share a `cache_limit` hold no more than that; those
    of other models go first. Lanes in use stay whatever they weigh. Changes state, never an answer.
    Who extends it says where keys and values lie: in the `cache` that a pass gets. One pass reads
    texts of different numbers of new tokens where it `packs`.
    """

    most_idle = IDLE_LANES
    packs = False
    cache: Any = None

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self._all: list[Lane] = []
        self.held: dict[Hashable, Lane] = {}  # by owner
        self._clock = 0

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._all)

    @property
    def busy(self) -> int:
        """How many lanes are held by someone."""
        return len(self.held)

    def take(
        self,
        owner: Hashable,
        key: Hashable,
        prompt: Sequence[int],
        continuation: Sequence[int] = (),
        limit: int | None = None,
    ) -> Lane:
        """The owner's lane, cut back to what it has in common with the text asked for.

        And to `limit` tokens, where the others are to be read again.
        """
        lane = self.held.get(owner)
        if lane is None:
            lane = self.held[owner] = self._free_lane(key, [*prompt, *continuation])
            lane.owner = owner
        length = len(lane.tokens)
        if lane.key != key:
            lane.tokens.clear()
        lane.key = key
        self._clock += 1
        lane.used = self._clock
        lane.cut(prompt, continuation)
        if limit is not None:
            del lane.tokens[limit:]
        if len(lane.tokens) < length:
            self._was_cut(lane, length)
        return lane

    def copy_common(self, lane: Lane, tokens: list[int]) -> int:
        """Let a lane hold what another one does of these tokens, where it is worth it.

        Returns how many tokens it holds more.
        """
        held = len(lane.tokens)
        best, length = self._nearest(lane.key, tokens, self._all)
        if best is None or length < held + SHORT_PREFIX:
            return 0
        best.used = self._clock
        self._give(best, lane, length)
        lane.tokens, lane.prompt = tokens[:length], None
        return length - held

    def release(self, owner: Hashable) -> None:
        """The lane stays as it is while there is memory for it: another text may continue it."""
        lane = self.held.pop(owner, None)
        if lane is not None:
            lane.owner, lane.waited = None, 0
            self._clock += 1
            lane.used = self._clock
            if not self.held:  # nobody asks soon, and so nobody else would make room
                self.make_room(0)

    @abstractmethod
    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes lanes of these texts take at most; 0 before the first pass."""

    @abstractmethod
    def aim(self, rectangles: Sequence[Rectangle]) -> Any:
        """Point the next pass at the lanes of these, and return its attention mask."""

    @abstractmethod
    def make_room(self, longest: int) -> None:
        """Room for every lane and for `longest` positions; idle lanes go where that is much."""

    @abstractmethod
    def settle(self, lanes: Sequence[Lane], front: bool = False) -> None:
        """See that a pass can read these lanes where they lie."""

    @abstractmethod
    def forget(self) -> None:
        """Drop all lanes and what they hold; an owner gets another lane with its next question."""

    @abstractmethod
    def _new_lane(self, length: int, needed: bool) -> Lane | None:
        """Another lane for a text of so many tokens; None where that is too much and not needed."""

    @abstractmethod
    def _give(self, source: Lane, target: Lane, length: int) -> None:
        """Let one lane hold the first `length` tokens of another, and no others."""

    @abstractmethod
    def _usable(self, lane: Lane, length: int) -> int:
        """`length` if another text can go on after so many tokens of a lane, and 0 if not."""

    @abstractmethod
    def _was_cut(self, lane: Lane, before: int) -> None:
        """After a lane of `before` tokens was cut back."""

    def _free_lane(self, key: Hashable, tokens: list[int]) -> Lane:
        """A lane that these tokens go on from, a new one while few lie idle, or the oldest."""
        idle = [lane for lane in self._all if lane.owner is None]
        best, length = self._nearest(key, tokens, idle)
        if best is not None and length and len(best.tokens) - length < SHORT_PREFIX:
            return best
        full = len(idle) >= self.most_idle
        lane = None if full else self._new_lane(len(tokens), needed=not idle)
        if lane is None:
            return min(idle, key=lambda lane: lane.used)
        self._all.append(lane)
        return lane

    def _nearest(
        self, key: Hashable, tokens: list[int], lanes: Sequence[Lane]
    ) -> tuple[Lane | None, int]:
        """The lane with the longest prefix to share, and its length; of several the last used."""
        best, length = None, 0
        candidates = [lane for lane in lanes if lane.key == key]
        candidates.sort(key=lambda lane: lane.used, reverse=True)
        for lane in candidates:
            # One token says of most lanes that they have no more in common than the best so far.
            if lane.tokens[length : length + 1] == tokens[length : length + 1] != []:
                usable = self._usable(lane, common(lane.tokens, tokens))
                if usable > length:
                    best, length = lane, usable
        return best, length


@contextmanager
def allocating(lanes: Lanes, longest: int) -> Iterator[None]:
    """Raises ModelError where memory runs out within; nothing stays taken then.

    All lanes are dropped: their owners read their texts anew, each as much as there is memory for.
    """
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        lanes.forget()
        raise ModelError(
            f"there is no memory for the keys and values of {longest} tokens more ({error})"
        ) from error


def common(kept: list[int], asked: list[int]) -> int:
    """The length of the common prefix, by halving: slices compare faster than tokens."""
    low, high = 0, min(len(kept), len(asked))
    if asked[:high] == kept[:high]:
        return high
    while low < high - 1:
        middle = (low + high) // 2
        if asked[low:middle] == kept[low:middle]:
            low = middle
        else:
            high = middle
    return low
