"""What each part contributes, beside the equations written out in numpy's float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.typing import NDArray
from support.strategies import speakers, spoken, weighty
from torch import Tensor

from marith.decoding.evaluate import evaluate
from marith.formula.meaning.binding import bind
from marith.formula.meaning.leaves import leaves
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula
from marith.formula.tree.signals import POSITION, judgement_of, likelihood_of
from marith.formula.tree.terms import Classifier, NGram, Prompted, Term
from marith.inspection.contributions import DoubleRows, LogOdds, summands, without_own_part

Row: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = Mapping[str, Row]
Parts: TypeAlias = Mapping[str, Callable[[Rows], Any]]

VOCAB, POSITIONS = 11, 4
JUDGE = Classifier("judge", guide=Prompted("x"))
TERMS: dict[str, Formula] = {
    "M": Prompted(),
    "x": Prompted("x"),
    "y": Prompted("y"),
    "A": NGram(texts=("a",)),
    "C": JUDGE,
}
NAMES = {meaning: name for name, meaning in TERMS.items()}
TOKENS = torch.tensor([[0, 1, 2, 3], [4, 3, 2, 1], [10, 9, 0, 5], [7, 6, 8, 2]])


def _rows() -> dict[Term, Tensor]:
    """Float32 rows of every term, and of what factors observe."""
    noise = torch.Generator().manual_seed(5)

    def random() -> Tensor:
        return torch.randn(POSITIONS, VOCAB, generator=noise)

    rows: dict[Term, Tensor] = {
        term: torch.log_softmax(2 * random(), dim=-1)  # type: ignore[misc]  # all are terms
        for term in TERMS.values()
    }
    rows[JUDGE] = random()
    rows[POSITION] = torch.arange(POSITIONS)[:, None].float()
    rows[judgement_of(JUDGE)] = torch.full((POSITIONS, 1), -0.7)
    for name in "xy":
        rows[likelihood_of(TERMS[name])] = random()[:, :1] - 9
    return rows


ROWS = _rows()


def lsm(scores: Row) -> Row:
    largest = scores.max(axis=-1, keepdims=True)
    return scores - largest - np.log(np.exp(scores - largest).sum(axis=-1, keepdims=True))


def entropy(logprobs: Row) -> Row:
    return -(np.exp(logprobs) * logprobs).sum(axis=-1, keepdims=True)


def max_prob(logprobs: Row) -> Row:
    return np.exp(logprobs).max(axis=-1, keepdims=True)


def jsd(p: Row, q: Row) -> Row:
    middle = np.logaddexp(p, q) - math.log(2)
    nats = [(np.exp(r) * (r - middle)).sum(axis=-1, keepdims=True) for r in (p, q)]
    return sum(nats) / (2 * math.log(2))


def first_two(r: Rows) -> Row:
    return (r["n"] < 2).astype(float)


def gedi(r: Rows) -> Row:
    scores = [(r[f"seen {name}"] + r[name]) / (r["n"] + 1) for name in "xy"]
    return scores[0] - np.logaddexp(*scores)


# Of each formula the weight, and of each part its score.
CASES: list[tuple[str, Callable[[Rows], Any], Parts]] = [
    ("M", lambda r: 1, {"M": lambda r: r["M"]}),
    ("2*x - M", lambda r: 1, {"2*x": lambda r: 2 * r["x"], "-M": lambda r: -r["M"]}),
    ("M - 0.96*union(x, M)", lambda r: 0.04, {
        "M": lambda r: r["M"], "-0.96*union(x, M)": lambda r: -0.96 * np.maximum(r["x"], r["M"])}),
    ("M + intersection(x, y, A)", lambda r: 2, {
        "M": lambda r: r["M"],
        "intersection(x, y, A)": lambda r: np.minimum(np.minimum(r["x"], r["y"]), r["A"])}),
    ("2*(M - 0.25*union(M + x, y)) + 0.5*(x - y)", lambda r: 1.5, {
        "2*M": lambda r: 2 * r["M"],
        "-0.5*union(M + x, y)":
            lambda r: -0.5 * np.maximum(lsm((r["M"] + r["x"]) / 2), r["y"]),
        "0.5*x": lambda r: 0.5 * r["x"], "-0.5*y": lambda r: -0.5 * r["y"]}),
    ("M + 0.5*C", lambda r: 1, {"M": lambda r: r["M"], "0.5*C": lambda r: 0.5 * r["C"]}),
    ("M + unscaled(M + 0.5*x)", lambda r: 2, {
        "2*M": lambda r: 2 * r["M"], "0.5*x": lambda r: 0.5 * r["x"]}),
    ("M + 1.5*(x - M)", lambda r: 1, {
        "-0.5*M": lambda r: -0.5 * r["M"], "1.5*x": lambda r: 1.5 * r["x"]}),
    ("M + 0.7*(x - M)", lambda r: 1, {
        "0.3*M": lambda r: 0.3 * r["M"], "0.7*x": lambda r: 0.7 * r["x"]}),
    ("M + x - M", lambda r: 1, {"0*M": lambda r: 0 * r["M"], "x": lambda r: r["x"]}),
    ("M + union(x, M) - 0.5*union(x, M)", lambda r: 1.5, {
        "M": lambda r: r["M"], "0.5*union(x, M)": lambda r: 0.5 * np.maximum(r["x"], r["M"])}),
    ("M + jsd(M, x)*(x - M)", lambda r: 1, {
        "(1 + -jsd(M, x))*M": lambda r: (1 - jsd(r["M"], r["x"])) * r["M"],
        "jsd(M, x)*x": lambda r: jsd(r["M"], r["x"]) * r["x"]}),
    ("M.temperature(0.5) + x", lambda r: 2, {
        "2*M": lambda r: 2 * r["M"], "x": lambda r: r["x"]}),
    ("(M - 0.5*x).min_p(0.001)", lambda r: 0.5, {
        "M": lambda r: r["M"], "-0.5*x": lambda r: -0.5 * r["x"]}),
    ("M.top_k(9).top_p(0.9999) + x", lambda r: 2, {
        "M": lambda r: r["M"], "x": lambda r: r["x"]}),
    ("supersede(A, 2*M - x)", lambda r: 1, {
        "2*M": lambda r: 2 * r["M"], "-x": lambda r: -r["x"]}),
    ("mixture(0.3, M, 0.7*max_prob(M), x)", lambda r: 1, {
        "mixture(0.3, M, 0.7*max_prob(M), x)": lambda r: lsm(
            np.log(0.3 * np.exp(r["M"]) + 0.7 * max_prob(r["M"]) * np.exp(r["x"])))}),
    ("where(entropy(M) > 1.2, x, y) + M", lambda r: 2, {
        "where(entropy(M) > 1.2, x, y)":
            lambda r: np.where(entropy(r["M"]) > 1.2, r["x"], r["y"]), "M": lambda r: r["M"]}),
    ("M + 0.3*relu(x - y)", lambda r: 1, {
        "M": lambda r: r["M"], "0.3*relu(x - y)": lambda r: 0.3 * np.maximum(r["x"] - r["y"], 0)}),
    ("self_debias(M, x, decay=9)", lambda r: 1, {
        "self_debias(M, x, decay=9)": lambda r: lsm(r["M"] + np.maximum(
            math.log(0.01), -9 * np.maximum(np.exp(r["x"]) - np.exp(r["M"]), 0)))}),
    ("M + 0.8*posterior(x, y)", lambda r: 1, {
        "M": lambda r: r["M"], "0.8*posterior(x, y)": lambda r: 0.8 * gedi(r)}),
    ("M + agreed(x, y, count=9)", lambda r: 1, {
        "M": lambda r: r["M"], "agreed(x, y, count=9)": lambda r: 0 * r["M"]}),
    ("M + jsd(M, x)*x", lambda r: 1 + jsd(r["M"], r["x"]), {
        "M": lambda r: r["M"], "jsd(M, x)*x": lambda r: jsd(r["M"], r["x"]) * r["x"]}),
    ("M + 0.5*indicator(x - M)*x", lambda r: 1 + 0.5 * (r["x"] > r["M"]), {
        "M": lambda r: r["M"],
        "0.5*indicator(x - M)*x": lambda r: 0.5 * (r["x"] > r["M"]) * r["x"]}),
    ("M + sigmoid(entropy(x) - 1)*y", lambda r: 1 + 1 / (1 + np.exp(1 - entropy(r["x"]))), {
        "M": lambda r: r["M"],
        "sigmoid(entropy(x) - 1)*y":
            lambda r: r["y"] / (1 + np.exp(1 - entropy(r["x"])))}),
    ("M + first(2)*decay(3)*x", lambda r: 1 + first_two(r) * 2 ** (-r["n"] / 3), {
        "M": lambda r: r["M"],
        "first(2)*decay(3)*x": lambda r: first_two(r) * 2 ** (-r["n"] / 3) * r["x"]}),
    ("M + maximum(class_prob(C), 0.1*position())*x",
     lambda r: 1 + np.maximum(r["seen C"], 0.1 * r["n"]), {
        "M": lambda r: r["M"], "maximum(class_prob(C), 0.1*position())*x":
            lambda r: np.maximum(r["seen C"], 0.1 * r["n"]) * r["x"]}),
]  # fmt: skip


def as_numpy() -> Rows:
    """All rows in float64, normalised: float32 rounds what a distribution adds up to."""
    rows = {name: ROWS[term].double().numpy() for name, term in TERMS.items()}  # type: ignore[index]
    rows = {name: row if name == "C" else lsm(row) for name, row in rows.items()}
    observed = {f"seen {n}": ROWS[likelihood_of(TERMS[n])].double().numpy() for n in "xy"}
    seen = np.exp(ROWS[judgement_of(JUDGE)].double().numpy())
    return {**rows, **observed, "seen C": seen, "n": ROWS[POSITION].double().numpy()}


def picked(values: Any) -> Row:
    """[positions, tokens], of what is a number, one for a position, or one for each token."""
    whole = np.broadcast_to(np.asarray(values, np.float64), (POSITIONS, VOCAB))
    return np.take_along_axis(whole, TOKENS.numpy(), axis=-1)


def assert_adds_up(formula: Formula, rows: Mapping[Term, Tensor], tokens: Tensor) -> None:
    """The exact parts are together log P(t) − log P(r), wherever both can follow."""
    odds = LogOdds(formula, rows, tokens)
    total = torch.stack([odds.of(summand) for summand in summands(formula)]).sum(dim=0)
    logprobs = evaluate(formula, DoubleRows(rows)).gather(1, tokens)
    possible = (logprobs > -math.inf) & (logprobs[:, :1] > -math.inf)
    expected = logprobs - logprobs[:, :1]
    assert possible.any()
    torch.testing.assert_close(total[possible], expected[possible], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("text", "weight", "parts"), CASES, ids=[case[0] for case in CASES])
def test_each_node_contributes_its_score_over_the_weight(
    text: str, weight: Callable[[Rows], Any], parts: Parts
) -> None:
    formula, rows = bind(parse(text), TERMS), as_numpy()
    odds = LogOdds(formula, ROWS, TOKENS)
    known = summands(formula)
    assert [str(part.shown(NAMES)) for part in known] == list(parts)
    np.testing.assert_allclose(odds.weight.numpy(), picked(weight(rows)), rtol=1e-12)
    for summand, score in zip(known, parts.values(), strict=True):
        share = picked(score(rows) + np.zeros((POSITIONS, VOCAB))) / picked(weight(rows))
        np.testing.assert_allclose(odds.of(summand), share - share[:, :1], rtol=1e-9, atol=1e-7)
    assert_adds_up(formula, ROWS, TOKENS)


@pytest.mark.parametrize(
    ("text", "term", "without"),
    [
        ("M - 0.96*union(x, M)", "x", "M - 0.96*union(M, M)"),
        ("M + intersection(x, y)", "y", "M + intersection(x, M)"),
        ("where(entropy(x) > 1.2, x, y)", "x", "where(entropy(M) > 1.2, M, y)"),
        ("mixture(0.3, M, 0.7, x)", "x", "mixture(0.3, M, 0.7, M)"),
        ("self_debias(M, x)", "x", "self_debias(M, M)"),
        ("M + 0.3*relu(x - y)", "y", "M + 0.3*relu(x - M)"),
        ("M + jsd(M, x)*y", "x", "M + jsd(M, M)*y"),
        ("(M - 0.5*x).top_k(10)", "x", "(M - 0.5*M).top_k(10)"),
        ("M + relu(M + C - y)", "C", "M + relu(M - y)"),
        ("M + relu(C)", "C", "M"),
    ],
)
def test_a_term_that_is_no_summand_is_measured_by_leaving_it_out(
    text: str, term: str, without: str
) -> None:
    formula, other = bind(parse(text), TERMS), bind(parse(without), TERMS)
    meaning = TERMS[term]
    assert isinstance(meaning, Term)
    assert meaning in without_own_part(formula)
    odds = LogOdds(formula, ROWS, TOKENS).leaving_out(meaning, ROWS[Prompted()].double())
    logprobs = evaluate(other, DoubleRows(ROWS)).gather(1, TOKENS)
    torch.testing.assert_close(odds, logprobs - logprobs[:, :1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("2*x - 0.5*M + C", ""),
        ("0*union(x, y) + M", ""),
        ("0.5*(x - y) + unscaled(2*M).temperature(2)", ""),
        ("supersede(union(x, y), M)", ""),
        ("M + class_prob(C)*x", ""),
        ("x + union(M, y)", "My"),
        ("M + margin(x)*y", "x"),
        ("x + (M - 0.1*y).min_p(0.1)", "My"),
        ("M + balance(x, y)*x", "xy"),
    ],
)
def test_terms_that_are_only_summands_are_not_measured_by_leaving_them_out(
    text: str, names: str
) -> None:
    left_out = without_own_part(bind(parse(text), TERMS))
    assert {NAMES[term] for term in left_out} == set(names)


@given(weighty(speakers(3)), spoken(speakers(3), holes=True))
def test_exact_parts_add_up_to_the_composed_log_odds(f: Formula, world: Mapping[Term, Any]) -> None:
    likeliest = evaluate(f, DoubleRows(world)).topk(3).indices
    assert_adds_up(f, {term: world[term] for term in leaves(f)}, likeliest)
