"""Cached results of options: most calls of a model change other options than the formula."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from marith import recipes
from marith.formula.meaning.analysis import leaves
from marith.formula.meaning.binding import bind, parse, resolve
from marith.formula.meaning.checking import check
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Prompted
from marith.request.ban import Ban
from marith.request.plan import Plan
from marith.request.sampling import Sampling
from marith.request.stop import Stop

Written: TypeAlias = tuple[tuple[str, str], ...]  # terms, each a name and a text


@lru_cache(maxsize=16)
def resolved(terms: Written) -> Mapping[str, Formula]:
    """Every name of the terms with its bound formula, see `resolve`."""
    return resolve(dict(terms))


@lru_cache(maxsize=64)
def faithfully(formula: str, terms: Written, faithful: float, faithful_to: str | None) -> Formula:
    """The formula for a prompt in which `faithful_to` matches something that was retrieved."""
    parsed = parse(formula)
    if faithful_to is None:
        return parsed
    names = resolve(dict(terms), parsed)  # only those in the formula, since each request needs them
    return recipes.faithful_to(faithful_to, parsed, faithful, names)


@lru_cache(maxsize=64)
def require_meaning(
    formula: str,
    terms: Written,
    faithful: float,
    faithful_to: str | None,
    speculation: Plan | Literal["auto"] | None,
) -> None:
    """Raises FormulaError or RequestError for a formula or a plan without a meaning."""
    from marith.speculation.execution_plan import ExecutionPlan  # without torch, but of the engine

    names = resolved(terms)
    formulas = (parse(formula), faithfully(formula, terms, faithful, faithful_to))
    for parsed in dict.fromkeys(formulas):
        check(parsed, names)
        ExecutionPlan.of(parsed, names, speculation)


def other_models(formula: Formula, terms: Written) -> set[str]:
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
