"""What stands at the positions of a text, and what terms have said of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from marith.formula.nodes import Formula
from marith.formula.terms import Term


@dataclass(slots=True)
class Block:
    """Positions of which the same part of a formula can be said, by [positions, vocab] a term."""

    part: Formula
    spoken: Mapping[Term, Tensor]


MODEL = "model"  # the source of what was drawn from a part of the formula


@dataclass(slots=True)
class Pending:
    """A token that is not final.

    `guess` is what it was drawn from, None for one that was proposed outright; `source` says who
    drafted it, None for one that every term has spoken of.
    """

    token: int
    guess: Tensor | None
    source: Hashable | None


@dataclass(slots=True)
class Checked:
    """How the tokens fared that one stage checked: so many, stood, and should have (1 − TV)."""

    evaluated: int = 0
    stood: int = 0
    overlap: float = 0.0


@dataclass(slots=True)
class Said:
    """What a term has said: log-probabilities from position `first` on, checked up to `applied`."""

    first: int = 0
    rows: list[Tensor] = field(default_factory=list)
    applied: int = 0

    @property
    def end(self) -> int:
        """One past the last position that the term has spoken of."""
        return self.first + len(self.rows)

    def cut(self, end: int) -> None:
        """Forget what was said of positions from `end` on."""
        del self.rows[max(0, end - self.first) :]
        self.first = min(self.first, end)
        self.applied = min(self.applied, end)

    def drop(self, first: int) -> None:
        """Forget what was said of positions before `first`."""
        del self.rows[: max(0, first - self.first)]
        self.first = max(self.first, first)
        self.applied = max(self.applied, first)
