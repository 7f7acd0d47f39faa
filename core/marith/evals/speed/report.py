"""What was measured, as plain data: what a token cost in each way, beside the paper's figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from marith.evals.bench.report import Machine, results
from marith.evals.bench.timing import Sample
from marith.evals.speed.asking import Tally
from marith.evals.speed.curve import Point


@dataclass(frozen=True, slots=True)
class Line:
    """One way to make the texts of one formula.

    `calls` and `passes` are per drawn token, the one that ends a text included. `milliseconds` is
    the median of `samples`, one a round; in the table they are over whole texts with their
    prompts, elsewhere over what follows a text's first token. `ratio` is over the formula's first
    line. Of the drafted tokens that were checked a share of
    `measured` stood, and of `predicted` should have: 1 − the total variation. None where there is
    nothing to say.
    """

    section: str
    formula: str
    way: str
    milliseconds: float
    ratio: float
    samples: tuple[float, ...]
    calls: float | None = None
    passes: float | None = None
    predicted: float | None = None
    measured: float | None = None
    plan: str = ""
    paper_calls: float | None = None
    paper_milliseconds: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run. `parameters` counts the model's, `large` those of the inflated one."""

    model: str
    parameters: int
    tokens: int
    machine: Machine
    lines: tuple[Line, ...] = ()
    curve: tuple[Point, ...] = ()
    large: int | None = None

    def section(self, name: str) -> list[Line]:
        """The lines of one section, in the order in which they were measured."""
        return [line for line in self.lines if line.section == name]

    def to_json(self) -> str:
        """Everything there is."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)


def lines(
    section: str,
    formula: str,
    samples: Mapping[str, Sequence[Sample]],
    tallies: Mapping[str, Tally],
    plans: Mapping[str, str] | None = None,
) -> list[Line]:
    """A line for each contestant; the first is what the others are measured by."""
    return [
        Line(
            section,
            formula,
            one.name,
            one.milliseconds,
            one.ratio,
            one.samples,
            *_per_token(tallies.get(one.name)),
            plan=(plans or {}).get(one.name, ""),
        )
        for one in results(section, samples)
    ]


def _per_token(
    tally: Tally | None,
) -> tuple[float | None, float | None, float | None, float | None]:
    """Calls, passes, and the share of drafts that should stand and that did."""
    if tally is None:
        return None, None, None, None
    calls, passes = tally.calls / tally.drawn, tally.passes / tally.drawn
    if not tally.evaluated:
        return calls, passes, None, None
    checked = tally.evaluated
    return calls, passes, tally.predicted / checked, tally.stood / checked
