"""Figures that someone published, which stand beside ours: other models, other judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from marith.errors import FormulaError
from marith.evals.experiment.texts import NamedFormula
from marith.formula.meaning.binding import parse


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row as printed: for each model its figures, in the order of the table's `measures`."""

    line: NamedFormula
    figures: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table; `title` says on what and by whom it was measured.

    Its figures are printed with so many `digits` behind the point.
    """

    title: str
    measures: tuple[str, ...]
    digits: tuple[int, ...]
    models: tuple[str, ...]
    rows: tuple[PublishedRow, ...]

    @property
    def lines(self) -> tuple[NamedFormula, ...]:
        """Its formulas by name."""
        return tuple(row.line for row in self.rows)

    def printed(self, figures: tuple[float, ...]) -> str:
        """Figures of one model as they are printed."""
        pairs = zip(figures, self.digits, strict=True)
        return " / ".join(f"{number:.{behind}f}" for number, behind in pairs)

    def beside(self, formula: str) -> Mapping[str, tuple[float, ...]]:
        """What it says of a formula, however that is spaced; nothing of one that it lacks."""
        wanted = parse(formula)
        return next((row.figures for row in self.rows if _means(row, wanted)), {})


def _means(row: PublishedRow, wanted: object) -> bool:
    try:
        return parse(row.line.formula) == wanted
    except FormulaError:
        return False
