"""Measure a plan while a person waits, and show what it says of each term."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from marith.engine.engine import Engine
from marith.formula.meaning.binding import resolve
from marith.formula.text.term_data import Terms
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula
from marith.request.plan import Plan
from marith.showing import bars, counted
from marith.speculation.execution_plan import ExecutionPlan


def measured(
    engine: Engine,
    formula: str,
    prompts: Sequence[str],
    terms: Terms,
    costs: Literal["time", "calls"],
) -> Plan:
    """Return the engine's plan; standard error shows the time taken and the time left."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with bars(*columns, TimeRemainingColumn(), everywhere=True) as progress:
        bar = progress.add_task(f"calibrating on {counted(len(prompts), 'prompt')}", total=1.0)
        return engine.calibrate(
            formula,
            prompts,
            terms,
            costs=costs,
            on_progress=lambda share: progress.update(bar, completed=share),
        )


def table(plan: Plan, formula: Formula, terms: Terms) -> None:
    """Print the speculative factor of each term on standard error."""
    factor_table = Table("term", "computed for")
    for name, count in factors(plan, formula, terms):
        factor_table.add_row(name, "each token" if count == 1 else f"{count} tokens at a time")
    for draft in plan.drafted_by:
        factor_table.add_row(draft, f"drafts of {plan.length} tokens")
    Console(stderr=True).print(factor_table)


def factors(plan: Plan, formula: Formula, terms: Terms) -> list[tuple[str, int]]:
    """Return the speculative factor of each term, drafts first, by its name if it has one."""
    named = resolve(terms)
    names = {term: name for name, term in named.items()}
    bound = ExecutionPlan.of(parse(formula), named, plan)
    every = (*bound.drafts, *bound.terms)
    return [(names.get(term, str(term)), bound.factors.get(term, 1)) for term in every]
