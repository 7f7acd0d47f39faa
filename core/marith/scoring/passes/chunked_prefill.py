"""Chunked prefill: how many tokens each lane reads in a pass. Long texts need several calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from marith.scoring.lane_text import common
from marith.scoring.passes.lanes import SHORT_PREFIX, Lane, Lanes

# On a CPU, one call reads at most this number of tokens of long texts, because other texts wait
# for its end. A pass over a text with states ends at multiples of this number, on every device.
CHUNK = 256
# This is the limit on a CPU while other texts are decoding.
SMALL_CHUNK = 64
# An accelerator needs thousands of tokens in one pass to compute as fast as it can.
ACCELERATOR_CHUNK = 8192
# While other texts are decoding, an accelerator reads `ACCELERATOR_SMALL_CHUNK` tokens of a model
# whose weights have `_OF_BYTES` bytes. A smaller model reads more tokens in the same time.
ACCELERATOR_SMALL_CHUNK = 2048
_OF_BYTES = 14 * 10**9
# A text with at most this number of unread tokens is read completely, in addition to the chunk.
FEW_TOKENS = 16
# A pass over this number of tokens costs about as much as a pass over one token, on a CPU and on an
# accelerator. An accelerator takes longer to launch the kernels of a pass.
FREE_TOKENS, ACCELERATOR_FREE_TOKENS = 32, 512

Anything = TypeVar("Anything")


@dataclass(frozen=True, slots=True)
class PrefillLimits:
    """The most tokens of long texts that one call reads: `alone`, or `beside` decoding texts.

    `padding` is the number of tokens that cost less than another pass.
    """

    alone: int = CHUNK
    beside: int = SMALL_CHUNK
    padding: int = FREE_TOKENS

    @classmethod
    def of_device(cls, accelerated: bool, nbytes: int, alone: int | None = None) -> PrefillLimits:
        """Return the limits of a model with `nbytes` of weights on an accelerator or a CPU.

        `alone` replaces the limit of the device, and `beside` is never larger.
        """
        beside = SMALL_CHUNK
        if accelerated:
            beside = ACCELERATOR_SMALL_CHUNK * _OF_BYTES // max(1, nbytes)
        alone = alone or (ACCELERATOR_CHUNK if accelerated else CHUNK)
        padding = ACCELERATOR_FREE_TOKENS if accelerated else FREE_TOKENS
        return cls(alone, min(alone, max(1, beside)), padding)

    def beside_texts(self, going: int) -> int:
        """Return the limit of a call in which `going` texts decode."""
        # Small chunks keep the steps of decoding texts short; the steps of many texts are long
        # anyway.
        return min(self.alone, max(self.beside, going)) if going else self.alone


@dataclass(slots=True, kw_only=True)
class Unread:
    """A text that its lane has not read completely, and the number of tokens to read next.

    The text is a prompt and its continuation, `length` tokens in all. The last `asked` tokens are
    read in one pass. The next pass reads `give` tokens. `copied` counts the tokens that were copied
    from another lane.
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
        """The number of tokens that the lane has not read yet."""
        return self.length - len(self.lane.tokens)

    @property
    def goes_on(self) -> bool:
        """True if the text is decoding: its prompt is read, and it lacks few tokens."""
        return self.missing <= FEW_TOKENS and len(self.lane.tokens) >= len(self.prompt)

    @property
    def tokens(self) -> list[int]:
        """All tokens of the text."""
        return [*self.prompt, *self.continuation]

    def next(self) -> list[int]:
        """Return the tokens of the next pass."""
        start, prompt = len(self.lane.tokens), len(self.prompt)
        end = start + self.give
        if start >= prompt:
            return [*self.continuation[start - prompt : end - prompt]]
        return [*self.prompt[start:end], *self.continuation[: max(0, end - prompt)]]

    @property
    def reach(self) -> list[int]:
        """The tokens that the lane holds after the next pass."""
        return [*self.lane.tokens, *self.next()]


Item = TypeVar("Item", bound=Unread)


def choose(work: Sequence[Item], lanes: Lanes, most: int, fixed: bool = False) -> list[Item]:
    """Return the texts that the next pass reads, and set `give` of each to a number of tokens.

    All texts that lack few tokens are read. The other texts, the long ones, share `most` tokens.
    Long texts that get no share wait. If the lanes do not pack, only the first long text is read in
    part, because each part needs a pass of its own.

    Lanes are moved to where the pass can read them. With `fixed`, passes over single tokens have a
    fixed shape.
    """
    near, far = [], []
    for item in work:
        missing = item.missing
        if missing <= FEW_TOKENS:
            item.give, item.lane.waited = missing, 0
            near.append(item)
        else:
            far.append(item)
    chosen = [*near, *_pieces(far, lanes, most)] if far else near
    several = sum(item.give > 1 and bool(item.lane.tokens) for item in near)
    if fixed and 2 * several <= len(near):
        # Long texts move too, because their lanes are often still empty, and cheap to move.
        lanes.settle([item.lane for item in chosen], len(work))
    else:
        lanes.settle([item.lane for item in near])
    return chosen


def _pieces(far: Sequence[Item], lanes: Lanes, left: int) -> list[Item]:
    """Return the long texts that are read now, `left` tokens in all, the shortest text first.

    A text that waits gains priority, so that no text waits forever: for each call of waiting, it
    counts as `left` tokens shorter. A lane first copies the tokens that another lane holds. If
    another lane reads the same tokens now, the lane waits, and copies them later.
    """
    chosen: list[Item] = []
    room = left
    for item in sorted(far, key=lambda one: one.missing - room * one.lane.waited):
        # The asked tokens are not copied, because only a pass gives their logits.
        item.copied += lanes.copy_common(item.lane, item.tokens[: item.length - item.asked])
        if any(_will_hold_more(other, item) for other in chosen):
            continue
        item.give = item.missing
        # The asked tokens of the first text are read in one pass, even if they exceed the chunk.
        if item.missing > max(left, 0 if chosen else item.asked):
            item.give = min(left, item.missing - item.asked)
            if chosen and (item.give < FREE_TOKENS or not lanes.packs):
                item.give = 0
                break
        left -= item.give
        chosen.append(item)
    for item in far:
        item.lane.waited += not item.give
    return chosen


def _will_hold_more(other: Unread, item: Unread) -> bool:
    """Return True if the lane of `other` will hold more of `item`'s text than its own lane does."""
    ahead = len(item.lane.tokens) + SHORT_PREFIX
    return other.lane.key == item.lane.key and common(other.reach, item.tokens) >= ahead


def group_by_width(
    items: Iterable[Anything],
    width: Callable[[Anything], int],
    row: Callable[[Anything], int],
    limit: int | None = None,
    padded: int = FREE_TOKENS,
) -> list[list[Anything]]:
    """Return groups of items of about equal width, each in the order of its rows.

    An item joins a group if it adds at most `padded` tokens of padding, because padding costs less
    than another pass. With `limit`, a group has at most `limit` tokens, padding included.
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
