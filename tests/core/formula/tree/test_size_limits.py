"""Limits of a formula: neither text nor Python code can exceed its printed size."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from operator import sub

import pytest
from hypothesis import given
from support.strategies import factors, formulas, walk

import marith
from marith.errors import FormulaError
from marith.formula.meaning.leaves import drafts
from marith.formula.text.parsing import letters_of, parse_text
from marith.formula.tree.node import MAX_DEPTH, MAX_LENGTH, MAX_NODES, MAX_ROW
from marith.formula.tree.nodes import Formula, Name, added
from marith.formula.tree.operators import Unscaled, supersede, union, unscaled
from marith.formula.tree.signals import max_prob
from marith.formula.tree.terms import Classifier, NGram, Prompted
from marith.recipes import cfg, cocoa, dola, safe_decoded

M, a = Name("M"), Name("a")


@given(formulas())
def test_a_formula_knows_its_size_as_it_is_printed(f: Formula) -> None:
    assert letters_of(str(f)) <= f.letters
    assert f.letters <= len(str(f)) + 130 * f.nodes
    assert f.nodes >= len([*walk(f)])
    assert f.depth <= f.nodes


@given(formulas(), factors)
def test_copies_and_pickles_are_equal_and_hash_alike(f: Formula, factor: float) -> None:
    f = factor * f
    assert copy.copy(f) is copy.deepcopy(f) is f
    twin = pickle.loads(pickle.dumps(f))
    assert twin == f
    assert hash(twin) == hash(f)
    assert (twin.nodes, twin.depth, twin.letters) == (f.nodes, f.depth, f.letters)


def repeated(step: Callable[[Formula], Formula], times: int) -> Formula:
    """A tree of few objects, which is printed with many."""
    return reduce(lambda formula, _: step(formula), range(times), a)


GROWING: list[Callable[[Formula], Formula]] = [
    lambda f: cfg(M, f),
    lambda f: cocoa(M, f),
    lambda f: safe_decoded(f, M),
    lambda f: union(f, f),
    lambda f: max_prob(f) * f + M,
    lambda f: Classifier("c", guide=union(f, f)),
    unscaled,
    lambda f: 2 * (f + M).top_k(3),
    lambda f: f.temperature(0.5),
    lambda f: supersede(f, M),
    lambda f: (max_prob(f) + 1) * M,
]


@pytest.mark.parametrize("step", GROWING, ids=range(len(GROWING)))
def test_a_tree_that_shares_its_parts_is_refused_as_soon_as_it_is_too_large(
    step: Callable[[Formula], Formula],
) -> None:
    start = time.thread_time()
    with pytest.raises(FormulaError, match=r"the formula (has|is nested) \d+ "):
        repeated(step, 1_000_000)
    assert time.thread_time() - start < 0.3


def test_the_largest_shared_trees_are_compared_copied_and_printed_at_once() -> None:
    start = time.thread_time()
    one, other = (repeated(lambda f: union(f, f), 10) for _ in range(2))
    assert one == other
    assert one != union(other, M)
    assert {one: 1}[other] == 1
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(other)
    assert parse_text(str(one)) == one
    assert repr(one) == str(one)
    assert time.thread_time() - start < 1


def test_depth_is_bounded_where_nodes_are_made() -> None:
    nested = repeated(unscaled, MAX_DEPTH - 1)
    assert nested.depth == MAX_DEPTH
    assert parse_text(str(nested)) == nested
    with pytest.raises(FormulaError, match="nested 61 deep; 60 are allowed"):
        Unscaled(nested)
    with pytest.raises(FormulaError, match="nested 61 deep"):
        parse_text("unscaled(" * MAX_DEPTH + "M" + ")" * MAX_DEPTH)


def deepest_by(step: Callable[[Formula], Formula]) -> Formula:
    formula: Formula = a
    with suppress(FormulaError):
        while True:
            formula = step(formula)
    return formula


def test_the_deepest_formulas_leave_room_for_whoever_calls() -> None:
    deepest = [deepest_by(step) for step in GROWING]

    def below(frames: int) -> None:
        if frames:
            below(frames - 1)
        else:
            for formula in deepest:
                assert pickle.loads(pickle.dumps(formula)) == parse_text(str(formula))
                with suppress(FormulaError):
                    marith.explain(formula)

    below(500)


def test_parts_and_letters_are_bounded_where_nodes_are_made() -> None:
    assert union(*[M] * (MAX_NODES - 1)).nodes == MAX_NODES
    with pytest.raises(FormulaError, match="has 5001 parts; 5000 are allowed"):
        union(*[M] * MAX_NODES)
    long = Name("m" * (MAX_LENGTH // 2 - 9))
    assert parse_text(str(long + long)) == long + long
    with pytest.raises(FormulaError, match=f"characters; {MAX_LENGTH} are allowed"):
        long + long + long


def test_a_sum_has_a_bound_of_its_own() -> None:
    with pytest.raises(FormulaError, match="a sum has 501 members; 500 are allowed"):
        added(*[M] * (MAX_ROW + 1))


LONG = [
    added(*[M] * MAX_ROW),
    reduce(sub, [2 * M] * MAX_ROW),
    union(*[added(*[M] * MAX_ROW)] * 7),
    added(*[0.5 * Prompted(f"prompt {i}") for i in range(MAX_ROW)]),
    Prompted("Be kind. " * 9_999) - 0.5 * Prompted('"' * 50_000, hide="x" * 30_000),
    M + NGram(texts=["a b"] * 9_999),
    2 * M + Classifier("c" * 30_000, label="(", guide=M + Prompted("'" * 30_000)),
    dola(M, *range(2, 54)),
]


@pytest.mark.parametrize("formula", LONG, ids=range(len(LONG)))
def test_long_formulas_read_back(formula: Formula) -> None:
    assert parse_text(str(formula)) == formula


def test_drafts_of_drafts_are_found_at_once() -> None:
    names = [Prompted(f"{i}") for i in range(50)]
    start = time.thread_time()
    assert drafts(reduce(supersede, names)) == names[-2::-1]
    assert time.thread_time() - start < 0.5
