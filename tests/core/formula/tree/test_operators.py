"""Gates, mixtures and comparisons of distributions: written, drawn, explained, refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from marith.errors import FormulaError
from marith.formula.meaning.binding import bind, resolve
from marith.formula.meaning.checking import check
from marith.formula.meaning.leaves import drafts, leaves
from marith.formula.meaning.partial import part
from marith.formula.meaning.removal import without_classifiers
from marith.formula.text.parsing import parse_text
from marith.formula.text.trust import parse
from marith.formula.tree.factors import maximum
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.operators import (
    agreed,
    mixture,
    posterior,
    relu,
    self_debias,
    supersede,
    where,
)
from marith.formula.tree.signals import (
    POSITION,
    balance,
    class_prob,
    decay,
    entropy,
    first,
    jsd,
    likelihood_of,
    margin,
    max_prob,
    position,
    renyi,
)
from marith.formula.tree.terms import Classifier, Judgement, Prompted, Term

M, a, b, C = Name("M"), Name("a"), Name("b"), Name("C")
BARE, P, Q = Prompted(), Prompted("A"), Prompted("B")
TERMS = resolve({"a": "A", "b": "B", "C": Classifier("c"), "sum": parse_text("a + b")})

CASES: list[tuple[Formula, str]] = [
    (M - 24 * relu(a - M), "M - 24*relu(a - M)"),
    (mixture(1, M, -0.5, a), "mixture(1, M, -0.5, a)"),
    (mixture(jsd(M, a), M, 1 - jsd(M, a), a), "mixture(jsd(M, a), M, 1 - jsd(M, a), a)"),
    (where(max_prob(M) < 0.3, a, M), "where(max_prob(M) < 0.3, a, M)"),
    (where(first(2), a, M), "where(first(2) > 0, a, M)"),
    (where(maximum(jsd(M, a), 0.1) >= margin(a), a, M),
     "where(maximum(jsd(M, a), 0.1) >= margin(a), a, M)"),
    (self_debias(M, a), "self_debias(M, a)"),
    (self_debias(M, a, b, decay=10, floor=0), "self_debias(M, a, b, decay=10, floor=0)"),
    (M + 30 * posterior(a, b), "M + 30*posterior(a, b)"),
    (M + agreed(M, a), "M + agreed(M, a)"),
    (M + agreed(M, a, b, count=3), "M + agreed(M, a, b, count=3)"),
    (2 * M - a.temperature(0.5), "2*M - a.temperature(0.5)"),
    ((M + a).temperature(2).top_k(5), "(M + a).temperature(2).top_k(5)"),
    (class_prob(C) * M + M, "class_prob(C)*M + M"),
    (renyi(M, a) * a + renyi(M, b, order=0.9) * M, "renyi(M, a)*a + renyi(M, b, order=0.9)*M"),
    (M + decay(7.5) * a + first(3) * b, "M + decay(7.5)*a + first(3)*b"),
    (M + (1 - position() / 9) * a, "M + (1 - 0.1111111111111111*position())*a"),
    (balance(M, a) * M + (1 - balance(M, a)) * a, "balance(M, a)*M + (1 - balance(M, a))*a"),
    (entropy(M - 0.5 * a) * a + M, "entropy(M - 0.5*a)*a + M"),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "text"), CASES, ids=[text for _, text in CASES])
def test_a_node_is_written_as_it_is_called(formula: Formula, text: str) -> None:
    assert str(formula) == text
    assert parse_text(text) == formula


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: mixture(1, M), "at least two pairs of a weight and a formula, .* not 2 arg"),
    (lambda: mixture(M, 1, a, 1), "a weight of a mixture is .*, not M"),
    (lambda: mixture(1, M, True, a), "not True"),
    (lambda: mixture(jsd(M, a) > 1, M, 1, a), r"context, not jsd\(M, a\) > 1"),
    (lambda: where(True, M, a), "such as entropy.*, not True"),  # type: ignore[arg-type]
    (lambda: self_debias(M), "at least 2 formulas, not 1"),
    (lambda: self_debias(M, a, decay=-1), "decay is a number from 0 to 1e6, not -1"),
    (lambda: self_debias(M, a, floor=2), "floor is a number from 0 to 1, not 2"),
    (lambda: posterior(M), "posterior takes at least 2 formulas, not 1"),
    (lambda: agreed(M, a, count=0), "count is a whole number from 1 .*, not 0"),
    (lambda: M.temperature(0), "temperature takes a number from 1e-6 to 1e6, not 0"),
    (lambda: jsd(M, 1), "jsd takes formulas, not 1"),  # type: ignore[arg-type]
    (lambda: renyi(M, a, order=1), "order is a number between 0 and 1, not 1"),
    (lambda: class_prob(2 * C), r"class_prob takes a classifier, not 2\*C"),
    (lambda: first(0), "first takes a whole number from 1, not 0"),
    (lambda: decay(0), "half_life is a number of tokens above 0, not 0"),
    (lambda: Classifier("c", scale="prob"), "scale is one of .*, not 'prob'"),  # type: ignore[arg-type]
    (lambda: Prompted(exit_layer=-1), "exit_layer is a whole number from 0, not -1"),
]


@pytest.mark.parametrize(("build", "says"), BAD, ids=range(len(BAD)))
def test_an_invalid_argument_of_a_node_is_refused_with_its_value(
    build: Callable[[], Any], says: str
) -> None:
    with pytest.raises(FormulaError, match=says):
        build()


FAULTS = [
    ("M + relu(a)", "relu(a)", "relu takes a difference; the weights of a add up to 1"),
    ("M + indicator(a + b)*(M - a)", "indicator(a + b)", "takes a difference.* add up to 2"),
    ("M + mixture(1, a - b, 1, M)", "mixture(1, a - b, 1, M)", "weight above zero; a - b has 0"),
    ("mixture(1, M, -1, a)", "mixture(1, M, -1, a)", "add up to more than zero, not 0"),
    ("mixture(max_prob(M), M, -1, a)", "mixture(max_prob(M), M, -1, a)", r"not max_prob\(M\) − 1"),
    ("mixture(indicator(M - a), M, 1, a)", "mixture(indicator(M - a), M, 1, a)", "token to token"),
    ("where(first(2) > 0, C, M)", "where(first(2) > 0, C, M)", "weight above zero; C has 0"),
    (
        "where(indicator(M - a) > 0, M, a)",
        "where(indicator(M - a) > 0, M, a)",
        "the condition of where must",
    ),
    ("M + union(M, agreed(M, a))", "union(M, agreed(M, a))", r"agreed\(M, a\) has 0"),
    ("M + posterior(a, a + b)", "posterior(a, a + b)", r"prompted models.* not a \+ b"),
    ("M + posterior(a, sum)", "posterior(a, sum)", "prompted models, .* not sum"),
    ("M + balance(M, C)*a", "balance(M, C)", "balance takes prompted models, .* not C"),
    ("M + class_prob(a)*b", "class_prob(a)", "class_prob takes a classifier, not a"),
    ("M + jsd(a - b, M)*a", "jsd(a - b, M)", "a - b has 0"),
    ("M + (a - b).temperature(2)", "(a - b).temperature(2)", "temperature changes a distribution"),
    ("M + a/jsd(M, a)", "1/jsd(M, a)", "division by a factor that may be zero: jsd"),
    ("M + 1/(max_prob(M) - 0.5)*a", "1/(max_prob(M) - 0.5)", "by a factor that may be zero"),
    (
        "M + (1e20 + jsd(M, a))*(1e20 + max_prob(M))*a",
        "(1e20 + jsd(M, a))*(1e20 + max_prob(M))",
        "1e.?30",
    ),
    ("M + 1/(1e-40 + entropy(M))*a", "1/(1e-40 + entropy(M))", "at most 1e30 .* may be 1e"),
    ("1e20*(M + 1e20*(a + jsd(M, a)*b))", "1e20*(M + 1e20*(a + jsd(M, a)*b))", "more than 1e30"),
    ("M + where(entropy(nope) > 2, a, M)", "nope", "unknown term 'nope'"),
    ("M + mixture(jsd(M, nope), a, 1, M)", "nope", "unknown term 'nope'"),
]


@pytest.mark.parametrize(("text", "fault", "says"), FAULTS, ids=[text for text, *_ in FAULTS])
def test_a_node_that_means_nothing_is_refused_with_a_caret(
    text: str, fault: str, says: str
) -> None:
    with pytest.raises(FormulaError, match=says) as caught:
        check(parse(text), TERMS)
    *_, quoted, carets = str(caught.value).split("\n")
    assert quoted[carets.index("^") : len(carets)] == str(fault).replace("1e20", "1e+20")


OBSERVED: list[tuple[str, list[Term]]] = [
    ("M + first(2)*a", [BARE, POSITION, P]),
    ("M + decay(2)*a + first(3)*b", [BARE, POSITION, P, Q]),
    ("M + position()*a", [BARE, POSITION, P]),
    ("M + class_prob(C)*a", [BARE, Judgement("c"), P]),
    ("M + balance(a, b)*b", [BARE, likelihood_of(P), likelihood_of(Q), P, Q]),
    ("M + posterior(a, b)", [BARE, likelihood_of(P), likelihood_of(Q), POSITION, P, Q]),
    ("M + jsd(a, b)*(M - a)", [BARE, P, Q]),
    ("where(entropy(a) > 2, b, M)", [P, Q, BARE]),
    ("mixture(0.5, M, max_prob(b), a)", [Q, BARE, P]),
    ("self_debias(M, a, b)", [BARE, P, Q]),
    ("M + agreed(M, b)", [BARE, Q]),
    ("M + 0*jsd(M, a)*b", [BARE, P, Q]),
    ("supersede(a, M + first(2)*M)", [BARE, POSITION]),
]


@pytest.mark.parametrize(("text", "terms"), OBSERVED, ids=[text for text, _ in OBSERVED])
def test_the_leaves_of_a_node_include_what_its_factors_observe(
    text: str, terms: list[Term]
) -> None:
    assert sorted(map(str, leaves(bind(parse(text), TERMS)))) == sorted(map(str, terms))


def test_a_superseded_formula_is_replaced_inside_a_factor_too() -> None:
    formula = where(entropy(supersede(P, BARE)) > 1, supersede(Q, BARE), BARE)
    assert leaves(formula) == [BARE]
    assert drafts(formula) == [P, Q]


def test_a_factor_of_the_context_needs_all_terms_that_it_observes() -> None:
    formula = BARE + jsd(P, Q) * P
    assert [part(formula, heard) for heard in ([BARE], [BARE, P], [P, Q])] == [BARE, BARE, None]
    assert part(formula, [BARE, P, Q]) == formula
    gate = where(first(2), P, Q)
    assert part(gate, [P, Q]) is None
    assert part(gate, [P, Q, POSITION]) == gate
    assert part(BARE + first(2) * P, [BARE, P]) == BARE


def test_classifiers_are_removed_inside_nodes_too() -> None:
    judge = Classifier("c")
    assert without_classifiers(where(first(2), P + judge, Q)) == where(first(2), sum_of(P), Q)
    assert without_classifiers(P + relu(judge)) == sum_of(P)
    assert without_classifiers(P + class_prob(judge) * Q) == P + class_prob(judge) * Q
    assert without_classifiers(P + entropy(P + judge) * Q) == P + entropy(sum_of(P)) * Q
    assert without_classifiers(relu(judge)) is None


def sum_of(formula: Formula) -> Formula:
    """What is left of a sum of two when one has gone."""
    left = without_classifiers(formula + Classifier("c"))
    assert left is not None
    return left
