"""The paper's figure: calls per token of M + λ·M_a, for λ from 0.1 to 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from marith.engine.engine import Engine
from marith.evals.speed.speculation.drafting_setups import (
    DraftingSetup,
    Tally,
    plan_label,
    variant,
)
from marith.evals.speed.speculation.speed_questions import (
    BLOCK_OF_CALIBRATION,
    SYSTEM_PROMPTS,
    questions,
)
from marith.evals.speed.speculation.speed_sizes import Size
from marith.formula.text.term_data import Terms

FACTORS = tuple(round(0.1 * i, 1) for i in range(1, 11))


@dataclass(frozen=True, slots=True)
class FactorPoint:
    """Calls and passes per token of one formula, and the plan that it was calibrated to.

    `voice` is the name of the system prompt.
    """

    voice: str
    factor: float
    calls: float
    passes: float
    predicted: float | None
    measured: float | None
    plan: str


def points(
    engine: Engine, terms: Terms, size: Size, tokens: int, announce: Callable[[str], None]
) -> list[FactorPoint]:
    """Every system prompt at every λ; `announce` receives each formula before it runs."""
    result = []
    for name in SYSTEM_PROMPTS:
        for factor in FACTORS:
            announce(f"M + {factor}*{name}")
            result.append(_point(engine, terms, size, tokens, name, factor))
    return result


def _point(
    engine: Engine, terms: Terms, size: Size, tokens: int, name: str, factor: float
) -> FactorPoint:
    formula, total = f"M + {factor}*{name}", Tally()
    plan = engine.calibrate(formula, questions(size.prompts, BLOCK_OF_CALIBRATION), terms, "calls")
    setup = DraftingSetup(formula, formula, terms, plan)
    timed = variant(engine, setup, lambda turn: questions(size.prompts, turn), tokens, total)
    for turn in range(1, size.rounds + 1):
        timed.run(turn)
    return FactorPoint(name, factor, *total.per_token(), plan_label(plan, terms))
