"""Bind a plan to a formula: which terms draft, and how many positions one evaluation covers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, reduce
from typing import Literal, TypeAlias

from marith.errors import RequestError, shown
from marith.formula.meaning.aligning import aligned
from marith.formula.meaning.binding import bind
from marith.formula.meaning.checking import check
from marith.formula.meaning.leaves import drafts, leaves
from marith.formula.meaning.partial import part, without_drafts
from marith.formula.meaning.removal import without_classifiers
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import supersede
from marith.formula.tree.terms import Classifier, Likelihood, NGram, Observation, Prompted, Term
from marith.request.plan import MOST, Plan, formula_in_plan

LOOKUP = NGram(order=5, online=True)  # prompt lookup, a draft that needs no model
Groups: TypeAlias = "tuple[frozenset[Term], ...]"  # terms of equal factor, smallest factor first


@dataclass(frozen=True, eq=False)
class ExecutionPlan:
    """A formula with the terms and drafts that are evaluated for it. Compared by identity.

    `terms` are the terms of the formula. `drafts` stand in for the formula until the formula itself
    has been evaluated. `factors` maps a term to the number of positions that one evaluation of the
    term covers. A term that is not in `factors` has the factor 1. With `chooses_lengths`, the
    lengths of drafts are chosen while the text is generated.
    """

    formula: Formula
    terms: tuple[Term, ...]
    drafts: tuple[Term, ...] = ()
    factors: Mapping[Term, int] = field(default_factory=dict)
    chooses_lengths: bool = False

    @classmethod
    def of(
        cls,
        formula: Formula,
        names: Mapping[str, Formula],
        speculation: Plan | Literal["auto"] | None = None,
        also: Sequence[Term] = (),
    ) -> ExecutionPlan:
        """Return the execution plan of a checked formula. `names` has the meanings of its names.

        The terms `also` are evaluated too. Raises RequestError or FormulaError for a plan that does
        not fit the formula.
        """
        bound = bind(formula, names)
        terms = tuple(dict.fromkeys([*leaves(bound), *also]))
        if speculation is None:
            return cls(without_drafts(bound), terms)
        if speculation == "auto":
            bound = supersede(LOOKUP, bound)
            # With a factor above 1, a term verifies after tokens have been drafted. The value 2
            # says no more than that: the lengths of drafts are chosen later.
            factors = dict.fromkeys(terms, 2)
            return cls(bound, terms, tuple(drafts(bound)), factors, chooses_lengths=True)
        return _planned(bound, terms, names, speculation)

    def aligned(
        self, lacking: Mapping[Term, tuple[int, ...]], ends: tuple[int, ...]
    ) -> ExecutionPlan:
        """Return the plan for terms whose vocabularies nearly agree; see `aligning.aligned`."""
        return replace(self, formula=aligned(self.formula, lacking, ends))

    @cached_property
    def whole(self) -> Formula:
        """The formula without drafts."""
        return without_drafts(self.formula)

    @cached_property
    def all_terms(self) -> tuple[Term, ...]:
        """The terms and the drafts."""
        return (*self.terms, *self.drafts)

    @cached_property
    def classifiers(self) -> tuple[Classifier, ...]:
        """The classifiers, which are evaluated after their guides."""
        return tuple(term for term in self.terms if isinstance(term, Classifier))

    @cached_property
    def proposers(self) -> tuple[NGram, ...]:
        """The drafts that propose tokens without drawing them."""
        ngrams = (draft for draft in self.drafts if isinstance(draft, NGram))
        return tuple(ngram for ngram in ngrams if self.part((ngram,)) == ngram)

    @cached_property
    def lanes(self) -> int:
        """The number of lanes of language models that the plan needs."""
        return _lanes(self.all_terms)

    @cached_property
    def rows(self) -> int:
        """The number of rows that the terms add to a pass for each position."""
        return max(1, _lanes(self.terms) + len(self.classifiers))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The different factors of the terms, smallest first."""
        return tuple(sorted(set(self._factors.values())))

    @cached_property
    def groups(self) -> Groups:
        """The terms grouped by factor, in the order of `sizes`."""
        factors = self._factors
        return tuple(frozenset(t for t, s in factors.items() if s == size) for size in self.sizes)

    @cached_property
    def longest_draft(self) -> int:
        """The largest number of tokens that a text holds before all terms have verified them."""
        return (MOST if self.chooses_lengths else max(self.sizes)) - 1

    @property
    def is_plain(self) -> bool:
        """True if every term is evaluated at every position, and nothing drafts."""
        return not self.drafts and self.sizes == (1,)

    @cached_property
    def at_once(self) -> Groups:
        """All terms as one stage, which verifies proposed tokens."""
        return (frozenset(self.terms),)

    def part(self, evaluated: Collection[Term]) -> Formula | None:
        """Return the distribution that these terms define; see `partial.part`."""
        return part(self.formula, frozenset(evaluated))

    def needed(self, formula: Formula) -> tuple[Term, ...]:
        """Return the terms to evaluate at a position that `formula` verifies.

        For a partial formula, these are its own terms. For the whole formula, they are all terms.
        """
        return self.terms if formula == self.whole else self.leaves(formula)

    def leaves(self, formula: Formula) -> tuple[Term, ...]:
        """Return the terms that a formula is composed of."""
        return _leaves(formula)

    def guide_of(self, classifier: Classifier) -> Formula:
        """Return the formula whose likeliest tokens a classifier judges."""
        guide = classifier.guide or without_classifiers(self.whole)
        assert guide is not None, "check() raises for a classifier without a guide"
        return guide

    @cached_property
    def _factors(self) -> dict[Term, int]:
        """The factor of each term. Some factors follow from the factors of other terms.

        A classifier is evaluated no earlier than its guide, and a draft no later than the last
        term. A proposer's distribution is evaluated only together with the first terms.
        """
        factors = {term: self.factors.get(term, 1) for term in self.terms}
        for classifier in self.classifiers:
            guides = [factors.get(term, 1) for term in leaves(self.guide_of(classifier))]
            factors[classifier] = max(factors[classifier], *guides)
        last = max(factors.values())
        models = [draft for draft in self.drafts if draft not in self.proposers]
        factors |= {draft: min(self.factors.get(draft, 1), last) for draft in models}
        return factors | dict.fromkeys(self.proposers, min(factors.values()))


# Each step asks for the terms of its formulas.
@lru_cache(maxsize=1024)
def _leaves(formula: Formula) -> tuple[Term, ...]:
    return tuple(leaves(formula))


def _lanes(terms: Iterable[Term]) -> int:
    """Return the number of lanes of some terms. An early exit uses the lane of its model."""
    prompted = {replace(t, exit_layer=None) for t in terms if isinstance(t, Prompted)}
    return len(prompted) + sum(isinstance(term, Likelihood) for term in terms)


def _planned(
    bound: Formula, terms: tuple[Term, ...], names: Mapping[str, Formula], plan: Plan
) -> ExecutionPlan:
    drafting = [_formula_of(text, names) for text in plan.drafted_by]
    bound = reduce(lambda rest, draft: supersede(draft, rest), reversed(drafting), bound)
    check(bound, names)
    draft_terms = tuple(drafts(bound))
    lag = 1 if plan.length is None else plan.length + 1
    factors = dict.fromkeys(terms, lag)
    # Each draft but the first has half of the terms' factor, so it verifies twice before the terms
    # verify once.
    for i, draft in enumerate(drafting):
        factors |= dict.fromkeys(leaves(draft), max(1, lag // 2) if i else 1)
    named: dict[Term, int] = {}
    for text, s in plan.every:
        for term in leaves(_formula_of(text, names)):
            if term not in (*terms, *draft_terms):
                raise RequestError(f"the plan names {text!r}, which is not a term of the formula")
            if named.setdefault(term, s) != s:
                raise RequestError(f"the plan gives {term} two factors: {named[term]} and {s}")
    factors = with_observed(factors | named, terms)
    has_ngram = any(isinstance(draft, NGram) for draft in draft_terms)
    if not has_ngram and min(factors.get(term, 1) for term in (*terms, *draft_terms)) > 1:
        raise RequestError(_without_first_term(plan))
    return ExecutionPlan(bound, terms, draft_terms, factors)


def _without_first_term(plan: Plan) -> str:
    """Return the message for a plan whose factors are all above 1."""
    factors = dict(plan.every)
    problem = f"one term must be evaluated at every token, but the factors are {shown(factors)}"
    first = min(factors, key=lambda term: factors[term])
    return f"{problem}; give one the factor 1, as in Plan.factors({shown({**factors, first: 1})})"


def with_observed(factors: Mapping[Term, int], terms: Iterable[Term]) -> dict[Term, int]:
    """Return the factors of a plan, with factors for observations, which no plan can name.

    A likelihood has the factor of its model. Other observations have the least factor of all terms,
    because the first stage may need them.
    """
    named = {term: factors.get(term, 1) for term in terms if not isinstance(term, Observation)}
    least = min(named.values(), default=1)
    completed = dict(factors)
    for term in terms:
        if isinstance(term, Likelihood):
            completed[term] = named.get(term.of, least)
        elif isinstance(term, Observation):
            completed[term] = least
    return completed


def _formula_of(text: str, names: Mapping[str, Formula]) -> Formula:
    """Return the formula that a plan gives as `text`, with its names bound.

    `text` is a name of the request, or formula text.
    """
    return bind(formula_in_plan(text, names), names)
