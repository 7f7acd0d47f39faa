"""A formula, a plan and the names of a request bound together: who may lag how far behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal

from marith.engine.plan import Plan
from marith.errors import FormulaError, RequestError
from marith.formula.binding import bind, parse
from marith.formula.checking import check, leaves, without_classifiers
from marith.formula.nodes import Formula, supersede
from marith.formula.partial import drafts, part, without_drafts
from marith.formula.terms import Classifier, Likelihood, NGram, Observation, Prompted, Term

LOOKUP = NGram(order=5, online=True)  # the draft that costs nothing and needs nothing


@dataclass(frozen=True, slots=True)
class Stages:
    """Every term that is asked, and how many positions it is asked for at a time.

    `terms` make up the formula, `drafts` only speak until they are superseded; classifiers among
    the terms judge what the guides of `guide_of` find likeliest. With `adapts`, the lengths are
    chosen while the text is made. `aside` speaks in the formula's place where a text asks for it.
    """

    formula: Formula
    terms: tuple[Term, ...]
    drafts: tuple[Term, ...] = ()
    every: Mapping[Term, int] = field(default_factory=dict)
    adapts: bool = False
    aside: Formula | None = None
    whole: Formula = field(init=False)  # once every term has spoken
    lanes: int = field(init=False)  # of language models, that are held
    _parts: dict[frozenset[Term], Formula | None] = field(default_factory=dict, compare=False)
    _leaves: dict[Formula, list[Term]] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", without_drafts(self.formula))
        object.__setattr__(self, "lanes", _lanes(self.voices))

    @classmethod
    def of(
        cls,
        formula: Formula,
        known: Mapping[str, Formula],
        speculation: Plan | Literal["auto"] | None = None,
        aside: Formula | None = None,
    ) -> Stages:
        """Bind a checked formula, its names as `known`; no plan has a place for one `aside`.

        Raises RequestError or FormulaError for a plan that does not fit the formula.
        """
        bound = bind(formula, known)
        beside = [] if aside is None else leaves(aside)
        terms = tuple(dict.fromkeys([*leaves(bound), *beside]))
        if speculation is None:
            return cls(without_drafts(bound), terms, aside=aside)
        if speculation == "auto":
            bound = supersede(LOOKUP, bound)
            return cls(bound, terms, tuple(drafts(bound)), adapts=True, aside=aside)
        return _planned(bound, terms, known, speculation)

    @property
    def judges(self) -> tuple[Classifier, ...]:
        """The classifiers, asked once their guides have spoken."""
        return tuple(term for term in self.terms if isinstance(term, Classifier))

    @property
    def voices(self) -> tuple[Term, ...]:
        """Every term that may be asked, drafts included."""
        return (*self.terms, *self.drafts)

    def part(self, spoken: Collection[Term]) -> Formula | None:
        """What can be said when these terms have spoken; see `formula.partial`."""
        key = frozenset(spoken)
        if key not in self._parts:
            self._parts[key] = part(self.formula, key)
        return self._parts[key]

    def leaves(self, part: Formula) -> list[Term]:
        """The terms of a part."""
        if part not in self._leaves:
            self._leaves[part] = leaves(part)
        return self._leaves[part]

    def guide_of(self, judge: Classifier) -> Formula:
        """The formula whose likeliest tokens a classifier judges."""
        guide = judge.guide or without_classifiers(self.whole)
        assert guide is not None, "check() refuses a classifier without a guide"
        return guide


def _lanes(voices: Iterable[Term]) -> int:
    """An early exit is heard in its model's own lane."""
    prompted = {replace(t, exit_layer=None) for t in voices if isinstance(t, Prompted)}
    return len(prompted) + sum(isinstance(term, Likelihood) for term in voices)


def _planned(
    bound: Formula, terms: tuple[Term, ...], known: Mapping[str, Formula], plan: Plan
) -> Stages:
    speakers = [_named(text, known) for text in plan.drafted_by]
    bound = reduce(lambda rest, draft: supersede(draft, rest), reversed(speakers), bound)
    check(bound, known)
    aids = tuple(drafts(bound))
    lag = 1 if plan.length is None else plan.length + 1
    every = dict.fromkeys(terms, lag)
    for i, speaker in enumerate(speakers):  # a later one checks twice in a draft's length
        every |= dict.fromkeys(leaves(speaker), max(1, lag // 2) if i else 1)
    named: dict[Term, int] = {}
    for text, s in plan.every:
        for term in leaves(_named(text, known)):
            if term not in (*terms, *aids):
                raise RequestError(f"the plan names {text!r}, which is no term of the formula")
            if named.setdefault(term, s) != s:
                raise RequestError(f"the plan gives {term} two factors: {named[term]} and {s}")
    every = watched(every | named, terms)
    guessing = any(isinstance(aid, NGram) for aid in aids)
    if not guessing and min(every.get(term, 1) for term in (*terms, *aids)) > 1:
        raise RequestError("no term speaks at every token: one needs the speculative factor 1")
    return Stages(bound, terms, aids, every)


def watched(every: Mapping[Term, int], terms: Iterable[Term]) -> dict[Term, int]:
    """The factors of a plan, and those of what no plan can name.

    A likelihood lags as far as its model does. Whatever else factors observe is asked as often as
    any term, for who speaks first may wait for it.
    """
    own = {term: every.get(term, 1) for term in terms if not isinstance(term, Observation)}
    often = min(own.values(), default=1)
    told = dict(every)
    for term in terms:
        if isinstance(term, Likelihood):
            told[term] = own.get(term.of, often)
        elif isinstance(term, Observation):
            told[term] = often
    return told


def _named(text: str, known: Mapping[str, Formula]) -> Formula:
    """A name of the request, or formula text."""
    try:
        return bind(parse(text), known)
    except FormulaError as error:
        raise RequestError(f"the plan names {text!r}: {error.problem}") from None
