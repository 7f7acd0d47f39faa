"""Factors are checked after division by the weight, and a warning says what helps."""

from __future__ import annotations

import pytest

from marith.formula.meaning.binding import bind, resolve
from marith.formula.meaning.checking import warnings_of
from marith.formula.meaning.large_factors import USUAL, distributions
from marith.formula.meaning.weights import Weights, weight_of
from marith.formula.text.explaining import Explanation
from marith.formula.text.trust import parse
from marith.formula.tree.terms import Classifier

NAMES = ("formal", "happy", "toxic", "chef", "child", "a", "b")
TERMS = resolve({"C": Classifier("c"), **{name: f"a prompt: {name}" for name in NAMES}})

HARMLESS = [
    "M",
    "3*M",
    "M - 0.6*toxic",
    "M - 0.96*union(toxic, M)",
    "M - 0.9*union(toxic, M) + 0.9*intersection(a, M)",
    "2*formal - M - 24*relu(toxic - M)",
    "10*happy.min_p(0.1) - 9*M",
    "M + 5*first(3)*(a - M)",
    "supersede(a, M)",
    "unscaled(3*M)",
    "contrastive(a, b, 4)",
    "safe_decoded(M, a)",
    "500*M",
    "M - 98*relu(toxic - M)",
    "M + 500*C",
]
LARGE = [
    ("10*happy - 9*M", 10),
    ("1.5*formal - 0.5*M - 0.9*union(toxic, M)", 15),
    ("M - 0.96*toxic", 25),
    ("M + 24*relu(a - M)", 24),
    ("M + 2*(a - M) + 2*(b - M)", 4),
    ("M + 8*(happy - formal)", 9),
    ("cfg(a, M, 3)", 3),
    ("unscaled(10*a - 9*M)", 10),
    ("(10*happy - 9*M).min_p(0.1)", 10),
    ("supersede(M, 10*happy - 9*M)", 10),
    ("where(entropy(M) > 2, 10*a - 9*M, M)", 10),
]


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_factors_are_not_warned_of(text: str) -> None:
    assert warnings_of(parse(text), TERMS) == []


@pytest.mark.parametrize(("text", "times"), LARGE)
def test_a_large_factor_is_named_as_it_counts(text: str, times: float) -> None:
    scores = distributions(bind(parse(text), TERMS), Weights())
    assert max(score.added for score in scores) == pytest.approx(times)
    assert times > USUAL
    (told,) = warnings_of(parse(text), TERMS)
    assert f" {times} times" in told
    assert "smaller numbers" in told


def test_a_suggested_formula_causes_no_warning() -> None:
    (told,) = warnings_of(parse("10*happy - 9*M"), TERMS)
    assert told == (
        "happy counts 10 times; beyond 2.5 times texts often become nonsense: write smaller "
        "numbers, or happy.min_p(0.1) for happy, to keep to tokens that it finds plausible"
    )
    assert warnings_of(parse("10*happy.min_p(0.1) - 9*M"), TERMS) == []


def test_a_persona_beside_a_union_is_joined_to_it_by_a_relu() -> None:
    (told,) = warnings_of(parse("1.5*formal - 0.5*M - 0.9*union(toxic, M)"), TERMS)
    assert "formal counts 15 times, as everything is divided by the total weight 0.1" in told
    assert "write 9*relu(toxic - M) for the union, as a relu takes no weight away" in told
    assert warnings_of(parse("1.5*formal - 0.5*M - 9*relu(toxic - M)"), TERMS) == []


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("1.5*formal - 0.5*M - 0.96*union(M, toxic)", "24*relu(toxic - M)"),
        ("a - 0.9*union(toxic, M)", "9*relu(toxic - M)"),
        ("2*formal - M - 0.9*union(a, b, M)", "9*relu(union(a, b) - M)"),
        ("2*formal - M - 0.45*union(a, M) - 0.45*union(b, M)", "4.5*relu(b - M)"),
        ("M - 0.96*union(a, b)", "24*relu(union(a, b) - M)"),
    ],
)
def test_a_suggested_relu_has_the_effective_factor_of_the_union(text: str, remedy: str) -> None:
    (told,) = warnings_of(parse(text), TERMS)
    assert f"{remedy} for the union" in told


ROUNDED = [
    "M - 0.99*union(toxic, M)",
    "0.01*M - 0.0099*union(toxic, M)",
    "200*M - 199*union(M, toxic)",
    "M - 0.99*union(toxic, M) + 0.01*C",
    "supersede(a, M - 0.999*union(toxic, M))",
]


@pytest.mark.parametrize("text", ROUNDED)
def test_a_weight_so_small_that_rounding_shows_is_warned_of(text: str) -> None:
    (told,) = warnings_of(parse(text), TERMS)
    assert "rounding" in told
    assert "write smaller numbers, or relu(toxic - M) with a smaller factor for the union" in told


def test_a_union_is_warned_of_beside_varying_factors() -> None:
    varying = parse("(entropy(M) - 1)*a + (2 - entropy(M))*b - 0.5*union(toxic, chef)")
    assert warnings_of(varying, TERMS) == []
    assert "10 times" in warnings_of(parse("a - 0.9*union(M, M)"), TERMS)[0]


def test_a_large_factor_is_warned_of_because_of_rounding() -> None:
    (told,) = warnings_of(parse("M - 999*relu(toxic - M)"), TERMS)
    assert "rounding" in told
    assert told.endswith("write smaller numbers")


def test_terms_that_are_formulas_count_with_their_own_numbers() -> None:
    terms = {"far": parse("2*child - M"), "child": "Be a child."}
    (told,) = Explanation.of("2*far - M", terms).warnings
    assert "child counts 4 times" in told


def test_a_term_without_a_name_is_quoted_and_its_text_can_be_left_out() -> None:
    explained = Explanation.of('3*prompted("Be kind.") - 2*M')
    assert 'prompted("Be kind.") counts 3 times' in explained.warnings[0]
    assert "kind" not in explained.without_texts().warnings[0]


def test_scaling_a_whole_formula_changes_no_factor() -> None:
    for text, times in LARGE:
        formula = bind(0.37 * parse(text), TERMS)
        if weight_of(formula):
            scores = distributions(formula, Weights())
            assert max(score.added for score in scores) == pytest.approx(times)
