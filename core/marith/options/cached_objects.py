"""Caches of objects made from options, because most calls of a model repeat the formula."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from marith import recipes
from marith.formula.meaning.binding import bind, resolve
from marith.formula.meaning.checking import check
from marith.formula.meaning.leaves import leaves
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Prompted
from marith.request.ban import Ban
from marith.request.plan import Plan
from marith.request.sampling import Sampling
from marith.request.stop import Stop

_log = logging.getLogger(__name__)
# Pairs of a name and its term.
Terms: TypeAlias = tuple[tuple[str, Formula], ...]


@lru_cache(maxsize=16)
def resolve_terms(terms: Terms) -> Mapping[str, Formula]:
    """Map each term's name to its formula, with every name replaced by its term; see `resolve`."""
    return resolve(dict(terms))


@lru_cache(maxsize=64)
def make_faithful(
    formula: Formula, terms: Terms, faithful: float, faithful_to: str | None
) -> Formula:
    """Return the formula for a prompt in which `faithful_to` matches retrieved text."""
    if faithful_to is None:
        return formula
    # Only the names in the formula are resolved, to save time.
    names = resolve(dict(terms), formula)
    return recipes.faithful_to(faithful_to, formula, faithful, names)


@lru_cache(maxsize=64)
def require_meaning(
    formula: Formula,
    terms: Terms,
    faithful: float,
    faithful_to: str | None,
    speculation: Plan | Literal["auto"] | None,
) -> None:
    """Raise FormulaError or RequestError for a formula or a plan without a meaning."""
    # `speculation` is a room above `options`, so it is imported only when this is called. It needs
    # no torch.
    from marith.speculation.execution_plan import ExecutionPlan

    names = resolve_terms(terms)
    for each in dict.fromkeys((formula, make_faithful(formula, terms, faithful, faithful_to))):
        check(each, names)
        ExecutionPlan.of(each, names, speculation)


@lru_cache(maxsize=64)
def say_unmatched(faithful: float, faithful_to: str, advice: str) -> None:  # noqa: ARG001 (a key)
    """Log that `faithful_to` matched nothing. The cache keeps this from being logged again.

    The record does not contain the pattern, because an application may keep patterns private.
    """
    problem = f"faithful is {faithful}, but faithful_to matches nothing in a prompt"
    _log.warning("%s, and has no effect there; %s; this is not said again", problem, advice)


def other_models(formula: Formula, terms: Terms) -> set[str]:
    """Return the models that the terms of a formula name."""
    found = leaves(bind(formula, resolve_terms(terms)))
    return {term.model for term in found if isinstance(term, Prompted) and term.model}


# True and 1.0 are equal as keys; `typed` gives each its own entry.
@lru_cache(maxsize=64, typed=True)
def sampling(*values: Any) -> Sampling:
    """Return a `Sampling` from the values of its fields, in their order."""
    return Sampling(*values)


@lru_cache(maxsize=8, typed=True)
def stop(*values: Any) -> Stop:
    """Return a `Stop` from the values of its fields. The tree of its strings is built once."""
    return Stop(*values)


@lru_cache(maxsize=8)
def ban(words: tuple[str, ...]) -> Ban | None:
    """Return a `Ban`, or None without words. The tree of its words is built once."""
    return Ban(words) if words else None
