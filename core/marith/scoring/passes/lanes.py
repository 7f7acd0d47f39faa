"""Lanes: the text of each row of a cache, shared prefixes of texts, and the inputs of a pass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.cache_limit import Keeper
from marith.scoring.lane_text import LaneText, common
from marith.scoring.passes.questions import Reading
from marith.scoring.weights.lora_files import Adapter

IDLE_LANES = 64
# A common prefix of fewer tokens is computed again, and not copied from another lane.
SHORT_PREFIX = 16
# A pass computes at most this number of rows of logits that nobody asked for. A pass over new texts
# computes logits at the last positions of all lengths for each text, so it has at most `NEW_TEXTS`.
SPARE_LOGITS, NEW_TEXTS = 1024, 32


@dataclass(slots=True, eq=False)
class Lane:
    """A row of the cache, and the tokens whose keys and values it holds.

    Lanes of the same `key` may share prefixes. The key names the weights that computed the lane,
    and the salt of its text. `prompt` and `continuation` belong to the last question. A tuple
    cannot change, and a continuation only grows (see `Span`), so neither is compared again if the
    next question has the same object.

    If lanes share rows, the lane's own row holds the tokens from `start` on. Earlier tokens are
    read from the row of its `parent`, of the parent's parent, and so on. In layers with windows,
    the own row no longer holds the tokens before `lost`. `waited` counts the calls in which this
    text got no tokens while other texts did.
    """

    row: int
    key: Hashable = None
    owner: Hashable | None = None
    tokens: list[int] = field(default_factory=list)
    used: int = 0
    prompt: tuple[int, ...] | None = None
    continuation: Sequence[int] = ()
    parent: Lane | None = None
    start: int = 0
    lost: int = 0
    waited: int = 0

    def lacks_one(self, key: Hashable, prompt: Reading, continuation: Sequence[int]) -> bool:
        """Return True if the lane holds a whole text except the last token of its continuation.

        This fast test does not compare prompts: it returns False if `prompt` is not the same object
        as the prompt of the last question. `cut` compares them.
        """
        if prompt is not self.prompt or key != self.key or not continuation:
            return False
        start = len(prompt)
        if len(self.tokens) != start + len(continuation) - 1:
            return False
        return continuation is self.continuation or self.tokens[start:] == continuation[:-1]

    def cut(self, prompt: Sequence[int], continuation: Sequence[int]) -> None:
        """Truncate the lane to the prefix that it has in common with a text."""
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
    """New tokens of some texts, [texts, width], with their places, in the order of the lanes' rows.

    `new` has the new tokens of each text. Texts are aligned at their ends: the first `padding`
    positions of a text are padding, which stands at place 0 and is never read. `first` is the place
    of each text's first new token, and `end` is one past the place of its last. Logits are asked
    for the last `count` tokens of each text.

    If `fresh` is True, the lanes hold no tokens, and the texts are aligned at their starts. Each
    token then sees the positions up to its own, and padding comes after every token of its text.

    `shifted_from` has the place of each text from which the vectors of its adapter are added.
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
    fresh: bool = False
    shifted_from: Sequence[int] = ()

    def columns(self) -> Tensor:
        """Return the positions whose logits are asked, [texts, count].

        A text of fewer than `count` tokens repeats its first position.
        """
        ends = torch.tensor(self.end if self.fresh else [self.width] * len(self.lanes))
        return (ends[:, None] + torch.arange(-self.count, 0)).clamp(min=0)


def rectangle(
    lanes: Sequence[Lane],
    new: Sequence[list[int]],
    adapters: Sequence[Adapter | None],
    count: int,
    shifted_from: Sequence[int] = (),
) -> Rectangle:
    """Return the rectangle of the new tokens, which follow the tokens that each lane holds."""
    lengths = [*map(len, new)]
    width = max(lengths)
    padding = [width - length for length in lengths]
    first = [len(lane.tokens) for lane in lanes]
    end = [start + length for start, length in zip(first, lengths, strict=True)]
    count = min(width, count)
    fresh = width > 1 and not any(first) and _spare_logits(lengths, count) <= SPARE_LOGITS
    # numpy reads lists several times as fast as torch does.
    columns, behind = np.arange(width), np.array(padding)[:, None]
    if fresh:
        ids = [[*tokens, *[0] * none] for none, tokens in zip(padding, new, strict=True)]
        places = np.tile(columns, (len(new), 1))
    else:
        ids = [[*[0] * none, *tokens] for none, tokens in zip(padding, new, strict=True)]
        places = np.where(columns < behind, 0, np.array(first)[:, None] + columns - behind)
    return Rectangle(
        lanes=lanes,
        new=new,
        ids=torch.from_numpy(np.array(ids)),
        places=torch.from_numpy(places),
        padding=padding,
        first=first,
        end=end,
        adapters=adapters,
        width=width,
        count=count,
        fresh=fresh,
        shifted_from=shifted_from,
    )


def _spare_logits(lengths: Sequence[int], count: int) -> int:
    """Return how many rows of logits are computed in addition if texts are aligned at their starts.

    A model computes logits at the same positions of all texts.
    """
    kept = {at for length in {*lengths} for at in range(max(0, length - count), length)}
    return len(lengths) * (len(kept) - count)


def in_one_row(parts: Sequence[Tensor]) -> Tensor:
    """Return a single part unchanged, [texts, width], or several parts in one row, [1, tokens]."""
    return parts[0] if len(parts) == 1 else torch.cat([part.flatten() for part in parts])[None]


def kept(rectangles: Sequence[Rectangle]) -> int | Tensor:
    """Return which positions of a pass need logits.

    For one rectangle, return the number of trailing positions, or the indices of positions at which
    any text needs logits. For several rectangles, return the indices of the positions in their
    common row of tokens.
    """
    if len(rectangles) == 1:
        [one] = rectangles
        return one.columns().unique() if one.fresh and any(one.padding) else one.count
    places, start = [], 0
    for each in rectangles:
        size = each.ids.numel()
        ends = torch.arange(start, start + size).view(each.ids.shape)[:, -each.count :]
        places.append(ends.flatten())
        start += size
    return torch.cat(places)


def adapters_of(rectangles: Sequence[Rectangle]) -> list[Adapter | None]:
    """Return the adapter of each row of a pass.

    Several rectangles lie in one row, so for them return the adapter of each token.
    """
    if len(rectangles) == 1:
        return [*rectangles[0].adapters]
    return [one for each in rectangles for one in each.adapters for _ in range(each.width)]


def shifted_tokens(rectangles: Sequence[Rectangle]) -> Tensor | None:
    """Return the tokens of a pass to which vectors are added: True at these; None if at all."""
    if not any(any(each.shifted_from) for each in rectangles):
        return None
    starts = [torch.tensor(each.shifted_from or [0]) for each in rectangles]
    pairs = [*zip(starts, rectangles, strict=True)]
    if not any(bool((start > torch.tensor(each.first)).any()) for start, each in pairs):
        return None
    return in_one_row([each.places >= start[:, None] for start, each in pairs])


class Lanes(Keeper):
    """Lanes by owner. Released lanes are kept, for texts that continue them.

    Lanes without an owner are idle. They stay while all caches under one `cache_limit` hold no more
    than the limit; idle lanes of other models are dropped first. Lanes in use stay, whatever their
    size. The state changes the cost of an answer, never the answer.

    Subclasses decide where keys and values are stored, in the `cache` that a pass gets. If `packs`
    is True, one pass reads texts with different numbers of new tokens.
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
        """The number of lanes in use."""
        return len(self.held)

    def take(
        self,
        owner: Hashable,
        key: Hashable,
        prompt: Sequence[int],
        continuation: Sequence[int] = (),
        limit: int | None = None,
    ) -> Lane:
        """Return the owner's lane, truncated to the common prefix with the text.

        With `limit`, the lane keeps at most `limit` tokens, because the caller reads the later
        tokens again.
        """
        lane = self.held.get(owner)
        if lane is None:
            lane = self.held[owner] = self._free_lane(key, [*prompt, *continuation])
            lane.owner = owner
        length = len(lane.tokens)
        # Keys and values of another key come from other weights, or belong to another salt.
        if lane.key != key:
            lane.tokens.clear()
        lane.key = key
        self._clock += 1
        lane.used = self._clock
        lane.cut(prompt, continuation)
        lane.continuation = continuation
        if limit is not None:
            del lane.tokens[limit:]
        if len(lane.tokens) < length:
            self._was_cut(lane, length)
        return lane

    def copy_common(self, lane: Lane, tokens: list[int]) -> int:
        """Copy into a lane the longest prefix of `tokens` that another lane holds.

        Nothing is copied if the lane would gain fewer than `SHORT_PREFIX` tokens. Return the number
        of tokens that the lane gained.
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
        """Release the lane of `owner`. It stays while there is memory, for later texts."""
        lane = self.held.pop(owner, None)
        if lane is not None:
            lane.owner, lane.waited = None, 0
            self._clock += 1
            lane.used = self._clock
            # If no text is left, the next question may come much later, so room is made now.
            if not self.held:
                self.make_room(0)

    @abstractmethod
    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of lanes of these texts; 0 before the first pass."""

    @abstractmethod
    def aim(self, rectangles: Sequence[Rectangle]) -> Any:
        """Point the next pass at the lanes of `rectangles`, and return its attention mask."""

    @abstractmethod
    def make_room(self, longest: int) -> None:
        """Make room for every lane and for `longest` positions. Drop idle lanes over the limit."""

    @abstractmethod
    def settle(self, lanes: Sequence[Lane], fixed: int = 0) -> None:
        """Move these lanes, if needed, to rows where one pass can read them.

        With `fixed`, the pass has the fixed shape of `fixed` texts.
        """

    @abstractmethod
    def forget(self) -> None:
        """Drop all lanes and their keys and values. An owner's next question gets a new lane."""

    @abstractmethod
    def _new_lane(self, length: int, needed: bool) -> Lane | None:
        """Return a new lane for a text of `length` tokens.

        Return None if it takes too much memory and is not `needed`.
        """

    @abstractmethod
    def _give(self, source: Lane, target: Lane, length: int) -> None:
        """Let `target` hold the first `length` tokens of `source`, and no other tokens."""

    @abstractmethod
    def _usable(self, lane: Lane, length: int) -> int:
        """Return `length` if another text can continue a lane after `length` tokens, else 0."""

    @abstractmethod
    def _was_cut(self, lane: Lane, before: int) -> None:
        """Update the cache after a lane of `before` tokens was truncated."""

    def _free_lane(self, key: Hashable, tokens: list[int]) -> Lane:
        """Return a lane without an owner, for a text of these tokens.

        This is an idle lane that the tokens continue, or else a new lane, while few lanes are idle
        and there is memory, or else the least recently used idle lane.
        """
        idle = [lane for lane in self._all if lane.owner is None]
        best, length = self._nearest(key, tokens, idle)
        # An idle lane would lose the tokens after the common prefix. If these are many, and not
        # only an answer to the same prompt, the prefix is copied into another lane instead.
        if best is not None and length:
            answers_again = best.prompt is not None and length >= len(best.prompt)
            if answers_again or len(best.tokens) - length < SHORT_PREFIX:
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
        """Return the lane with the longest prefix to share, and the length of that prefix.

        Of several such lanes, return one in use, and else the most recently used.
        """
        best, length = None, 0
        candidates = [lane for lane in lanes if lane.key == key]
        candidates.sort(key=lambda lane: (lane.owner is not None, lane.used), reverse=True)
        for lane in candidates:
            # One token rules out most lanes: a longer prefix than the best one has this token too.
            if lane.tokens[length : length + 1] == tokens[length : length + 1] != []:
                usable = self._usable(lane, common(lane.tokens, tokens))
                if usable > length:
                    best, length = lane, usable
        return best, length


@contextmanager
def allocating(lanes: Lanes, longest: int) -> Iterator[None]:
    """Raise ModelError if memory runs out in the block, after dropping all lanes.

    Each owner then reads its text again, if there is memory for it.
    """
    try:
        yield
    # torch raises RuntimeError if memory runs out, and mmap raises OSError.
    except (MemoryError, OSError, RuntimeError) as error:
        lanes.forget()
        raise ModelError(
            f"there is no memory for the keys and values of {longest} more tokens ({error})"
        ) from error


def roomy(tokens: int, step: int, growth: float = 0.25) -> int:
    """Return a number of tokens plus room to grow, as a multiple of `step`.

    A cache that grew at every token would be copied every time.
    """
    return -(-max(step, int(tokens * (1 + growth))) // step) * step
