"""Chunked prefill: how much each lane reads in the next pass; long texts take several calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from marith.scoring.passes.lanes import SHORT_PREFIX, Lane, Lanes, common

CHUNK = 256  # tokens of long texts in one call, so that short ones need not wait for longer
SMALL_CHUNK = 64  # tokens of long texts in one call on a CPU while other texts go on
FEW_TOKENS = 16  # up to so many missing tokens are read at once, beside the chunk of long texts
FREE_TOKENS = 32  # reading so many tokens costs about what a pass without any costs

Anything = TypeVar("Anything")


@dataclass(slots=True, kw_only=True)
class Unread:
    """What a lane has yet to read of a text; the next pass gives it `give` tokens of that.

    The text is a prompt and its continuation, `length` tokens in all, of which the last `asked` are
    read in one piece. `copied` counts those that were copied from another lane.
    """

    lane: Lane
    prompt: Sequence[int]
    continuation: Sequence[int]
    length: int
    asked: int
    give: int = 0
    copied: int = 0

    @property
    def missing(self) -> int:
        """How many tokens the lane has yet to read."""
        return self.length - len(self.lane.tokens)

    @property
    def goes_on(self) -> bool:
        """Whether the prompt is read, and few tokens follow it: its caller waits for each."""
        return self.missing <= FEW_TOKENS and len(self.lane.tokens) >= len(self.prompt)

    @property
    def tokens(self) -> list[int]:
        """The whole text."""
        return [*self.prompt, *self.continuation]

    def next(self) -> list[int]:
        """The tokens of the next pass."""
        start, prompt = len(self.lane.tokens), len(self.prompt)
        end = start + self.give
        if start >= prompt:
            return [*self.continuation[start - prompt : end - prompt]]
        return [*self.prompt[start:end], *self.continuation[: max(0, end - prompt)]]

    @property
    def reach(self) -> list[int]:
        """What the lane will hold after the next pass."""
        return [*self.lane.tokens, *self.next()]


Item = TypeVar("Item", bound=Unread)


def choose(
    work: Sequence[Item], lanes: Lanes, front: bool = False, limit: int | None = None
) -> list[Item]:
    """The texts of which something is read now, each with how much; the others wait.

    Those with little to read are settled side by side, with `front` in the first rows. Of the
    others a chunk is read in all, and at most `limit` tokens.
    """
    near, far = [], []
    for item in work:
        missing = item.missing
        if missing <= FEW_TOKENS:
            item.give, item.lane.waited = missing, 0
            near.append(item)
        else:
            far.append(item)
    lanes.settle([item.lane for item in near], front)
    return [*near, *_pieces(far, lanes, min(CHUNK, limit or CHUNK))] if far else near


def _pieces(far: Sequence[Item], lanes: Lanes, left: int) -> list[Item]:
    """What of the long texts is read now: `left` tokens in all, of the shortest first.

    A text that waits counts as shorter by `left` tokens for each call: so it waits for shorter ones
    about as long as its own reading takes, and then none goes before it. A lane first copies what
    another lane holds, and waits for one that reads the same tokens now.
    """
    chosen: list[Item] = []
    room = left
    for item in sorted(far, key=lambda one: one.missing - room * one.lane.waited):
        item.copied += lanes.copy_common(item.lane, item.tokens[: item.length - item.asked])
        if any(_will_hold_more(other, item) for other in chosen):
            continue
        item.give = item.missing
        if item.missing > max(left, 0 if chosen else item.asked):
            item.give = min(left, item.missing - item.asked)
            if chosen and item.give < FREE_TOKENS:
                item.give = 0
                break
        left -= item.give
        chosen.append(item)
    for item in far:
        item.lane.waited += not item.give
    return chosen


def _will_hold_more(other: Unread, item: Unread) -> bool:
    """Whether another lane, once it has read its tokens, holds more of this text than its own."""
    ahead = len(item.lane.tokens) + SHORT_PREFIX
    return other.lane.key == item.lane.key and common(other.reach, item.tokens) >= ahead


def group_by_width(
    items: Iterable[Anything],
    width: Callable[[Anything], int],
    row: Callable[[Anything], int],
    limit: int | None = None,
    padded: int = FREE_TOKENS,
) -> list[list[Anything]]:
    """Groups of about one width, in order of their rows; padding costs less than another pass.

    A group has at most `limit` tokens, padding included, where that is given, and at most `padded`
    for each that joins it.
    """
    groups: list[list[Anything]] = []
    for item in sorted(items, key=width):
        group = groups[-1] if groups else []
        padding = (width(item) - width(group[-1])) * len(group) if group else 0
        fits = limit is None or (len(group) + 1) * width(item) <= limit
        if group and fits and padding <= padded:
            group.append(item)
        else:
            groups.append([item])
    return [sorted(group, key=row) for group in groups]
