"""The paper's table of calls and time per token, and what better drafts make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from marith.engine.engine import Engine
from marith.evals.speed.speculation.drafting_setups import DraftingSetup
from marith.evals.speed.speculation.speed_questions import BLOCK_OF_CALIBRATION, F1, F2, questions
from marith.formula.text.term_data import Terms
from marith.request.plan import MOST, Plan

PLAIN = "no speculation"
CALIBRATION = 10  # prompts, as many as the paper's
AHEAD = 7


@dataclass(frozen=True, slots=True)
class TableFormula:
    """A formula of the table, `M` weighing 1, with the paper's figures without and with drafts."""

    weights: tuple[tuple[str, float], ...]
    calls: tuple[float, float]
    milliseconds: tuple[float, float]

    def formula(self, draft: str = "") -> str:
        """Its text; a draft replaces M until M is computed."""
        first = f"supersede({draft}, M)" if draft else "M"
        return " + ".join([first, *(f"{weight}*{name}" for name, weight in self.weights)])


def _half(name: str) -> tuple[tuple[str, float], ...]:
    return ((name, 0.5),)


ROWS = (
    TableFormula((), (1.0, 0.80), (24.9, 22.8)),
    TableFormula(_half("formal"), (2.0, 1.03), (48.4, 30.4)),
    TableFormula(_half("happy"), (2.0, 1.04), (49.2, 31.2)),
    TableFormula(_half("sports"), (2.0, 1.08), (49.3, 32.0)),
    TableFormula(_half("easy"), (2.0, 1.10), (49.2, 32.7)),
    TableFormula(_half("angry"), (2.0, 1.12), (49.3, 33.0)),
    TableFormula(tuple(F1.items()), (4.0, 1.32), (97.0, 43.3)),
    TableFormula(tuple(F2.items()), (4.0, 1.44), (97.0, 46.1)),
)


def setups(
    row: TableFormula,
    engine: Engine,
    terms: Terms,
    announce: Callable[[str], None] = lambda _: None,
) -> Iterator[DraftingSetup]:
    """A formula without speculation, as in the paper, and drafted whole by a longer n-gram.

    `announce` receives the formula that is calibrated.
    """
    plain = DraftingSetup(PLAIN, row.formula(), terms, whole=True)
    yield plain
    drafted = row.formula("A2")
    announce(f"calibrates {drafted}")
    prompts = questions(CALIBRATION, BLOCK_OF_CALIBRATION)
    plan = engine.calibrate(drafted, prompts, terms, "calls")
    yield replace(plain, name="as the paper", formula=drafted, speculation=plan)
    whole = Plan.drafts("A5", length=AHEAD)
    yield replace(plain, name="A5, all together", speculation=whole)
    if row.weights:
        yield replace(plain, name="A5, light terms later", speculation=light_terms_later(row))


def light_terms_later(row: TableFormula) -> Plan:
    """Terms of at most half the largest weight are computed for most positions at a time."""
    heaviest = max(1.0, *(weight for _, weight in row.weights))
    light = [name for name, weight in row.weights if weight <= heaviest / 2]
    return Plan(tuple((name, MOST) for name in light), ("A5",), AHEAD)
