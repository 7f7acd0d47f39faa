"""The factors of a formula's distributions after division by the weight, with a warning."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

from marith.formula.meaning.amplification import amplification
from marith.formula.meaning.binding import BARE_MODEL
from marith.formula.meaning.polynomials import ROUNDING
from marith.formula.meaning.weights import Weights
from marith.formula.tree.factors import Factor
from marith.formula.tree.node import Node, rebuilt
from marith.formula.tree.nodes import PLAUSIBLE, Cut, Formula, Name, Scaled, Sum, children
from marith.formula.tree.operators import Intersection, Relu, Supersede, Union, Unscaled
from marith.formula.tree.printing import number_text, to_text

USUAL = 2.5  # the largest total factor without a warning: docs/explanation/algebra.md#large-factors
SHOWING = 199  # how much M - 0.99*union(a, M) enlarges errors, which are about 1e-6 in float32


def extreme(bound: Formula, terms: Mapping[str, Formula]) -> str:
    """Return a warning about factors that are too large, with advice; "" if none is too large.

    If the distributions that are added count more than `USUAL` times together, texts become
    nonsense. Any large factor enlarges rounding errors. `bound` is the formula with its names
    replaced by `terms`.
    """
    names = {named: name for name, named in terms.items()}
    scores = distributions(bound, Weights())
    worst = max(scores, key=lambda score: score.added)
    if worst.added > USUAL * (1 + ROUNDING):
        return _lifted(worst, names)
    enlarged = amplification(bound)
    if enlarged < SHOWING * (1 - ROUNDING):
        return ""
    relus = [
        f"{_named(relu, names)} with a smaller factor for the union"
        for score in scores
        for relu in score.unions
    ]
    return (
        f"an error of a term's log-probabilities counts up to {_rounded(enlarged)} times, so that "
        f"rounding shows in what is generated: write {', or '.join(['smaller numbers', *relus])}"
    )


def _lifted(worst: Score, names: Mapping[Formula, str]) -> str:
    """Return a warning about the distributions that are added too often, with advice."""
    added = [_named(term, names) for term in worst.positive]
    verb = "count together" if len(added) > 1 else "counts"
    problem = f"{' and '.join(added)} {verb} {_rounded(worst.added)} times"
    if abs(worst.weight - 1) > ROUNDING:
        problem += f", as everything is divided by the total weight {_rounded(worst.weight)}"
    left = worst.weight * (1 + sum(worst.unions.values()))  # the total weight without the unions
    instead = [
        f"{_rounded(times * left)}*{_named(relu, names)} for the union, as a relu takes no weight "
        "away"
        for relu, times in worst.unions.items()
    ]
    first = added[0]
    cut = f"{first}.plausible({PLAUSIBLE}) for {first}, to keep to tokens that it finds plausible"
    return (
        f"{problem}; beyond {USUAL} times texts often become nonsense: write "
        f"{', or '.join([*instead, 'smaller numbers', cut])}"
    )


def _named(term: Formula, names: Mapping[Formula, str]) -> str:
    """Return a bound formula as text, with the names of its terms."""

    def change(node: Node) -> Node:
        known = isinstance(node, Formula) and names.get(node)
        return Name(known) if known else rebuilt(node, change)

    return to_text(change(term))


def _rounded(number: float) -> str:
    return number_text(float(f"{number:.3g}"))


class Score:
    """The distributions that the score of a formula adds up, with their factors.

    `factors` are divided by the total `weight`. `parts` are distributions within these, which have
    scores of their own. `held` is True if a member is a cut, which forbids all tokens outside its
    set. `unions` are subtracted unions: each is stored as the relu that may replace it, with its
    factor.
    """

    def __init__(self, formula: Formula, weights: Weights) -> None:
        self.weights = weights
        self.weight = weights.of(formula).least
        self.factors: dict[Formula, float] = {}
        self.parts: dict[Formula, None] = {}
        self.held = False
        self.unions: dict[Relu, float] = {}
        if self.weight > 0:
            add(formula, self, 1 / self.weight)
        self._write_with_relu()

    @property
    def positive(self) -> list[Formula]:
        """The distributions with a factor above zero, the largest factor first."""
        added = [term for term, factor in self.factors.items() if factor > ROUNDING]
        return sorted(added, key=lambda term: -self.factors[term])

    @property
    def added(self) -> float:
        """The sum of the factors above zero; 1 if a member is a cut."""
        return 1.0 if self.held else sum(self.factors[term] for term in self.positive)

    def count(self, term: Formula, by: float) -> None:
        """Add a distribution times a factor."""
        self.factors[term] = self.factors.get(term, 0.0) + by

    def _write_with_relu(self) -> None:
        """Replace −max(a, b) with −b − relu(a − b), min(a, b) with b − relu(b − a), if possible.

        The b must have a factor. A relu that is subtracted makes some tokens rarer and no token
        likelier, so the relu is left out.
        """
        for pair in [term for term in self.factors if isinstance(term, Union | Intersection)]:
            by, is_union = self.factors[pair], isinstance(pair, Union)
            if (by > 0) == is_union:
                continue
            single = next((member for member in pair.members if member in self.factors), None)
            if single is not None:
                del self.factors[pair]
                self.count(single, by)
            base = single or BARE_MODEL
            others = tuple(member for member in pair.members if member != base)
            if is_union and others:
                relu = Relu((Union(others) if others[1:] else others[0]) - base)
                self.unions[relu] = self.unions.get(relu, 0.0) - by


def distributions(formula: Formula, weights: Weights) -> list[Score]:
    """Return the score of a bound formula, and of each distribution within it."""
    scores = [Score(formula, weights)]
    for score in scores:  # the list grows
        scores += [Score(part, weights) for part in score.parts]
    return scores


@singledispatch
def add(formula: Formula, score: Score, by: float) -> None:
    """Add one kind of node times a factor: as a distribution, unless registered."""
    if not score.weights.of(formula).nothing:
        score.count(formula, by)
        score.parts |= dict.fromkeys(children(formula))


@add.register
def _add_sum(total: Sum, score: Score, by: float) -> None:
    for member in total.members:
        add(member, score, by)


@add.register
def _add_scaled(scaled: Scaled, score: Score, by: float) -> None:
    if factor := _least(scaled.factor, score.weights):
        add(scaled.of, score, factor * by)


@add.register
def _add_supersede(supersede: Supersede, score: Score, by: float) -> None:
    add(supersede.of, score, by)


@add.register
def _add_unscaled(unscaled: Unscaled, score: Score, by: float) -> None:
    """Divide by a weight above one: such a weight sharpens a distribution, and lifts nothing."""
    add(unscaled.of, score, by / max(1.0, score.weights.of(unscaled.of).least))


@add.register
def _add_cut(cut: Cut, score: Score, by: float) -> None:
    score.held = True
    score.count(cut.of, by)
    score.parts[cut.of] = None


@add.register
def _add_relu(relu: Relu, score: Score, by: float) -> None:
    if by > 0:
        add(relu.of, score, by)


def _least(factor: Factor, weights: Weights) -> float:
    """Return a number, or the value in a factor's range that is nearest to zero."""
    low, high = weights.factor(factor).range
    return 0.0 if low < 0 < high else min(low, high, key=abs)
