"""What options mean, found once for the same text: most calls of a model change something else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from marith import recipes
from marith.formula.meaning.binding import parse, resolve
from marith.formula.meaning.checking import check
from marith.formula.tree.nodes import Formula
from marith.request.ban import Ban
from marith.request.plan import Plan
from marith.request.sampling import Sampling
from marith.request.stop import Stop

Written: TypeAlias = tuple[tuple[str, str], ...]  # terms, each a name and a text


@lru_cache(maxsize=16)
def resolved(terms: Written) -> Mapping[str, Formula]:
    """Every name of the terms of options with what it stands for, as `resolve` says."""
    return resolve(dict(terms))


@lru_cache(maxsize=64)
def faithfully(formula: str, terms: Written, faithful: float, faithful_to: str | None) -> Formula:
    """The formula for a prompt in which `faithful_to` finds something that was retrieved."""
    read = parse(formula)
    if faithful_to is None:
        return read
    known = resolve(dict(terms), read)  # no other names: it is asked for each request
    return recipes.faithful_to(faithful_to, read, faithful, known)


@lru_cache(maxsize=64)
def require_meaning(
    formula: str,
    terms: Written,
    faithful: float,
    faithful_to: str | None,
    speculation: Plan | Literal["auto"] | None,
) -> None:
    """Raises FormulaError or RequestError for a formula that means nothing, and for such a plan."""
    from marith.speculation.execution_plan import ExecutionPlan  # no torch, but the engine's

    known = resolved(terms)
    for each in dict.fromkeys((parse(formula), faithfully(formula, terms, faithful, faithful_to))):
        check(each, known)
        ExecutionPlan.of(each, known, speculation)


@lru_cache(maxsize=64, typed=True)  # True is no 1.0
def sampling(*values: Any) -> Sampling:
    """How a token is drawn, by the fields of `Sampling` in their order."""
    return Sampling(*values)


@lru_cache(maxsize=8, typed=True)
def stop(max_tokens: int, strings: tuple[str, ...]) -> Stop:
    """Where a text ends; what finds the strings is made once."""
    return Stop(max_tokens, strings)


@lru_cache(maxsize=8)
def ban(words: tuple[str, ...]) -> Ban | None:
    """What is not in an answer; what finds the words is made once."""
    return Ban(words) if words else None
