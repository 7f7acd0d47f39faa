"""Define the setups that are measured: the paper's formulas, and how they are drafted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from marith import Engine, NGram, Plan, parse
from marith.evals import pocket_texts, system_prompts

SYSTEM_PROMPTS = {
    "formal": system_prompts.SYSTEM_PROMPTS["formal"],
    "happy": system_prompts.SYSTEM_PROMPTS["happy"],
    "sports": "You are a person who is always talking about sports.",
    "easy": "You are an assistant using very simple and short language.",
    "angry": system_prompts.SYSTEM_PROMPTS["angry"],
}
PLAIN = "no speculation"
# Each round has this many questions.
BLOCK = 50
# Calibration has the last block, so that a plan is not measured on the questions that chose it.
BLOCK_OF_CALIBRATION = -1
# The paper calibrates on this many prompts.
CALIBRATION = 10
AHEAD = 7


@dataclass(frozen=True, slots=True)
class Setup:
    """A formula, its terms, and how its tokens are drafted."""

    name: str
    formula: str
    terms: Mapping[str, Any]
    speculation: Plan | None = None


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row of the paper's table: the formula `M` + `weights`.

    `calls` and `milliseconds` per token are the paper's numbers without and with drafts.
    """

    weights: Mapping[str, float]
    calls: tuple[float, float]
    milliseconds: tuple[float, float]

    def formula(self, draft: str = "") -> str:
        """Return the text of the formula. `draft` takes the place of M until M is computed."""
        first = f"supersede({draft}, M)" if draft else "M"
        return " + ".join([first, *(f"{weight}*{name}" for name, weight in self.weights.items())])


F1 = PaperRow({"formal": 0.2, "happy": 0.5, "sports": 0.05}, (4.0, 1.32), (97.0, 43.3))
F2 = PaperRow({"formal": 1.0, "angry": 0.1, "sports": 0.4}, (4.0, 1.44), (97.0, 46.1))
ROWS = (
    PaperRow({}, (1.0, 0.80), (24.9, 22.8)),
    PaperRow({"formal": 0.5}, (2.0, 1.03), (48.4, 30.4)),
    PaperRow({"happy": 0.5}, (2.0, 1.04), (49.2, 31.2)),
    PaperRow({"sports": 0.5}, (2.0, 1.08), (49.3, 32.0)),
    PaperRow({"easy": 0.5}, (2.0, 1.10), (49.2, 32.7)),
    PaperRow({"angry": 0.5}, (2.0, 1.12), (49.3, 33.0)),
    F1,
    F2,
)


def named_terms() -> Mapping[str, Any]:
    """Return the system prompts, and the n-grams A2 and A5 of the replies in pocket's corpus."""
    corpus = str(pocket_texts.REPLIES)
    return {**SYSTEM_PROMPTS, "A2": NGram(corpus, order=2), "A5": NGram(corpus, order=5)}


def questions(count: int, block: int) -> list[str]:
    """Return `count` questions from the start of `block`. Each round has its own block."""
    records = pocket_texts.records(pocket_texts.SPEED_QUESTIONS)
    return [str(records[(BLOCK * block + i) % len(records)]["text"]) for i in range(count)]


def calibrated(engine: Engine, formula: str, terms: Mapping[str, Any], prompts: int) -> Plan:
    """Return the plan with the fewest calls, measured on `prompts` questions."""
    return engine.calibrate(formula, questions(prompts, BLOCK_OF_CALIBRATION), terms, "calls")


def table_setups(row: PaperRow, engine: Engine, terms: Mapping[str, Any]) -> Iterator[Setup]:
    """Yield three setups: no speculation, the paper's drafts, and drafts of a longer n-gram."""
    plain = Setup(PLAIN, row.formula(), terms)
    yield plain
    drafted = row.formula("A2")
    plan = calibrated(engine, drafted, terms, CALIBRATION)
    yield replace(plain, name="as the paper", formula=drafted, speculation=plan)
    whole = Plan.drafts("A5", length=AHEAD)
    yield replace(plain, name="A5, all together", speculation=whole)


def plan_label(plan: Plan | None, terms: Mapping[str, Any]) -> str:
    """Return a short description of a plan, with the names of its terms; "" for None."""
    if plan is None:
        return ""
    names = {str(parse(name, terms)): name for name in ("M", *terms)}
    drafts = " → ".join(names.get(str(parse(draft)), draft) for draft in plan.drafted_by)
    parts = [f"{drafts}, {plan.length} ahead"] if drafts else []
    parts += [f"{names.get(str(parse(term)), term)}: {factor}" for term, factor in plan.every]
    return ", ".join(parts)
