"""Invalid formulas are refused before any model loads."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.strategies import NAMES, formulas, speakers, weighty

from marith.errors import FormulaError
from marith.formula.meaning.binding import bind, resolve
from marith.formula.meaning.checking import warnings_of
from marith.formula.meaning.leaves import leaves
from marith.formula.meaning.removal import without_classifiers
from marith.formula.meaning.weights import weight_of
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.operators import relu
from marith.formula.tree.terms import Classifier, Prompted

TERMS = resolve({"a": "A", "b": "B", "toxic": "T", "C": Classifier("c"),
                 "G": Classifier("g", guide=Name("M"))})  # fmt: skip

FAULTS = [
    (
        "M + nope",
        "nope",
        "unknown term 'nope'; known are C, G, M, a, b, toxic; define it: terms={'nope'",
    ),
    ("M + 1000000*(a - M)", "M + 1000000*(a - M)", "cancel: they add up to 1, which is within"),
    ("a - 2*b", "a - 2*b", r"more than zero, not -1; write, for example, 2\*a - b$"),
    ("a - M", "a - M", r"more than zero, not 0; write, for example, 2\*a - M$"),
    ("0*M", "0*M", "not 0; every term has the factor 0: write another factor"),
    ("relu(a - M)", "relu(a - M)", r"not 0; write, for example, M \+ relu\(a - M\)"),
    ("C", "C", r"a classifier cannot stand alone: .*; write, for example, M \+ C$"),
    ("M + union(C, M)", "union(C, M)", "classifier cannot be a member"),
    ("M + union(a - b, M)", "union(a - b, M)", "weight above zero; a - b has 0"),
    ("2*M + union(a, b - 2*M)", "union(a, b - 2*M)", "has -1"),
    ("M + supersede(a - b, M)", "supersede(a - b, M)", "weight above zero"),
    ("M + (a - b).top_k(3)", "(a - b).top_k(3)", "top_k cuts a distribution"),
    ("M + classifier('x', guide=a - b)", "a - b", "more than zero"),
    ('M + classifier("x", guide=M + C)', 'classifier("x", guide=M + C)', "no classifier in it"),
    ("unscaled(C)", "unscaled(C)", r"or a guide, .*; write, for example, M \+ unscaled\(C\)"),
]


@pytest.mark.parametrize(("text", "part", "says"), FAULTS, ids=[text for text, _, _ in FAULTS])
def test_a_formula_that_means_nothing_is_refused_with_a_caret(
    text: str, part: str, says: str
) -> None:
    with pytest.raises(FormulaError) as caught:
        warnings_of(parse(text), TERMS)
    assert re.search(says, caught.value.problem)
    *_, quoted, carets = str(caught.value).split("\n")
    assert quoted[carets.index("^") : len(carets)] == part


@given(formulas())
def test_a_formula_that_an_error_suggests_is_accepted(f: Formula) -> None:
    try:
        warnings_of(f, TERMS)
    except FormulaError as error:
        _, _, suggested = error.problem.partition("write, for example, ")
        if suggested:
            warnings_of(parse(suggested), TERMS)


@given(weighty(speakers(3)))
def test_a_formula_whose_parts_have_weight_is_valid(f: Formula) -> None:
    warnings_of(f, {})
    assert weight_of(f) > 0


@given(weighty(speakers(3)), st.floats(0.01, 100))
def test_scaling_a_formula_does_not_make_it_invalid(f: Formula, times: float) -> None:
    """Rounding of numbers that were to cancel grows with what they multiply."""
    warnings_of(times * f, {})
    warnings_of(f + times * relu(sum((-1 * f for _ in range(2)), 2 * f)), {})


@given(formulas())
def test_a_formula_passes_or_is_a_formula_error(f: Formula) -> None:
    try:
        assert all(isinstance(warning, str) for warning in warnings_of(f, TERMS))
    except FormulaError:
        return
    assert weight_of(f, TERMS) > 0


@given(formulas(), st.floats(0.1, 10))
def test_weights_scale_add_up_and_survive_binding(f: Formula, factor: float) -> None:
    names = ("M", "a", "b", "toxic", "größe", "union")
    everything = {"C": Classifier("c"), **{name: Prompted(name) for name in names}}
    weight = weight_of(f, everything)
    assume(abs(weight) < 1e6)
    assert weight_of(factor * f, everything) == pytest.approx(factor * weight, abs=1e-9)
    assert weight_of(f + f, everything) == pytest.approx(2 * weight, abs=1e-9)
    assert weight_of(bind(f, everything), everything) == pytest.approx(weight, abs=1e-9)


def test_leaves_are_distinct_and_in_order_without_members_of_factor_zero() -> None:
    guided = Classifier("g", guide=Prompted("A"))
    f = Prompted("B") + guided + 0 * Prompted("Z") + Prompted("B")
    assert leaves(f) == [Prompted("B"), Prompted("A"), guided]


@given(formulas())
def test_without_classifiers_leaves_no_classifier_in_a_formula(f: Formula) -> None:
    everything = {name: Classifier(name) if name == "C" else Prompted(name) for name in NAMES}
    try:
        warnings_of(f, everything)
    except FormulaError:
        return
    kept = without_classifiers(bind(f, everything))
    assert kept is None or not any(isinstance(term, Classifier) for term in leaves(kept))


@pytest.mark.parametrize("text", [
    "union(C, M)", "(a - b).top_k(2)", "M + union(a - b, M)", "1e308*M + 1e308*M", "unscaled(0*M)",
])  # fmt: skip
def test_a_fault_inside_a_named_term_is_refused(text: str) -> None:
    terms = {"a": "A", "b": "B", "C": Classifier("c"), "bad": {"formula": text}}
    with pytest.raises(FormulaError):
        warnings_of(parse("2*M + bad"), resolve(terms))
