"""How long a draft should be, for the most tokens per second."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from marith.speculation.controller.acceptance import MOST_KEYS, at_least_one, remember

MARGIN = 0.08
"""A draft is worth its trouble from this much more tokens per second: choosing costs time too."""
EVERY = 64
"""How many times in a row a draft is left out before it is tried all the same."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One request's draft: each of its tokens adds `rows` tokens to the verifying pass.

    Token i stands with chance `chances[i]` in [0, 1], given that those before it stood.
    """

    rows: int
    chances: Sequence[float]

    def __post_init__(self) -> None:
        at_least_one(self.rows)
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
        self._every = at_least_one(every)
        self._most_keys = at_least_one(most_keys)
        self._idle: OrderedDict[Hashable, int] = OrderedDict()

    def length(self, key: Hashable, chosen: int) -> int:
        """`chosen` itself, but 1 where it is the `every`th 0 in a row for this key."""
        idle = 0 if chosen else self._idle.get(key, 0) + 1
        due = idle >= self._every
        remember(self._idle, key, 0 if due else idle, self._most_keys)
        return 1 if due else chosen
