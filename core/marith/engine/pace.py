"""What passes cost and which drafts stand, measured as it goes; how long a draft should be."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import TypeVar

MARGIN = 0.08
"""A draft is worth its trouble from this much more tokens per second: choosing costs time too."""
EVERY = 64
"""How many times in a row a draft is left out before it is tried all the same."""
MOST_KEYS = 1024
"""How many keys are remembered; the least recently used goes first."""

_EXACT, _PER_OCTAVE, _KEPT = 16, 4, 9
_MEMORY, _PRIOR_WORTH = 200, 4.0
_ROUNDING = 1e-3
_CONFIDENCES = (0.25, 0.5, 0.75, 0.9, 0.97, 0.99)

_Value = TypeVar("_Value")


class PassTimes:
    """What a pass of one scorer costs, by how many tokens it computes. State: its last passes.

    Counts of tokens up to 16 each have a bucket of their own, larger ones four an octave. A bucket
    keeps its last nine passes and answers with their lower median, since what disturbs a timing
    makes it longer. Where a larger bucket would cost less than a smaller one, both answer with
    the median of their passes together (pool adjacent violators, in the L1 norm).
    """

    def __init__(self) -> None:
        self._buckets: dict[int, deque[tuple[int, float]]] = {}
        self._tokens: list[int] = []
        self._seconds: list[float] = []
        self._stale = False

    def note(self, tokens: int, seconds: float) -> None:
        """A pass of `tokens` tokens took `seconds`. Raises ValueError for what cannot be."""
        if tokens < 1:
            raise ValueError(f"a pass computes at least one token, not {tokens!r}")
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a pass takes a finite number of seconds, not {seconds!r}")
        kept = self._buckets.setdefault(_bucket(tokens), deque(maxlen=_KEPT))
        kept.append((tokens, seconds))
        self._stale = True

    def cost(self, tokens: int) -> float | None:
        """Seconds that a pass of `tokens` tokens is expected to take; None before the first note.

        Never falls as `tokens` grows. Linear between known buckets; below the smallest its cost,
        above the largest proportional to the tokens.
        """
        if self._stale:
            self._fit()
        known, seconds = self._tokens, self._seconds
        if not known:
            return None
        right = bisect_left(known, tokens)
        if right == len(known):
            return seconds[-1] * (tokens / known[-1])
        if right == 0 or known[right] == tokens:
            return seconds[right]
        left = right - 1
        share = (tokens - known[left]) / (known[right] - known[left])
        # Rounding must not carry a point past the next one: costs never fall.
        rise = seconds[left] + share * (seconds[right] - seconds[left])
        return min(rise, seconds[right])

    @property
    def least(self) -> int | None:
        """The fewest tokens that a noted pass computed; None before the first note."""
        known = [tokens for kept in self._buckets.values() for tokens, _ in kept]
        return min(known, default=None)

    def _fit(self) -> None:
        """The curve's points anew: one a bucket, at the median of its tokens."""
        blocks: list[tuple[float, list[int], list[float]]] = []
        for _, kept in sorted(self._buckets.items()):
            at = [median_low([tokens for tokens, _ in kept])]
            taken = [seconds for _, seconds in kept]
            value = median_low(taken)
            while blocks and blocks[-1][0] > value:
                _, at_before, taken_before = blocks.pop()
                at, taken = at_before + at, taken_before + taken
                value = median_low(taken)
            blocks.append((value, at, taken))
        self._tokens = [tokens for _, at, _ in blocks for tokens in at]
        self._seconds = [value for value, at, _ in blocks for _ in at]
        self._stale = False


def _bucket(tokens: int) -> int:
    if tokens <= _EXACT:
        return tokens
    return _EXACT + math.ceil(_PER_OCTAVE * math.log2(tokens / _EXACT))


class Acceptance:
    """How likely a drafted token is to stand, by key: averages that move with what is seen.

    State: a sum and a weight for each of at most `most_keys` keys. Each observation fades
    exponentially, so that about the last 200 count; a new key begins at `prior`, worth four.
    """

    def __init__(self, prior: float = 0.5, most_keys: int = MOST_KEYS) -> None:
        if not 0 <= prior <= 1:
            raise ValueError(f"a prior acceptance lies in [0, 1], not {prior!r}")
        self._prior = prior
        self._most_keys = _at_least_one(most_keys)
        self._seen: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def note(self, key: Hashable, overlap: float) -> None:
        """Σ min(truth, guess) in [0, 1] at one evaluated position, whether or not it was drawn.

        Sums in float32 that pass the bounds by rounding are clipped; else raises ValueError.
        """
        if not -_ROUNDING <= overlap <= 1 + _ROUNDING:
            raise ValueError(f"an overlap of distributions lies in [0, 1], not {overlap!r}")
        total, weight = self._seen.get(key, (_PRIOR_WORTH * self._prior, _PRIOR_WORTH))
        fading = 1 - 1 / _MEMORY
        noted = (total * fading + min(1.0, max(0.0, overlap)), weight * fading + 1)
        _remember(self._seen, key, noted, self._most_keys)

    def of(self, key: Hashable) -> float:
        """The acceptance expected at the next position, in [0, 1]."""
        if key not in self._seen:
            return self._prior
        self._seen.move_to_end(key)
        total, weight = self._seen[key]
        return total / weight


def confidence_bucket(confidence: float) -> int:
    """0 to 6 for a proposer's own confidence in [0, 1], finer near 1: a key for `Acceptance`."""
    return bisect_right(_CONFIDENCES, confidence)


@dataclass(frozen=True, slots=True)
class Offer:
    """One request's draft: each of its tokens adds `rows` tokens to the verifying pass.

    Token i stands with chance `chances[i]` in [0, 1], given that those before it stood.
    """

    rows: int
    chances: Sequence[float]

    def __post_init__(self) -> None:
        _at_least_one(self.rows)
        for chance in self.chances:
            if not 0 <= chance <= 1:
                raise ValueError(f"a chance to stand lies in [0, 1], not {chance!r}")


def lengths(
    offers: Sequence[Offer], base_tokens: int, base_made: int, cost: Callable[[int], float]
) -> list[int]:
    """How many tokens of each offer to verify in one pass, for the most tokens per second.

    The pass has `base_tokens` tokens without drafts and makes `base_made`, one a request,
    whatever is drafted. `cost(tokens)` is in seconds and never falls. Drafted tokens join by
    expected gain per added row, all offers together, and the best beginning of that order is
    taken, not the first that a step in the cost makes look bad; nothing is drafted unless that
    makes `MARGIN` more tokens per second than none. This is the optimum for every cost where the
    offers' rows are equal, and for a linear cost whatever the rows.
    """
    order: list[tuple[float, int, float]] = []
    for index, offer in enumerate(offers):
        reached, rows = 1.0, offer.rows
        for chance in offer.chances:
            reached *= chance
            order.append((-reached / rows, index, reached))
    # Chances never rise along a draft, so that the order keeps each draft's own.
    order.sort()
    tokens, made = base_tokens, float(base_made)
    most = made + sum(gain for _, _, gain in order)
    none = best = (made, cost(tokens)) if order else (made, 0.0)
    taken = 0
    for count, (_, index, gain) in enumerate(order, 1):
        tokens += offers[index].rows
        made += gain
        seconds = cost(tokens)
        if made * best[1] > best[0] * seconds:
            taken, best = count, (made, seconds)
        elif most * best[1] <= best[0] * seconds:
            break  # Even all that is left, for nothing more than this pass costs, is no better.
    chosen = [0] * len(offers)
    if _pays(best, none):
        for _, index, _ in order[:taken]:
            chosen[index] += 1
    return chosen


def model_length(
    chance: float, most: int, draft_cost: float, cost_at: Callable[[int], float]
) -> int:
    """The length in 0..most of a draft by a small model, for the fewest seconds per token.

    Minimises (γ · draft_cost + cost_at(γ)) / (1 + a + … + a^γ) where a, the `chance` that a
    token stands, lies in [0, 1]; `cost_at(γ)` is of the pass that verifies γ drafted tokens. 0
    unless that makes `MARGIN` more tokens per second than none.
    """
    if not 0 <= chance <= 1:
        raise ValueError(f"a chance to stand lies in [0, 1], not {chance!r}")
    made = reached = 1.0
    none = best = (made, cost_at(0))
    chosen = 0
    for length in range(1, most + 1):
        reached *= chance
        made += reached
        seconds = length * draft_cost + cost_at(length)
        if made * best[1] > best[0] * seconds:
            chosen, best = length, (made, seconds)
    return chosen if _pays(best, none) else 0


def _pays(drafted: tuple[float, float], none: tuple[float, float]) -> bool:
    """Whether (tokens, seconds) with drafts are more per second than without, by the margin."""
    return drafted[0] * none[1] >= (1 + MARGIN) * none[0] * drafted[1]


class Explorer:
    """Tries with length 1, every `EVERY`th time, a source whose length came out 0.

    A cost or an average that was wrong once is so measured again, at a bounded price. State: how
    often in a row each of at most `most_keys` keys came out 0.
    """

    def __init__(self, every: int = EVERY, most_keys: int = MOST_KEYS) -> None:
        self._every = _at_least_one(every)
        self._most_keys = _at_least_one(most_keys)
        self._idle: OrderedDict[Hashable, int] = OrderedDict()

    def length(self, key: Hashable, chosen: int) -> int:
        """`chosen` itself, but 1 where it is the `every`th 0 in a row for this key."""
        idle = 0 if chosen else self._idle.get(key, 0) + 1
        due = idle >= self._every
        _remember(self._idle, key, 0 if due else idle, self._most_keys)
        return 1 if due else chosen


def _remember(kept: OrderedDict[Hashable, _Value], key: Hashable, value: _Value, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


def _at_least_one(number: int) -> int:
    if number < 1:
        raise ValueError(f"this is a whole number from 1, not {number!r}")
    return number
