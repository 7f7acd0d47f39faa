"""The length of drafts that makes the most tokens per second."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from marith.speculation.controller.acceptance import MOST_KEYS, at_least_one, remember

MARGIN = 0.08
"""A draft must make this share more tokens per second, since choosing it takes time too."""
EVERY = 64
"""After so many times in a row without a draft, one is tried."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The draft of one request: each of its tokens adds `rows` tokens to the verifying pass.

    Token i is accepted with probability `chances[i]`, given that those before it are.
    """

    rows: int
    chances: Sequence[float]

    def __post_init__(self) -> None:
        at_least_one(self.rows)
        for chance in self.chances:
            if not 0 <= chance <= 1:
                raise ValueError(f"the chance of a token lies in [0, 1], not {chance!r}")


def lengths(
    offers: Sequence[Offer], base_tokens: int, base_made: int, cost: Callable[[int], float]
) -> list[int]:
    """How many tokens of each offer to verify in one pass, for the most tokens per second.

    The pass has `base_tokens` tokens without drafts and makes `base_made`, one for each request,
    whatever is drafted. `cost(tokens)` is in seconds and never falls. The drafted tokens of all
    offers are sorted by expected gain per added row, and the best number of them from the start is
    taken; the search does not end at the first step in the cost that makes one more look bad.
    Nothing is drafted unless that makes `MARGIN` more tokens per second than no draft. The result
    is optimal for every cost if all offers have equal rows, and for a linear cost with any rows.
    """
    order: list[tuple[float, int, float]] = []
    for index, offer in enumerate(offers):
        reached, rows = 1.0, offer.rows
        for chance in offer.chances:
            reached *= chance
            order.append((-reached / rows, index, reached))
    # The gain never rises along a draft, so that sorting keeps the order of each draft.
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
            break  # All tokens that remain, at the cost of this pass alone, would be no better.
    chosen = [0] * len(offers)
    if _pays(best, none):
        for _, index, _ in order[:taken]:
            chosen[index] += 1
    return chosen


def model_length(
    chance: float, most: int, draft_cost: float, cost_at: Callable[[int], float]
) -> int:
    """The length in 0..most of a draft by a small model, for the fewest seconds per token.

    Minimises (γ · draft_cost + cost_at(γ)) / (1 + a + … + a^γ), where a in [0, 1] is the `chance`
    that a token is accepted; `cost_at(γ)` is that of the pass which verifies γ drafted tokens. 0
    unless a draft makes `MARGIN` more tokens per second than none.
    """
    if not 0 <= chance <= 1:
        raise ValueError(f"the chance of a token lies in [0, 1], not {chance!r}")
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
    """Whether (tokens, seconds) with drafts is more tokens per second than without, by `MARGIN`."""
    return drafted[0] * none[1] >= (1 + MARGIN) * none[0] * drafted[1]


class Explorer:
    """Tries a source with length 1 after its length was 0 in `every` choices in a row.

    So a wrong cost or average is measured again, at a bounded price. Under load most choices are
    made for many texts at once, and one draft makes the pass of all of them a slower one: all
    sources that are due are tried in one round, and then in none for `every` rounds. State: for
    each of at most `most_keys` keys, how often in a row the length was 0; the rounds since a try.
    """

    def __init__(self, every: int = EVERY, most_keys: int = MOST_KEYS) -> None:
        self._every = at_least_one(every)
        self._most_keys = at_least_one(most_keys)
        self._idle: OrderedDict[Hashable, int] = OrderedDict()
        self._rounds = every
        self._tried = False

    def begin(self) -> None:
        """A new round, in which lengths are chosen for all texts."""
        self._rounds = 0 if self._tried else self._rounds + 1
        self._tried = False

    def length(self, key: Hashable, chosen: int) -> int:
        """`chosen` itself, but 1 where this key is due, and this is a round of tries."""
        idle = 0 if chosen else self._idle.get(key, 0) + 1
        due = idle >= self._every and self._rounds >= self._every
        self._tried |= due
        remember(self._idle, key, 0 if due else idle, self._most_keys)
        return 1 if due else chosen
