"""Names become terms: prompts, formulas, the bare model, a classifier's guide."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from support.strategies import formulas, walk

from marith.errors import FormulaError
from marith.formula.meaning.binding import bind, resolve
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula, Name, Scaled, Sum
from marith.formula.tree.terms import Classifier, Prompted

M, a, b = Name("M"), Name("a"), Name("b")
BARE = Prompted()


def test_the_name_m_may_be_redefined() -> None:
    assert parse("M", {"M": "Be brief."}) == Prompted("Be brief.")
    assert parse("M + a", {"M": "Be brief.", "a": M}) == Prompted("Be brief.") * 1 + Prompted(
        "Be brief."
    )


@pytest.mark.parametrize("text", ["M - b", "2*M", "union(M, b)", "prompted('x')", "M.top_k(3)"])
def test_a_formula_is_an_object_or_says_so_in_data(text: str) -> None:
    bound = parse(text, {"b": "Be rude."})
    assert resolve({"a": {"formula": text}, "b": "Be rude."})["a"] == bound
    assert resolve({"a": parse(text), "b": "Be rude."})["a"] == bound
    assert resolve({"a": text, "b": "Be rude."})["a"] == Prompted(text)


def test_a_term_stands_for_itself() -> None:
    assert parse("a + b", {"a": Prompted("x"), "b": M}) == Prompted("x") + BARE


def test_the_names_in_a_guide_are_bound() -> None:
    judge = Classifier("m", guide=M - 0.5 * a)
    expected = Classifier("m", guide=BARE - 0.5 * Prompted("x"))
    assert parse("M + C", {"a": "x", "C": judge}) == BARE + expected
    assert parse("M + classifier('m', guide=M - 0.5*a)", {"a": "x"}) == BARE + expected


def test_bound_sums_are_flat_and_numbers_folded() -> None:
    bound = parse("2*a - b", {"a": 0.5 * M, "b": parse("M + x"), "x": "X"})
    assert bound == BARE - (BARE + Prompted("X"))
    assert parse("M + a", {"a": parse("M - 2*x"), "x": "X"}) == BARE + BARE - 2 * Prompted("X")
    for node in walk(bound):
        assert not (isinstance(node, Scaled) and isinstance(node.of, Scaled))
        assert not (isinstance(node, Sum) and any(isinstance(m, Sum) for m in node.members))


def _names(formula: Formula) -> set[str]:
    found: set[str] = set()
    for node in walk(formula):
        match node:
            case Name(name):
                found.add(name)
            case Classifier(guide=Formula() as guide):
                found |= _names(guide)
    return found


@given(formulas())
def test_binding_leaves_no_name_and_is_done_at_once(f: Formula) -> None:
    bound = bind(f, {name: Prompted(name) for name in _names(f)})
    assert _names(bound) == set()
    assert bind(bound, {}) == bound


@pytest.mark.parametrize(
    ("terms", "circle"),
    [
        ({"a": a + M}, "a → a"),
        ({"a": b + M, "b": {"formula": "2*a"}}, "a → b → a"),
        ({"M": parse("M + x"), "x": "X"}, "M → M"),
        ({"C": Classifier("m", guide=M + Name("C"))}, "C → C"),
        ({"a": M, "M": a + a}, "→"),
    ],
)
def test_terms_defined_by_each_other_are_refused(terms: dict[str, Any], circle: str) -> None:
    with pytest.raises(FormulaError, match=circle):
        parse("M", terms)


@pytest.mark.parametrize("text", ['classifier("m", label="civil"', "union(C, M", "prompted(3"])
def test_a_fault_in_a_formula_says_which_term(text: str) -> None:
    with pytest.raises(FormulaError, match="in term 't'"):
        resolve({"t": {"formula": text}})


def test_an_unknown_name_inside_a_term_says_which_term() -> None:
    with pytest.raises(FormulaError, match="in term 'a': unknown term 'nope'; known are M, a, b"):
        resolve({"a": M - Name("nope"), "b": "x"}, a)


@pytest.mark.parametrize("terms", [{"two words": "x"}, {"": "x"}, {"for": "x"}, {"a": 5},
                                   {"a": None}, ["a"], "a"])  # fmt: skip
def test_invalid_terms_are_refused(terms: Any) -> None:
    with pytest.raises(FormulaError, match="not"):
        resolve(terms)
