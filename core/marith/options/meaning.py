"""Cached results of options: most calls of a model change other options than the formula."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from marith import recipes
from marith.formula.meaning.analysis import leaves
from marith.formula.meaning.binding import bind, resolve
from marith.formula.meaning.checking import check
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Prompted
from marith.request.ban import Ban
from marith.request.plan import Plan
from marith.request.sampling import Sampling
from marith.request.stop import Stop

Terms: TypeAlias = tuple[tuple[str, Formula], ...]  # each with its name


@lru_cache(maxsize=16)
def resolved(terms: Terms) -> Mapping[str, Formula]:
    """Every name of the terms with its bound formula, see `resolve`."""
    return resolve(dict(terms))


@lru_cache(maxsize=64)
def faithfully(formula: Formula, terms: Terms, faithful: float, faithful_to: str | None) -> Formula:
    """The formula for a prompt in which `faithful_to` matches something that was retrieved."""
    if faithful_to is None:
        return formula
    names = resolve(dict(terms), formula)  # only those in it, since each request needs them
    return recipes.faithful_to(faithful_to, formula, faithful, names)


@lru_cache(maxsize=64)
def require_meaning(
    formula: Formula,
    terms: Terms,
    faithful: float,
    faithful_to: str | None,
    speculation: Plan | Literal["auto"] | None,
) -> None:
    """Raises FormulaError or RequestError for a formula or a plan without a meaning."""
    from marith.speculation.execution_plan import ExecutionPlan  # without torch, but of the engine

    names = resolved(terms)
    for each in dict.fromkeys((formula, faithfully(formula, terms, faithful, faithful_to))):
        check(each, names)
        ExecutionPlan.of(each, names, speculation)


def other_models(formula: Formula, terms: Terms) -> set[str]:
    """The models that the terms of a formula name."""
    found = leaves(bind(formula, resolved(terms)))
    return {term.model for term in found if isinstance(term, Prompted) and term.model}


@lru_cache(maxsize=64, typed=True)  # True is no 1.0
def sampling(*values: Any) -> Sampling:
    """A `Sampling` from the values of its fields, in their order."""
    return Sampling(*values)


@lru_cache(maxsize=8, typed=True)
def stop(*values: Any) -> Stop:
    """A `Stop` from the values of its fields, in their order; its automaton is made once."""
    return Stop(*values)


@lru_cache(maxsize=8)
def ban(words: tuple[str, ...]) -> Ban | None:
    """A `Ban`, whose tree of words is made once; None without words."""
    return Ban(words) if words else None
