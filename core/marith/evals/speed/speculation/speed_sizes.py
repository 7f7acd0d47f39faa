"""What is measured, on how many texts and how often; wrong values are refused first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from marith.evals.reporting.evaluation_report import check_sections
from marith.request.checks import by, hold, optional, whole_from
from marith.scoring.checkpoints.locate import locate

SECTIONS = ("table", "lambda", "auto")
POCKET = "pocket"
_COUNT = optional(whole_from(1, 10_000))


@dataclass(frozen=True, slots=True)
class Size:
    """Texts for each setup in a round, and rounds beyond the one that warms up."""

    prompts: int
    rounds: int


SIZES = {
    "table": Size(12, 2),
    "lambda": Size(8, 1),
    "auto": Size(6, 5),
}


@dataclass(frozen=True, slots=True)
class SavingsSettings:
    """A run: texts of up to `tokens` tokens; without `prompts` or `rounds`, each section its own.

    Raises ModelError or RequestError.
    """

    model: str = POCKET
    sections: Sequence[str] = SECTIONS
    prompts: int | None = field(default=None, metadata=by(_COUNT))
    tokens: int = field(default=64, metadata=by(whole_from(2, 512)))  # the first is timed by itself
    rounds: int | None = field(default=None, metadata=by(_COUNT))

    def __post_init__(self) -> None:
        hold(self)
        check_sections(self.sections, SECTIONS)
        locate(self.model)

    def size(self, section: str) -> Size:
        """How much of a section is measured."""
        default = SIZES[section]
        return Size(self.prompts or default.prompts, self.rounds or default.rounds)
