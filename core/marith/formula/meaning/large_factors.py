"""How much each distribution of a formula counts after division by the weight.

`extreme` warns if one distribution counts too much.
"""

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

# A larger total factor gives a warning: docs/explanation/algebra.md#large-factors.
USUAL = 2.5
# M - 0.99*union(a, M) enlarges errors this much. Errors are about 1e-6 in float32.
SHOWING = 199


def extreme(bound: Formula, terms: Mapping[str, Formula]) -> str:
    """Return a warning with advice if factors of a formula are too large, else "".

    Texts become nonsense if the factors of the distributions that are added come to more than
    `USUAL` in total. Large factors, negative ones too, enlarge rounding errors. `bound` is the
    formula with its names replaced by `terms`.
    """
    names = {named: name for name, named in terms.items()}
    found = distributions(bound, Weights())
    worst = max(found, key=lambda factors: factors.added)
    # `M - 0.6*toxic` counts M exactly 2.5 times, and rounding must not cause a warning.
    if worst.added > USUAL * (1 + ROUNDING):
        return _lifted(worst, names)
    enlarged = amplification(bound)
    if enlarged < SHOWING * (1 - ROUNDING):
        return ""
    relus = [
        f"{_named(relu, names)} with a smaller factor for the union"
        for factors in found
        for relu in factors.unions
    ]
    return (
        f"an error of a term's log-probabilities counts up to {_rounded(enlarged)} times, so that "
        f"rounding shows in what is generated: write {', or '.join(['smaller numbers', *relus])}"
    )


def _lifted(worst: DistributionFactors, names: Mapping[Formula, str]) -> str:
    """Return the warning, with advice, that the added distributions count too much."""
    added = [_named(term, names) for term in worst.positive]
    verb = "count together" if len(added) > 1 else "counts"
    problem = f"{' and '.join(added)} {verb} {_rounded(worst.added)} times"
    if abs(worst.weight - 1) > ROUNDING:
        problem += f", as everything is divided by the total weight {_rounded(worst.weight)}"
    # `left` is the total weight without the unions.
    left = worst.weight * (1 + sum(worst.unions.values()))
    instead = [
        f"{_rounded(times * left)}*{_named(relu, names)} for the union, as a relu takes no weight "
        "away"
        for relu, times in worst.unions.items()
    ]
    first = added[0]
    cut = f"{first}.min_p({PLAUSIBLE}) for {first}, to keep to tokens that it finds plausible"
    return (
        f"{problem}; beyond {USUAL} times texts often become nonsense: write "
        f"{', or '.join([*instead, 'smaller numbers', cut])}"
    )


def _named(term: Formula, names: Mapping[Formula, str]) -> str:
    """Return a formula as text. A part that is one of the named terms is written as its name."""

    def change(node: Node) -> Node:
        known = isinstance(node, Formula) and names.get(node)
        return Name(known) if known else rebuilt(node, change)

    return to_text(change(term))


def _rounded(number: float) -> str:
    return number_text(float(f"{number:.3g}"))


class DistributionFactors:
    """The distributions that a formula adds up, each with its factor.

    The `factors` are divided by the total `weight`. `parts` are formulas inside the distributions,
    which have factors of their own. `held` is True if a summand is a cut, which forbids all tokens
    outside its set. `unions` maps each relu that can replace a subtracted union to the factor with
    which the union is subtracted.
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
        # A cut keeps the text to tokens that it finds plausible, however large the factors are.
        return 1.0 if self.held else sum(self.factors[term] for term in self.positive)

    def count(self, term: Formula, by: float) -> None:
        """Add a distribution times a factor."""
        self.factors[term] = self.factors.get(term, 0.0) + by

    def _write_with_relu(self) -> None:
        """Write −max(a, b) as −b − relu(a − b), and min(a, b) as b − relu(b − a), if possible.

        It is possible only if b is itself a summand, with which the new b is merged. The relu does
        not go into `factors`: subtracting it makes some tokens rarer and no token likelier.
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


def distributions(formula: Formula, weights: Weights) -> list[DistributionFactors]:
    """Return the factors of a formula without names, and of each distribution within it."""
    found = [DistributionFactors(formula, weights)]
    # The list grows while the loop runs over it, because parts have parts.
    for each in found:
        found += [DistributionFactors(part, weights) for part in each.parts]
    return found


@singledispatch
def add(formula: Formula, into: DistributionFactors, by: float) -> None:
    """Add a node times the factor `by`. By default the node is one distribution."""
    if not into.weights.of(formula).nothing:
        into.count(formula, by)
        into.parts |= dict.fromkeys(children(formula))


@add.register
def _add_sum(total: Sum, into: DistributionFactors, by: float) -> None:
    for member in total.members:
        add(member, into, by)


@add.register
def _add_scaled(scaled: Scaled, into: DistributionFactors, by: float) -> None:
    if factor := _least(scaled.factor, into.weights):
        add(scaled.of, into, factor * by)


@add.register
def _add_supersede(supersede: Supersede, into: DistributionFactors, by: float) -> None:
    add(supersede.of, into, by)


@add.register
def _add_unscaled(unscaled: Unscaled, into: DistributionFactors, by: float) -> None:
    """Divide by the weight if it is above 1, because such a weight only sharpens a distribution."""
    add(unscaled.of, into, by / max(1.0, into.weights.of(unscaled.of).least))


@add.register
def _add_cut(cut: Cut, into: DistributionFactors, by: float) -> None:
    into.held = True
    into.count(cut.of, by)
    into.parts[cut.of] = None


@add.register
def _add_relu(relu: Relu, into: DistributionFactors, by: float) -> None:
    # A relu that is subtracted makes no token likelier.
    if by > 0:
        add(relu.of, into, by)


def _least(factor: Factor, weights: Weights) -> float:
    """Return a factor that is a number, or the value nearest to zero in another factor's range."""
    low, high = weights.factor(factor).range
    return 0.0 if low < 0 < high else min(low, high, key=abs)
