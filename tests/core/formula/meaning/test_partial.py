"""The part of a formula that can be evaluated before all of its terms are known."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import observed, speakers, spoken, walk, weighty
from torch import Tensor

from marith.decoding.evaluate import evaluate
from marith.formula.meaning.binding import bind, resolve
from marith.formula.meaning.checking import check
from marith.formula.meaning.leaves import drafts, leaves
from marith.formula.meaning.partial import part, without_drafts
from marith.formula.meaning.weights import weigh
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import intersection, supersede, union, unscaled
from marith.formula.tree.terms import Classifier, Prompted, Term, Uniform

TERMS = speakers(4)
a, b, c, d = TERMS
judge = Classifier("some model", guide=a)
subsets = st.sets(st.sampled_from([*TERMS, *observed(TERMS, 1, 0)]))


@given(weighty(TERMS), spoken(TERMS))
def test_without_its_drafts_a_formula_means_the_same(
    formula: Formula, said: Mapping[Term, Tensor]
) -> None:
    bare = without_drafts(formula)
    assert part(formula, leaves(formula)) == bare
    assert leaves(bare) == leaves(formula)
    torch.testing.assert_close(evaluate(bare, said), evaluate(formula, said))


@given(weighty(TERMS))
def test_a_term_that_occurs_outside_its_draft_is_not_a_draft(formula: Formula) -> None:
    found = drafts(formula)
    named = {node for node in walk(formula) if isinstance(node, Prompted)}
    assert {term for term in (*found, *leaves(formula)) if isinstance(term, Prompted)} == named
    assert not {*found} & {*leaves(formula)}


@given(weighty(TERMS), subsets, spoken(TERMS))
def test_a_part_is_a_distribution_of_the_terms_that_are_known(
    formula: Formula, heard: set[Term], said: Mapping[Term, Tensor]
) -> None:
    found = part(formula, heard)
    if found is None:
        assert not {*leaves(formula)} <= heard
        return
    assert {*leaves(found)} <= heard
    assert weigh(found).positive
    logprobs = evaluate(found, {term: said[term] for term in heard})
    torch.testing.assert_close(logprobs.exp().sum(dim=-1), torch.ones(len(logprobs)))


@given(weighty(TERMS), subsets, subsets)
def test_more_known_terms_never_make_a_part_undefined(
    formula: Formula, heard: set[Term], more: set[Term]
) -> None:
    if part(formula, heard) is not None:
        assert part(formula, heard | more) is not None


def test_a_part_of_a_sum_is_the_sum_of_the_parts_of_its_members() -> None:
    formula = a - 0.5 * b + 2 * c
    assert part(formula, [a]) == a
    assert part(formula, [c]) == 2 * c
    assert part(formula, [a, c]) == a + 2 * c
    assert part(formula, [b, a]) == a - 0.5 * b
    assert part(formula, [c, a, b]) is formula
    assert part(formula, [d]) is None


@pytest.mark.parametrize(
    "whole",
    [
        union(a, b, c),
        intersection(a, b, c),
        unscaled(a + b - c),
        (a + b + c).top_k(3),
        (a - 0.5 * b + c).min_p(0.1),
    ],
)
def test_some_nodes_are_undefined_until_all_their_terms_are_known(whole: Formula) -> None:
    for heard in ([], [a], [a, b], [b, c], [a, c]):
        assert part(whole, heard) is None
        assert part(d - 0.5 * whole, [*heard, d]) == d
    assert part(whole, [a, b, c]) == whole


def test_a_draft_is_used_until_it_is_superseded() -> None:
    formula = supersede(a, b)
    assert [part(formula, heard) for heard in ([], [a], [b], [a, b])] == [None, a, b, b]
    assert without_drafts(formula) == b
    assert drafts(formula) == [a]


def test_a_draft_stands_in_for_a_superseded_member_of_a_sum() -> None:
    formula = c - 0.5 * b + supersede(d, a)
    assert part(formula, [c, d]) == c + d
    assert part(formula, [b, c, d]) == c - 0.5 * b + d
    assert part(formula, [b, c, a]) == part(formula, TERMS) == c - 0.5 * b + a
    assert part(c - 0.5 * supersede(d, a), [d, c]) == c - 0.5 * d


def test_in_a_chain_of_drafts_the_last_known_one_is_used() -> None:
    chain = supersede(a, supersede(b, c))
    assert [part(chain, heard) for heard in ([a], [a, b], [a, b, c])] == [a, b, c]
    nested = supersede(supersede(a, b), c)
    assert [part(nested, heard) for heard in ([a], [a, b], [a, b, c])] == [a, b, c]
    assert {*drafts(chain)} == {*drafts(nested)} == {a, b}


def test_the_draft_of_a_formula_is_unused_once_a_part_of_the_formula_is_known() -> None:
    formula = supersede(d, a - 0.5 * b)
    assert part(formula, [d, b]) == d
    assert part(formula, [d, a]) == a
    assert part(formula, [d, a, b]) == a - 0.5 * b


def test_a_term_of_the_formula_may_draft_it() -> None:
    formula = supersede(a, a - 0.5 * union(a, b))
    assert drafts(formula) == []
    assert part(formula, [a]) == a
    assert part(formula, [a, b]) == without_drafts(formula) == a - 0.5 * union(a, b)


def test_a_classifier_counts_only_once_its_guide_is_known() -> None:
    formula = c + 2 * judge
    assert part(formula, [judge]) is None
    assert part(formula, [judge, a]) is None
    assert part(formula, [judge, c]) == c
    assert part(formula, [c, a]) == c
    assert part(formula, [judge, a, c]) == formula


def test_a_member_with_factor_zero_is_left_out() -> None:
    formula = a + Uniform() + 0 * b
    assert part(formula, [a, b]) == a
    assert without_drafts(formula) == a + Uniform()
    assert drafts(supersede(0 * b + d, a)) == [d]


def test_two_names_of_one_term_leave_a_formula_its_weight() -> None:
    formula = parse("(max_prob(p) + 1)*M + max_prob(q)*(a - (max_prob(p) + 1)*M)")
    terms = resolve({"p": "Be kind.", "q": "Be kind.", "a": "Be brief."}, formula)
    check(formula, terms)
    bound = bind(formula, terms)
    assert without_drafts(bound) == bound
