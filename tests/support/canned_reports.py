"""Results of every evaluation as if they had been measured: what is printed and written of them."""

from __future__ import annotations

import math
from dataclasses import replace

from marith.evals.experiment.summary import Summary, SummaryRow
from marith.evals.experiment.texts import NamedFormula
from marith.evals.metrics.statistics import Figure
from marith.evals.paper.attributes.curves import CURVES
from marith.evals.paper.attributes.measured_curves import CurvePoint, MeasuredCurve, MeasuredCurves
from marith.evals.paper.paper_tables import table
from marith.evals.preference.preferences import PreferenceCounts, Preferences
from marith.evals.speed.savings_report import FactorPoint, Savings, SavingsLine
from marith.evals.tuning.outcome import Outcome
from marith.evals.tuning.search import Trial

NOTHING = Figure(math.nan, math.nan, math.nan, math.nan, 0, 2)
MEASURES = {"toxicity": "lower", "perplexity": "lower"}


def around(mean: float, missing: int = 0) -> Figure:
    """A figure whose interval reaches a tenth to both sides."""
    return Figure(mean, 0.9 * mean, 1.1 * mean, 0.95 * mean, 40, missing)


def summary() -> Summary:
    """A formula of the paper's, one with a bar in its name, and one that rules a token out."""
    endless = Figure(math.inf, 2.0, math.inf, 3.0, 40, 0)
    paper = table("toxicity")
    rows = (
        SummaryRow(
            NamedFormula("M", "M"),
            {"toxicity": around(0.28781), "perplexity": around(13.4618, 2)},
            paper.beside("M"),
        ),
        SummaryRow(
            NamedFormula("or | bar", "2*M - toxic"),
            {"toxicity": around(0.5), "perplexity": NOTHING},
        ),
        SummaryRow(
            NamedFormula("top", "M.top_k(1)"), {"toxicity": around(0.000371), "perplexity": endless}
        ),
    )
    settings = {"n": 40, "formulas": {"M": "M"}}
    notes = ("a note", "[b]another[/b]")
    return Summary("toxicity", "a title", MEASURES, rows, settings, notes, paper)


def curves() -> MeasuredCurves:
    """All six, the second of which falls at its end."""
    measured = []
    for curve in CURVES:
        points = tuple(
            CurvePoint(
                value,
                curve.share(value),
                curve.at(value),
                around(0.1 + 0.05 * (i if i < 7 or curve.name != "F₁, λ₂" else 2)),
                around(3.0 + i),
            )
            for i, value in enumerate(curve.values)
        )
        alone = (around(0.4), around(5.0)) if curve.prompted else None
        measured.append(MeasuredCurve(curve.name, curve.attribute, points, alone))
    return MeasuredCurves("curves of pocket", tuple(measured), {"n": 40}, ("a note",))


def preferences() -> Preferences:
    """A comparison of the paper's, and one of which no answer can be read."""
    comparisons = (
        PreferenceCounts("union 0.96", "PREADD", 40, 38, 23, 1, 2, 41),
        PreferenceCounts("or | bar", "PREADD", 0, 0, 0, 3, 0, 0),
    )
    return Preferences("a judgement", "toxicity", comparisons, {"n": 105})


def outcome(most: float = 6.0) -> Outcome:
    """Four trials: one beaten by another, one pruned, one without an answer to a prompt."""
    trials = (
        Trial(0, {"a": 0.5}, "M - 0.5*union(toxic, M)", around(0.3), around(4.0)),
        Trial(1, {"a": 0.25}, "M - 0.25*union(toxic, M)", around(0.4), around(5.0)),
        Trial(
            2, {"a": 2.0}, "M - 2*union(toxic, M)", refused="the weights add up to less, or none"
        ),
        Trial(3, {"a": 0.9}, "M - 0.9*union(toxic, M)", around(0.1234567), around(7.0, 1)),
    )
    bare = around(0.6), around(3.5)
    attribute = "pocket-toxicity:toxic"
    return Outcome("a search", attribute, "lower", most, bare, trials, {"trials": 4})


def savings() -> Savings:
    """Two formulas of the table, one of the others, and the curves of two prompts."""
    plain = SavingsLine("table", "M", "no speculation", 3.2, 1.0, (3.2, 3.1), 1.0, 1.0)
    drafted = replace(plain, way="as the paper", milliseconds=2.24, ratio=0.7, calls=0.8)
    lines = (
        replace(plain, paper_calls=1.0, paper_milliseconds=24.9),
        replace(drafted, predicted=0.5, measured=0.61, plan="A2, 7 ahead", paper_calls=0.8),
        replace(plain, formula="M + 0.5*formal", calls=2.0),
        replace(plain, section="auto", formula='prompted("[x]")'),
    )
    curve = tuple(
        FactorPoint(voice, factor, 1 + factor, 1.0, None, None, "")
        for voice in ("formal", "happy")
        for factor in (0.1, 0.5, 1.0)
    )
    return Savings("pocket", 4, 64, lines, curve)


REPORTS = {
    "summary": lambda: summary().report(),
    "curves": lambda: curves().report(),
    "preferences": lambda: preferences().report(),
    "outcome": lambda: outcome().report(),
    "savings": lambda: savings().report(),
}
