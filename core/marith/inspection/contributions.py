"""Compute what each part of a formula adds to the log-odds of tokens, in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marith.decoding.evaluate import Evaluation, repeated, value_of
from marith.formula.meaning.leaves import needed
from marith.formula.tree.aligned import Aligned
from marith.formula.tree.factors import Factor, Varying, times
from marith.formula.tree.node import Node, descend, rebuilt
from marith.formula.tree.nodes import Cut, Formula, Name, Scaled, Sum, Tempered
from marith.formula.tree.operators import Supersede, Unscaled
from marith.formula.tree.terms import Classifier, Observation, Term


@dataclass(frozen=True, slots=True)
class Summand:
    """One summand of a formula's score: `factor` times the score of `node`."""

    factor: Factor
    node: Formula

    @property
    def of(self) -> Formula:
        """The term that the summand is, or else its node."""
        return self.node.of if isinstance(self.node, Aligned) else self.node

    def shown(self, names: Mapping[Formula, str]) -> Formula:
        """Return this summand as a formula, in which names replace formulas.

        A number is rounded to 12 digits, because 1 − 0.7 is 0.30000000000000004.
        """
        node: Formula = named(self.node, names)
        if isinstance(self.factor, Varying):
            return Scaled(named(self.factor, names), node)
        factor = float(f"{self.factor:.12g}")
        return node if factor == 1.0 else Scaled(factor, node)


def summands(formula: Formula) -> list[Summand]:
    """Return the members that add up to a formula's score, before its weight and cuts apply.

    Sums, products, temperatures, cuts and unscaled formulas are linear in the score, so their
    members are returned. Any other node is one member as a whole. Equal members are one summand,
    whose factor is the sum of theirs.
    """
    factors: dict[Formula, Factor] = {}
    for factor, node in _members(formula, 1.0):
        factors[node] = factors[node] + factor if node in factors else factor
    return [Summand(factor, node) for node, factor in factors.items()]


def _members(formula: Formula, by: Factor) -> Iterator[tuple[Factor, Formula]]:
    """Yield the members of a formula, multiplied by a factor."""
    match formula:
        case Scaled(0.0, _):
            return
        case Scaled(factor, of):
            yield from _members(of, times(by, factor))
        case Tempered(of, at):
            yield from _members(of, times(by, 1.0 / at))
        case Sum(members):
            for member in members:
                yield from _members(member, by)
        case Cut(of) | Unscaled(of) | Supersede(_, of):
            yield from _members(of, by)
        case _:
            yield by, formula


def without_own_part(formula: Formula) -> list[Term]:
    """Return the terms whose influence no single summand shows, in the order of the formula.

    Such a term is inside a summand that is not a term, inside a cut, or inside a factor.
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
            case Tempered(of) | Unscaled(of) | Supersede(_, of) | Aligned(of):
                waiting.append((of, within_cut))
            case _ if within_cut or not isinstance(node, Term):
                found |= _terms(node)
    return list(found)


def named(node: Node, names: Mapping[Formula, str]) -> Any:
    """Return a bound formula or factor in which names replace the formulas that have one."""
    if isinstance(node, Formula) and node in names:
        return Name(names[node])
    return rebuilt(node, lambda part: named(part, names))


def _terms(part: Factor | Formula) -> dict[Term, None]:
    """Return the distributions and classifiers from which a part is computed, without guides."""
    if isinstance(part, float):
        return {}
    nodes = descend(part, lambda node: () if isinstance(node, Term) else needed(node))
    terms = (node for node in nodes if isinstance(node, Term))
    return dict.fromkeys(term for term in terms if not isinstance(term, Observation))


class DoubleRows(Mapping[Term, Tensor]):
    """The rows of terms in float64, each converted on first use, or taken from `replaced`."""

    def __init__(
        self, rows: Mapping[Term, Tensor], replaced: Mapping[Term, Tensor] | None = None
    ) -> None:
        self._rows = rows
        self._double: dict[Term, Tensor] = dict(replaced or {})

    def __getitem__(self, term: Term) -> Tensor:
        if term not in self._double:
            self._double[term] = self._rows[term].double()
        return self._double[term]

    def __iter__(self) -> Iterator[Term]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class LogOdds:
    """The log-odds of tokens, and what each part of a formula adds to them, at some positions.

    `rows` has the float32 log-probabilities of each term, [positions, vocab], as `evaluate` takes
    them. `tokens` is [positions, count], and its first column is the reference. Log-odds are log
    P(t) − log P(reference), [positions, count] in float64. Only an application's own node, or a
    term that lacks tokens, has a weight that differs between tokens: `check` refuses all other such
    weights.
    """

    def __init__(self, formula: Formula, rows: Mapping[Term, Tensor], tokens: Tensor) -> None:
        self._formula = formula
        self._rows = rows
        self._double = DoubleRows(rows)
        self._at = Evaluation(self._double, repeated(formula))
        self._tokens = tokens
        self.weight = self._picked(self._weight(formula))

    def factor(self, summand: Summand) -> Tensor:
        """Return the number by which a summand's score is multiplied, [positions, count]."""
        return self._picked(self._factor(summand.factor))

    def of(self, summand: Summand) -> Tensor:
        """Return what a summand adds: sᵢ(t)/W(t) − sᵢ(r)/W(r)."""
        parts = self.factor(summand) * self._score(summand.node) / self.weight
        return parts - parts[:, :1]

    def leaving_out(self, term: Term, bare: Tensor) -> Tensor:
        """Return the log-odds with `bare` [positions, vocab] as a term's distribution, in float64.

        A classifier's guidance is 0 instead. NaN if the token or the reference cannot follow.
        """
        instead = torch.zeros_like(bare) if isinstance(term, Classifier) else bare
        value = value_of(self._formula, DoubleRows(self._double, {term: instead}))
        scores = self._picked(value.score) / self._picked(value.weight)
        if value.allowed is not None:
            scores = scores.masked_fill(~value.allowed.gather(1, self._tokens), -math.inf)
        return scores - scores[:, :1]

    def _score(self, node: Formula) -> Tensor:
        """Return the score of a node, [positions, count], with 0 for a forbidden token."""
        if not isinstance(node, Term):
            return self._picked(self._at.value(node).score)
        # Only the scores of these tokens are converted to float64, not whole rows.
        scores = self._rows[node].gather(1, self._tokens).double()
        return torch.where(scores > -math.inf, scores, 0.0)

    def _weight(self, formula: Formula) -> float | Tensor:
        """Return the weight of a formula. Linear nodes are not evaluated for it."""
        match formula:
            case Scaled(0.0, _) | Classifier():
                return 0.0
            case Scaled(factor, of):
                return self._factor(factor) * self._weight(of)
            case Sum(members):
                weights = map(self._weight, members)
                total = next(weights)
                for weight in weights:
                    total = total + weight
                return total
            case Cut(of) | Tempered(of) | Supersede(_, of):
                return self._weight(of)
            case Unscaled() | Term():
                return 1.0
        return self._at.value(formula).weight

    def _factor(self, factor: Factor) -> float | Tensor:
        return self._at.factor(factor)

    def _picked(self, values: float | Tensor) -> Tensor:
        """Return the values of the tokens, [positions, count].

        `values` is a number, [positions, 1] or [positions, vocab].
        """
        if not isinstance(values, Tensor) or not values.dim():
            return torch.full(self._tokens.shape, float(values), dtype=torch.float64).to(
                self._tokens.device
            )
        if values.shape[-1] == 1:
            return values.double().expand(self._tokens.shape)
        return values.gather(1, self._tokens).double()
