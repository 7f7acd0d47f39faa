"""Measure the paper's six curves: an attribute of texts as a function of its factor.

The curves are from the paper's section "Fine-grained Control".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marith import Classifier, Explanation, Prompted, RequestError, parse
from marith.console import OURS, picture, print_table, say, terminal
from marith.evals import tasks
from marith.evals.evaluations import EvaluationConfig, classifier
from marith.evals.formulas import NamedFormula
from marith.evals.results import Measured, Results, digits
from marith.evals.statistics import Estimate, spearman
from marith.evals.system_prompts import SYSTEM_PROMPTS

PROMPTS = ("helpful", "happy", "simple", "sports", "formal")
_KINDS = {**{name: Prompted() for name in PROMPTS}, "C": Classifier("C")}
_TOPICS = "cardiffnlp/tweet-topic-21-multi"
_POCKET = {
    "happy": "manner:happy",
    "simple": "manner:simple",
    "sports": "manner:sports",
    "formal": "pocket-formality:formal",
    "educational": "pocket-education:educational",
}
# These are the paper's judges ("Prompting Details Attributes"), for models other than pocket.
_OPEN = {
    "happy": "cardiffnlp/twitter-roberta-base-sentiment-latest:positive",
    "simple": "length",
    "sports": f"{_TOPICS}:sports",
    "formal": "s-nlp/roberta-base-formality-ranker:formal",
    "educational": f"{_TOPICS}:learning_&_educational",
}


@dataclass(frozen=True, slots=True)
class Curve:
    """An attribute of texts as a function of one factor of the formula F₁ or F₂.

    `formula` has `{x}` in the place of this factor, which takes each of `values`; the other factors
    are 1. If `prompted`, the attribute is also measured for its system prompt alone.
    """

    name: str
    formula: str
    attribute: str
    values: tuple[float, ...]
    prompted: bool = True

    def at(self, value: float) -> str:
        """Return the formula with `value` as the factor, as marith prints it."""
        return str(parse(self.formula.replace("{x}", str(value))))

    def share(self, value: float) -> float:
        """Return the factor divided by the total weight of the formula: the x-axis of the plot.

        A classifier adds no weight, because a uniform distribution is subtracted from it with the
        same factor.
        """
        return value / float(Explanation.of(self.at(value), _KINDS).weight)


_LINEAR = (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0)
_SPORTS = (-1.5, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
_EDUCATIONAL = (-3.0, -1.5, 0.0, 1.0, 3.0, 6.0, 9.0, 12.0)
_THIRD = "happy + simple + {x}*union(helpful, sports) + (1 - {x})*helpful"
# With the first and last values, the curves begin and end where the paper's x-axes do. These end at
# a share of 2/3, or 2 for sports and 4 for C.
CURVES = (
    Curve("F₁, λ₁", "{x}*happy + simple + union(helpful, sports)", "happy", _LINEAR),
    Curve("F₁, λ₂", "happy + {x}*simple + union(helpful, sports)", "simple", _LINEAR),
    Curve("F₁, λ₃", _THIRD, "sports", _SPORTS),
    Curve("F₂, λ₄", "helpful + {x}*union(helpful, formal) + C + simple", "formal", _LINEAR),
    Curve(
        "F₂, λ₅", "helpful + union(helpful, formal) + {x}*C + simple", "educational",
        _EDUCATIONAL, prompted=False,
    ),
    Curve("F₂, λ₆", "helpful + union(helpful, formal) + C + {x}*simple", "simple", _LINEAR),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributesConfig(EvaluationConfig):
    """The settings for measuring the paper's curves.

    `only` has the numbers of the chosen curves, from 1; without it all six are measured. `judges`
    maps an attribute to the measure that judges it (see `scorers.named`). `classifier` is the
    classifier C, as MODEL:LABEL. Pocket has defaults of its own; other models have the paper's.
    """

    only: tuple[int, ...] = ()
    judges: Mapping[str, str] = field(default_factory=dict)
    classifier: str | None = None

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The chosen curves, in the paper's order. Raises RequestError for an invalid number."""
        for number in self.only:
            if number not in range(1, len(CURVES) + 1):
                problem = f"only={self.only!r} has the number {number!r}"
                raise RequestError(f"{problem}: write numbers from 1 to {len(CURVES)}")
        return tuple(c for i, c in enumerate(CURVES, 1) if i in self.only or not self.only)


@dataclass(frozen=True)
class MeasuredCurve:
    """A curve with its estimates.

    Each of `points` has the attribute and the perplexity for one value of the factor. `prompted`
    has both for the system prompt alone.
    """

    curve: Curve
    points: tuple[tuple[Estimate, Estimate], ...]
    prompted: tuple[Estimate, Estimate] | None

    def cells(self) -> list[str]:
        """Return the row of this curve in the table."""
        heights = [attribute.mean for attribute, _ in self.points]
        costs = [perplexity.mean for _, perplexity in self.points]
        return [
            self.curve.name,
            self.curve.attribute,
            digits(heights[0]),
            digits(heights[-1]),
            f"{spearman(self.curve.values, heights):.2f}",
            digits(self.prompted[0].mean) if self.prompted else "",
            f"{digits(min(costs))} to {digits(max(costs))}",
        ]


@dataclass(frozen=True)
class MeasuredCurves:
    """The measured curves, and the results that they come from."""

    curves: tuple[MeasuredCurve, ...]
    results: Results

    def show(self, out: Path | None = None, plot: Path | None = None) -> None:
        """Print how closely each attribute follows its factor.

        The table and the texts are written to the folder `out`, and the plot to the file `plot`.
        """
        head = "curve", "controls", "from", "to", "Spearman", "prompt alone", "perplexity"
        console = terminal()
        say(console, [self.results.title])
        print_table(console, head, [curve.cells() for curve in self.curves], left=(0, 1))
        say(console, self.results.notes)
        if out is not None:
            self.results.write(out)
        if plot is not None:
            self.draw(plot)

    def draw(self, path: Path) -> None:
        """Plot the attribute and the perplexity of each curve against the factor's share.

        A dashed line shows the value for the system prompt alone.
        """
        image = picture(1.0 + 2.9 * len(self.curves), 5.2)
        panels = image.subplots(2, len(self.curves), squeeze=False)
        for column, measured in enumerate(self.curves):
            shares = [measured.curve.share(value) for value in measured.curve.values]
            for at, name in enumerate((measured.curve.attribute, "perplexity")):
                axes, estimates = panels[at][column], [point[at] for point in measured.points]
                axes.plot(shares, [one.mean for one in estimates], "o-", color=OURS, markersize=4)
                band = [one.low for one in estimates], [one.high for one in estimates]
                axes.fill_between(shares, *band, color=OURS, alpha=0.15)
                if measured.prompted is not None:
                    alone = measured.prompted[at].mean
                    axes.axhline(alone, color="black", linestyle="--", linewidth=0.9)
                axes.set(title=measured.curve.name, xlabel="share of the weight", ylabel=name)
                axes.grid(alpha=0.3)
        image.savefig(path, dpi=110)


def evaluate_attributes(config: AttributesConfig) -> MeasuredCurves:
    """Measure all points of the chosen curves, and the system prompts alone.

    Raises FormulaError, ModelError or RequestError. Invalid settings are found before a text is
    generated.
    """
    if config.formulas:
        problem = f"leave out formulas={config.formulas!r}"
        raise RequestError(f"{problem}: the six curves have fixed formulas")
    if unknown := [name for name in config.judges if name not in _OPEN]:
        problem = f"judges={config.judges!r} has the unknown attribute {unknown[0]!r}"
        raise RequestError(f"{problem}: write one of {', '.join(_OPEN)}")
    judges = {**(_POCKET if config.is_pocket else _OPEN), **config.judges}
    terms: dict[str, Any] = {name: SYSTEM_PROMPTS[name] for name in PROMPTS}
    terms |= {"C": classifier(config.classifier or judges["educational"]), **config.terms}
    measures = {curve.attribute: judges[curve.attribute] for curve in config.curves}
    # `helpful` is always measured: it is the first line, with which all others are compared.
    alone = {"helpful", *(curve.attribute for curve in config.curves if curve.prompted)}
    # Curves of the same formula share a point, which is measured once.
    points = dict.fromkeys(curve.at(value) for curve in config.curves for value in curve.values)
    lines = [NamedFormula(text, text) for text in (*(n for n in PROMPTS if n in alone), *points)]
    results = config.run_lines(
        "attributes",
        lambda: tasks.texts(measures=measures, **config.prompts()),
        lines,
        terms,
        dict.fromkeys(measures, "higher"),
    )
    rows = {row.line.formula: row for row in results.rows}
    measured = []
    for curve in config.curves:
        estimates = tuple(
            _estimates(rows[curve.at(value)], curve.attribute) for value in curve.values
        )
        prompted = _estimates(rows[curve.attribute], curve.attribute) if curve.prompted else None
        measured.append(MeasuredCurve(curve, estimates, prompted))
    return MeasuredCurves(tuple(measured), results)


def _estimates(row: Measured, attribute: str) -> tuple[Estimate, Estimate]:
    return row.estimate(attribute), row.estimate("perplexity")
