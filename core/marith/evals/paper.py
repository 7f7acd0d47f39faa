"""The paper's own figures, which stand beside ours: other models, other judges."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from marith.errors import FormulaError
from marith.evals.experiment.texts import Line
from marith.formula.meaning.binding import parse

FILE = "paper.toml"


@dataclass(frozen=True, slots=True)
class Printed:
    """A row as printed: for each model its figures, in the order of the table's `measures`."""

    line: Line
    figures: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper; `title` says on what and by whom it was measured.

    Its figures are printed with so many `digits` behind the point.
    """

    title: str
    measures: tuple[str, ...]
    digits: tuple[int, ...]
    models: tuple[str, ...]
    rows: tuple[Printed, ...]

    @property
    def lines(self) -> tuple[Line, ...]:
        """Its formulas by name."""
        return tuple(row.line for row in self.rows)

    def printed(self, figures: tuple[float, ...]) -> str:
        """Figures of one model as they are printed."""
        pairs = zip(figures, self.digits, strict=True)
        return " / ".join(f"{number:.{behind}f}" for number, behind in pairs)

    def beside(self, formula: str) -> Mapping[str, tuple[float, ...]]:
        """What it says of a formula, however that is spaced; nothing of one that it lacks."""
        asked = parse(formula)
        return next((row.figures for row in self.rows if _means(row, asked)), {})


@dataclass(frozen=True, slots=True)
class Judged:
    """How often the formula named `ours` was preferred to `theirs`, and neither, in per cent.

    For each model the three numbers: won, lost, drawn.
    """

    ours: str
    theirs: str
    figures: Mapping[str, tuple[float, ...]]


def table(name: str) -> Table:
    """The table "toxicity", "toxicity_gpt2", "positive" or "negative"."""
    data = _data()["tables"][name]
    models = tuple(data["models"])
    rows = tuple(
        Printed(Line(own, formula), dict(zip(models, map(tuple, figures), strict=True)))
        for own, formula, *figures in data["rows"]
    )
    return Table(data["title"], tuple(data["measures"]), tuple(data["digits"]), models, rows)


def judgements(task: str) -> tuple[Judged, ...]:
    """What GPT-4 preferred in the task "toxicity", "positive" or "negative"."""
    data = _data()["judged"]
    return tuple(
        Judged(ours, theirs, dict(zip(data["models"], map(tuple, figures), strict=True)))
        for ours, theirs, *figures in data[task]
    )


def _means(row: Printed, asked: object) -> bool:
    try:
        return parse(row.line.formula) == asked
    except FormulaError:
        return False


@cache
def _data() -> Mapping[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(FILE).read_text("utf-8"))
