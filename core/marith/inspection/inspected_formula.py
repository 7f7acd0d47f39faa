"""A formula as an inspection describes it: its terms, its parts, and how many values it has."""

from __future__ import annotations

from dataclasses import dataclass

from marith.engine.prepare import Prepared
from marith.errors import RequestError
from marith.formula.meaning.binding import BARE
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Classifier, NGram, Observation, Prompted, Term, Uniform
from marith.inspection.summands import Summand, named, summands, without_own_part
from marith.request.checks import whole
from marith.request.inspected.inspected_position import InspectedPart, InspectedTerm, TermKind
from marith.request.request import Request

MOST_VALUES = 1_000_000  # positions × likeliest tokens × terms and parts
TOP = 10  # likeliest tokens of each position, where no number is given

_KINDS: dict[type[Term], TermKind] = {
    Prompted: "model",
    NGram: "n-gram",
    Uniform: "uniform",
    Classifier: "classifier",
}


@dataclass(frozen=True, slots=True)
class InspectedFormula:
    """What an inspection needs to know of a request's formula.

    `bare` is the meaning of `M`. `terms` are the formula's, without `observations`; `summands` add
    up to its score, and `left_out` are terms that have no part of their own.
    """

    text: str
    formula: Formula
    bare: Formula
    terms: tuple[Term, ...]
    observations: tuple[Term, ...]
    summands: tuple[Summand, ...]
    left_out: tuple[Term, ...]
    names: dict[Formula, str]
    all_names: dict[Formula, tuple[str, ...]]
    top: int

    @classmethod
    def of(
        cls, request: Request, prepared: Prepared, top: int, leave_one_out: bool
    ) -> InspectedFormula:
        """Of a request that is prepared with the bare model beside it."""
        meanings = request.meanings
        all_names: dict[Formula, tuple[str, ...]] = {}
        for name, meaning in meanings.items():
            all_names[meaning] = (*all_names.get(meaning, ()), name)
        plan, bare = prepared.plan, meanings[BARE]
        terms = plan.leaves(plan.formula)
        left_out = [t for t in without_own_part(plan.formula) if t != bare] if leave_one_out else []
        return cls(
            str(request.formula),
            plan.formula,
            bare,
            tuple(term for term in terms if not isinstance(term, Observation)),
            tuple(term for term in terms if isinstance(term, Observation)),
            tuple(summands(plan.formula)),
            tuple(left_out),
            {meaning: names[0] for meaning, names in all_names.items()},
            all_names,
            top,
        )

    def described_terms(self) -> tuple[InspectedTerm, ...]:
        """The terms as plain data."""
        return tuple(
            InspectedTerm(str(term), self.all_names.get(term, ()), _KINDS.get(type(term), "other"))
            for term in self.terms
        )

    def described_parts(self) -> tuple[InspectedPart, ...]:
        """The parts as plain data: summands, then the terms that are left out."""
        numbers = {term: number for number, term in enumerate(self.terms)}
        exact = (
            InspectedPart(str(part.shown(self.names)), "exact", numbers.get(part.node))  # type: ignore[call-overload]  # a formula that may be a term
            for part in self.summands
        )
        left_out = (
            InspectedPart(str(named(term, self.names)), "leave_one_out", numbers[term])
            for term in self.left_out
        )
        return (*exact, *left_out)

    def require_bounded(self, positions: int) -> None:
        """Raises RequestError for more values than an inspection may have."""
        others = len(self.terms) + len(self.summands) + len(self.left_out)
        values = positions * self.top * others
        if values > MOST_VALUES:
            raise RequestError(
                f"an inspection has at most {MOST_VALUES:,} values, and {positions:,} positions × "
                f"{self.top} likeliest tokens × {others} terms and parts are {values:,}: write a "
                "smaller top, or inspect a shorter text"
            )


def top_of(value: object) -> int:
    """How many likeliest tokens `inspect` asks for: True is 10. Raises RequestError."""
    return TOP if value is True else whole("top", value, 1)
