"""Which terms speak first, and which judge what they said."""

from __future__ import annotations

from dataclasses import dataclass

from marith.formula.checking import leaves, without_classifiers
from marith.formula.nodes import Formula
from marith.formula.terms import Classifier, Prompted, Term


@dataclass(frozen=True, slots=True)
class Plan:
    """The order in which the terms of a bound formula are asked at every step.

    `speakers` need nothing but the text so far; `judges` are classifiers, asked about the
    likeliest tokens of their guides once the speakers have spoken.
    """

    formula: Formula
    speakers: tuple[Term, ...]
    judges: tuple[Classifier, ...]

    @classmethod
    def of(cls, formula: Formula) -> Plan:
        """The plan of a bound formula: everyone speaks at once, then the classifiers judge."""
        terms = leaves(formula)
        judges = tuple(term for term in terms if isinstance(term, Classifier))
        return cls(formula, tuple(term for term in terms if term not in judges), judges)

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every term that is asked."""
        return (*self.speakers, *self.judges)

    @property
    def lanes(self) -> int:
        """How many lanes of language models the plan holds."""
        return sum(isinstance(term, Prompted) for term in self.speakers)

    def guide_of(self, judge: Classifier) -> Formula:
        """The formula whose likeliest tokens a classifier judges."""
        guide = judge.guide or without_classifiers(self.formula)
        assert guide is not None, "check() refuses a classifier without a guide"
        return guide
