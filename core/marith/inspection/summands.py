"""Which parts of a formula contribute to its score, and which terms have no part of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from marith.formula.meaning.analysis import needed
from marith.formula.tree.factors import Factor, Varying, times
from marith.formula.tree.node import Node, descend, rebuilt
from marith.formula.tree.nodes import Cut, Formula, Name, Scaled, Sum, Tempered
from marith.formula.tree.operators import Supersede, Unscaled
from marith.formula.tree.terms import Observation, Term


@dataclass(frozen=True, slots=True)
class Summand:
    """One member of the flattened sum of a score: the product of `factors` times a node's score."""

    factors: tuple[Factor, ...]
    node: Formula

    def shown(self, names: Mapping[Formula, str]) -> Formula:
        """It as a formula, with names in place of what they stand for."""
        node: Formula = named(self.node, names)
        if not self.factors:
            return node
        shown = [named(f, names) if isinstance(f, Varying) else f for f in self.factors]
        factor: Factor = reduce(times, shown)
        return node if factor == 1.0 else Scaled(factor, node)


def summands(formula: Formula, factors: tuple[Factor, ...] = ()) -> Iterator[Summand]:
    """The members of a score that add up to it, whatever divides it and what cuts forbid.

    Sums and products are linear in the score, and so are a temperature within the formula, a cut,
    and a weight that is set to 1. Whatever else is no term is one member as a whole.
    """
    match formula:
        case Scaled(0.0, _):
            return
        case Scaled(factor, of):
            yield from summands(of, (*factors, factor))
        case Tempered(of, at):
            yield from summands(of, (*factors, 1.0 / at))
        case Sum(members):
            for member in members:
                yield from summands(member, factors)
        case Cut(of) | Unscaled(of) | Supersede(_, of):
            yield from summands(of, factors)
        case _:
            yield Summand(factors, formula)


def without_own_part(formula: Formula) -> list[Term]:
    """The distinct terms whose influence no single summand shows, in the order of the text.

    Those within a summand that is no term, within a cut, or within a factor.
    """
    found: dict[Term, None] = {}
    waiting: list[tuple[Formula, bool]] = [(formula, False)]
    while waiting:
        node, within_cut = waiting.pop()
        match node:
            case Scaled(0.0, _):
                continue
            case Scaled(factor, of):
                found |= _terms(factor)
                waiting.append((of, within_cut))
            case Sum(members):
                waiting += [(member, within_cut) for member in reversed(members)]
            case Cut(of):
                waiting.append((of, True))
            case Tempered(of) | Unscaled(of) | Supersede(_, of):
                waiting.append((of, within_cut))
            case _ if within_cut or not isinstance(node, Term):
                found |= _terms(node)
    return list(found)


def named(node: Node, names: Mapping[Formula, str]) -> Any:
    """A bound formula or factor with each formula that has a name replaced by that name."""
    if isinstance(node, Formula) and node in names:
        return Name(names[node])
    return rebuilt(node, lambda part: named(part, names))


def _terms(part: Factor | Formula) -> dict[Term, None]:
    """The distributions and classifiers that a part is computed from; no classifier's guide."""
    if isinstance(part, float):
        return {}
    nodes = descend(part, lambda node: () if isinstance(node, Term) else needed(node))
    terms = (node for node in nodes if isinstance(node, Term))
    return dict.fromkeys(term for term in terms if not isinstance(term, Observation))
