"""Every path of a draft window, with its exact probability instead of random numbers.

The outcome of a verification is a step function of its two random numbers, so the probability of
each outcome is an area. Both numbers are swept over their breakpoints, and the verifier itself
gives the outcome between two of them. Each state is followed once, with the probabilities of all
paths that lead to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import torch
from support.term_tables import MOST, VOCAB, Row, composed
from support.window_driver import NOT_DRAFTED, Check, Driver, verify
from torch import Tensor

Text = tuple[int, ...]
Cell = tuple[float, float]
NARROW = 1e-13  # breakpoints so close are one; an outcome is looked at so close to its ends


@dataclass
class Ends:
    """The texts that can follow from a state, with their probabilities, and the number of paths."""

    texts: dict[Text, float] = field(default_factory=lambda: defaultdict(float))
    paths: int = 0

    def add(self, share: float, ends: Ends) -> None:
        self.paths += ends.paths
        for text, chance in ends.texts.items():
            self.texts[text] += share * chance


def lawful(
    law: Callable[[Text], Row], ends: frozenset[int], text: Text = (), chance: float = 1.0
) -> Iterator[tuple[Text, float]]:
    """Yield each whole text with its probability, computed token by token."""
    if len(text) == MOST or (text and text[-1] in ends):
        yield text, chance
        return
    for token, share in enumerate(law(text).tolist()):
        yield from lawful(law, ends, (*text, token), chance * share)


class Enumeration:
    """Follows every path of a window until its text is whole. `states` keeps the known states.

    A path is a sequence of outcomes of the positions that were verified.
    """

    def __init__(self, driver: Driver, sweep: Sweep) -> None:
        self.driver = driver
        self.states: dict[bytes, Ends] = {}
        self.drafted = 0  # positions of states at which a drafted token was verified
        self._sweep = sweep
        self.ends = self._follow(driver.freeze(driver.begin()))

    def error(self) -> float:
        """Return the largest difference between found and composed probabilities of a text."""
        setup, found = self.driver.setup, self.ends.texts
        right = dict(lawful(lambda text: composed(setup.law, setup.sampling, text), setup.ends))
        return max(abs(found.get(text, 0.0) - right.get(text, 0.0)) for text in {*right, *found})

    def _follow(self, state: bytes) -> Ends:
        if state in self.states:
            return self.states[state]
        driver, found = self.driver, Ends()
        window = driver.thaw(state)
        checks = driver.checks(window)
        self.drafted += sum(check.token != NOT_DRAFTED for check in checks)
        asked = driver.freeze(window)
        for tokens, share in self._sweep.outcomes(checks):
            branch = driver.thaw(asked)
            driver.accept(branch, checks, tokens)
            text = driver.verified(branch)
            if len(text) == MOST or driver.setup.ends.intersection(text):
                found.add(share, Ends({text: 1.0}, 1))
            else:
                found.add(share, self._follow(driver.freeze(branch)))
        self.states[state] = found
        return found


class Sweep:
    """The outcomes of a verification with their probabilities. Each position is computed once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[int, dict[int, float]]] = {}

    def outcomes(self, checks: Sequence[Check]) -> Iterator[tuple[list[int], float]]:
        """Yield the tokens that may be accepted together, with their probability.

        After a token that was not drafted, no token of the draft is accepted. What the verifier
        returns for later positions must be ignored, so a wrong token is put there.
        """
        standing, chance = [], 1.0
        for at, check in enumerate(checks):
            after = [(other.token + 1) % VOCAB for other in checks[at + 1 :]]
            found = self._of(check)
            for token, share in found.items():
                if token != check.token:
                    yield [*standing, token, *after], chance * share
            standing.append(check.token)
            chance *= found.get(check.token, 0.0)
        if chance:
            yield standing, chance

    def _of(self, check: Check) -> dict[int, float]:
        rows = [check.target] if check.draft is None else [check.target, check.draft]
        key = tuple(row.numpy().tobytes() for row in rows)
        if key not in self._known:
            self._known[key] = areas(check.target, check.draft)
        return self._known[key][check.token]


def areas(target: Tensor, draft: Tensor | None) -> dict[int, dict[int, float]]:
    """Return the probability of each resulting token, for each token that may be drafted."""
    keep, draw = breakpoints(target, draft)
    cells = [
        (token, *cell)
        for token, point in keep.items()
        for cell in product(between([point]), between(draw))
    ]
    points = [inside(*cell) for _, *cell in cells]
    chances = torch.tensor(points, dtype=torch.float64).flatten(0, 1)
    stood = torch.tensor([token for token, *_ in cells]).repeat_interleave(len(points[0]))
    tokens, _ = verify(target.expand(len(stood), -1), [draft] * len(stood), stood, chances)
    seen = tokens.view(len(cells), -1)
    assert bool((seen == seen[:, :1]).all()), "two outcomes within a cell: see `breakpoints`"
    found: dict[int, dict[int, float]] = {token: defaultdict(float) for token in keep}
    for (token, (low, high), (left, right)), outcome in zip(
        cells, seen[:, 0].tolist(), strict=True
    ):
        found[token][outcome] += (high - low) * (right - left)
    return found


def breakpoints(target: Tensor, draft: Tensor | None) -> tuple[dict[int, float], list[float]]:
    """Return where the outcome changes, for the number that accepts and the number that draws.

    The token may be drawn from the target, or from the target's excess over the draft, normalised
    or not. A breakpoint too many does no harm.
    """
    target = target.exp()
    if draft is None:  # nothing is drafted there, or a token is proposed outright
        return dict.fromkeys(range(NOT_DRAFTED, VOCAB), 0.0), target.cumsum(0).tolist()
    draft = draft.exp()
    accepted = (target / draft).nan_to_num(nan=0.0)
    lacking = (target - draft).clamp(min=0.0)
    draws = [masses.cumsum(0) for masses in (target, lacking, lacking / lacking.sum())]
    return dict(enumerate(accepted.tolist())), torch.cat(draws).nan_to_num(nan=0.0).tolist()


def between(points: Sequence[float]) -> list[Cell]:
    """Return the cells of [0, 1) between breakpoints."""
    edges = [0.0]
    for point in sorted(points):
        if edges[-1] + 4 * NARROW < point < 1.0 - 4 * NARROW:
            edges.append(point)
    return list(zip(edges, [*edges[1:], 1.0], strict=True))


def inside(keep: Cell, draw: Cell) -> list[tuple[float, float]]:
    """Return points of a cell of both numbers: its middle, and near its corners."""
    corners = product(*((low + NARROW, high - NARROW) for low, high in (keep, draw)))
    return [(sum(keep) / 2, sum(draw) / 2), *corners]
