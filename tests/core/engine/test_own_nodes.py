"""Nodes defined outside of marith: printed, checked, weighed, evaluated, generated with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from unittest.mock import patch

import pytest
import torch
from support.checked_engine import CheckedEngine, request
from torch import Tensor

from marith import Plan, Sampling, explain, max_prob
from marith.decoding.evaluate import Evaluation, Value, factor_value, node_value
from marith.errors import FormulaError
from marith.formula.meaning.checking import problem, warnings_of, weightless
from marith.formula.meaning.leaves import leaves
from marith.formula.meaning.partial import part
from marith.formula.meaning.polynomials import Range, Weight, constant
from marith.formula.meaning.removal import without_classifiers
from marith.formula.meaning.weights import Weights, factor_range, node_weight, weigh
from marith.formula.text.calls import CALLS, define
from marith.formula.text.trust import parse
from marith.formula.tree.factors import Factor, Varying
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.printing import Piece, call, number_text, pieces
from marith.formula.tree.terms import Classifier, Prompted

M, x, y, A, C = (Name(name) for name in ("M", "x", "y", "A", "C"))


@dataclass(frozen=True, slots=True, eq=False)
class Median(Formula):
    """The median of the members' log-distributions, token by token."""

    members: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Capped(Formula):
    """A difference whose score is at most `most`; no weight."""

    of: Formula
    most: float


@dataclass(frozen=True, slots=True, eq=False)
class Squared(Varying):
    """A factor times itself."""

    of: Varying


@dataclass(frozen=True, slots=True, eq=False)
class Doubled(Formula):
    """A formula times two, whose value is imported when it is first computed."""

    of: Formula
    computed_by = "test_own_nodes_values:doubled"


@dataclass(frozen=True, slots=True, eq=False)
class Rooted(Varying):
    """The square root of a factor, whose value is imported when it is first computed."""

    of: Varying
    computed_by = "test_own_nodes_values:rooted"


def median(*members: Formula) -> Formula:
    return Median(members)


def capped(of: Formula, most: float = 1.0) -> Formula:
    return Capped(of, float(most))


def squared(of: Varying) -> Varying:
    return Squared(of)


@node_value.register
def evaluate_median(node: Median, at: Evaluation) -> Value:
    return Value.of(torch.stack([*map(at.logprobs, node.members)]).median(dim=0).values)


@problem.register
def check_median(node: Median, weights: Weights) -> str:
    return weightless(node.members, weights)


@node_value.register
def evaluate_capped(node: Capped, at: Evaluation) -> Value:
    of = at.value(node.of)
    return Value(of.score.clamp(max=node.most), 0.0, of.allowed)


@pieces.register
def print_capped(node: Capped) -> list[Piece]:
    return call("capped", node.of, *[f"most={number_text(node.most)}"] * (node.most != 1))


@node_weight.register
def weigh_capped(_node: Capped, _weights: Weights) -> Weight:
    return constant(0.0)


@problem.register
def check_capped(node: Capped, weights: Weights) -> str:
    weight = weights.of(node.of)
    return "" if weight.nothing else f"capped takes a difference, not a weight of {weight}"


@factor_value.register
def compute_squared(factor: Squared, at: Evaluation) -> Tensor:
    return torch.as_tensor(at.factor(factor.of)) ** 2


@factor_range.register
def bound_squared(factor: Squared, weights: Weights) -> Range:
    low, high = weights.factor(factor.of).range
    return (0.0 if low <= 0 <= high else min(low**2, high**2)), max(low**2, high**2)


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    with patch.dict(CALLS):
        define("median", median)
        define("capped", capped)
        define("squared", squared)
        yield


MADE = [
    ("median(M, x, y)", Median((M, x, y))),
    ("2*median(M, x, y).top_k(3) - M", 2 * Median((M, x, y)).top_k(3) - M),
    ("M + capped(x - M)", M + Capped(x - M, 1.0)),
    ("M - 0.5*capped(x - M, most=2.5)", M - 0.5 * Capped(x - M, 2.5)),
]


@pytest.mark.parametrize(("text", "formula"), MADE, ids=[text for text, _ in MADE])
def test_a_node_is_printed_as_a_call_and_parsed_back(text: str, formula: Formula) -> None:
    assert str(formula) == text
    assert parse(text) == formula


def test_a_factor_is_printed_and_its_range_is_known() -> None:
    factor: Factor = Squared(max_prob(M))
    assert str(factor) == "squared(max_prob(M))"
    assert parse("squared(max_prob(M))*x + M") == Squared(max_prob(M)) * x + M
    assert Weights().factor(Squared(1 + max_prob(Prompted()))).range == (1.0, 4.0)


def test_a_node_has_its_registered_weight() -> None:
    assert weigh(parse("median(M, x)", {"x": "X"})).constant == 1.0
    assert weigh(parse("2*M + 3*capped(x - M)", {"x": "X"})).constant == 2.0


def test_a_node_that_means_nothing_is_refused_with_a_caret() -> None:
    terms = {"M": Prompted(), "x": Prompted("X"), "C": Classifier("c")}
    with pytest.raises(FormulaError, match=r"not a weight of 2\n  M \+ capped.*\n {6}\^{13}$"):
        warnings_of(parse("M + capped(x + M)"), terms)
    with pytest.raises(FormulaError, match="every member needs weight above zero; C has 0"):
        warnings_of(parse("median(M, x, C)"), terms)
    assert warnings_of(parse("M + capped(x - M) + C"), terms) == []


def test_a_node_is_evaluated_once_all_its_terms_are_known() -> None:
    formula = parse("M + capped(x - M) + C", {"x": "X", "C": Classifier("c")})
    bare, other, judge = Prompted(), Prompted("X"), Classifier("c")
    assert leaves(formula) == [bare, other, judge]
    assert part(formula, (bare,)) == bare
    assert part(formula, (bare, other)) == bare + Capped(other - bare, 1.0)
    assert without_classifiers(formula) == bare + Capped(other - bare, 1.0)
    assert without_classifiers(Median((bare, judge))) is None


FORMULAS = (
    "median(M, x, y)",
    "M + 2*capped(x - M, most=0.5) + 0.3*C",
    "M + squared(max_prob(x))*(x - M)",
    "supersede(A, median(M, 2*x - y, y).top_k(9))",
)


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_engine_generates_with_it_as_the_reference_does(
    checked: CheckedEngine, formula: str
) -> None:
    asked = request(checked, formula, FORMULAS.index(formula), Sampling(1.1, seed=7))
    for how in (None, "auto"):
        out = checked.engine.submit(replace(asked, speculation=how)).result(60)
        assert (out.text, out.tokens, out.finish_reason) == checked.reference.decode(asked)
    cold = replace(asked, sampling=Sampling(0.0))
    out = checked.engine.submit(replace(cold, speculation=Plan.factors({"x": 3}))).result(60)
    assert (out.text, out.tokens, out.finish_reason) == checked.reference.decode(cold)


def test_the_function_that_computes_a_node_is_imported_when_it_is_needed(
    checked: CheckedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module without torch may hold the node; another holds what is computed."""

    def following(formula: Formula) -> Tensor:
        return checked.engine.next_logprobs("q w e", formula, checked.terms)

    values = ModuleType("test_own_nodes_values")
    values.doubled = lambda node, at: Value(2 * at.value(node.of).score, 2.0)  # type: ignore[attr-defined]
    values.rooted = lambda factor, at: at.factor(factor.of).sqrt()  # type: ignore[attr-defined]
    doubled, rooted = Doubled(M), M + Rooted(max_prob(M)) * (x - M)
    assert explain(doubled).startswith("doubled(M)")
    with pytest.raises(FormulaError, match="'test_own_nodes_values:doubled', which cannot be imp"):
        following(doubled)
    monkeypatch.setitem(sys.modules, "test_own_nodes_values", values)
    torch.testing.assert_close(following(doubled), following(M), atol=1e-5, rtol=0)
    share = following(M).exp().amax().sqrt()
    want = (1 - share) * following(M) + share * following(x)
    torch.testing.assert_close(
        following(rooted), torch.log_softmax(want, dim=-1), atol=1e-4, rtol=0
    )


def test_a_node_without_a_value_says_so() -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Valueless(Formula):
        of: Formula

    with pytest.raises(TypeError, match="no value is registered for a Valueless"):
        node_value(Valueless(M), Evaluation({}))


def test_a_node_gives_its_own_distribution(checked: CheckedEngine) -> None:
    def following(formula: str) -> Tensor:
        return checked.engine.next_logprobs("q w e", formula, checked.terms)

    rows = {name: following(name) for name in ("M", "x", "y")}
    middle = torch.stack([*rows.values()]).median(dim=0).values
    want = torch.log_softmax(middle, dim=-1)
    torch.testing.assert_close(following("median(M, x, y)"), want, atol=1e-4, rtol=0)
    limited = rows["M"] + (rows["x"] - rows["M"]).clamp(max=0.1)
    want = torch.log_softmax(limited, dim=-1)
    torch.testing.assert_close(following("M + capped(x - M, 0.1)"), want, atol=1e-4, rtol=0)
