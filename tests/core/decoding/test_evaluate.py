"""What a formula means, compared with the paper's equations."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from support.distributions import close
from support.strategies import logprobs, speakers, spoken, weighty
from torch import Tensor

from marith.decoding import evaluate as evaluation
from marith.decoding.evaluate import Evaluation, Value, candidates_of, evaluate, node_value
from marith.errors import FormulaError
from marith.formula.meaning.weights import weight_of
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import intersection, relu, supersede, union, unscaled, where
from marith.formula.tree.signals import indicator, jsd, max_prob
from marith.formula.tree.terms import Classifier, Term

a, b, c = TERMS = speakers(3)
JUDGE = Classifier("judge")
worlds = spoken(TERMS)


@given(weighty(TERMS), spoken(TERMS, holes=True))
def test_the_result_is_a_distribution_without_nan(f: Formula, world: Mapping[Term, Tensor]) -> None:
    result = evaluate(f, world)
    assert result.dtype == torch.float32
    assert result.shape == (2, 9)
    assert not bool(result.isnan().any())
    torch.testing.assert_close(result.exp().sum(dim=-1), torch.ones(2))


@given(weighty(TERMS), spoken(TERMS, holes=True), st.floats(0.01, 100))
def test_scaling_a_whole_formula_changes_nothing(
    f: Formula, world: Mapping[Term, Tensor], factor: float
) -> None:
    close(evaluate(factor * f, world), evaluate(f, world))


@given(weighty(TERMS), weighty(TERMS), spoken(TERMS, holes=True))
def test_union_and_intersection_with_itself_and_in_any_order(
    f: Formula, g: Formula, world: Mapping[Term, Tensor]
) -> None:
    close(evaluate(union(f, f), world), evaluate(f, world))
    close(evaluate(intersection(f, f), world), evaluate(f, world))
    close(evaluate(union(f, g), world), evaluate(union(g, f), world))
    close(evaluate(intersection(f, g), world), evaluate(intersection(g, f), world))


@given(weighty(TERMS), weighty(TERMS), spoken(TERMS, holes=True))
def test_supersede_equals_its_second_argument(
    f: Formula, g: Formula, world: Mapping[Term, Tensor]
) -> None:
    close(evaluate(supersede(f, g), world), evaluate(g, world))
    close(evaluate(supersede(f, g) + 2 * f, world), evaluate(g + 2 * f, world))


@given(weighty(TERMS), spoken(TERMS, positions=4, holes=True))
def test_many_positions_together_equal_each_position_alone(
    f: Formula, world: Mapping[Term, Tensor]
) -> None:
    together = evaluate(f, world)
    for i in range(4):
        alone = evaluate(f, {term: rows[i : i + 1] for term, rows in world.items()})
        close(together[i : i + 1], alone, 1e-6)


@given(weighty(TERMS), weighty(TERMS), spoken(TERMS, holes=True))
def test_a_member_with_factor_zero_changes_nothing(
    f: Formula, g: Formula, world: Mapping[Term, Tensor]
) -> None:
    close(evaluate(f + 0 * g, world), evaluate(f, world))
    close(evaluate(0 * g + f, world), evaluate(f, world))


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(P ‖ Q) in nats, for P [count, vocab] and log Q [vocab]."""
    return (p * (p.clamp_min(1e-300).log() - q)).sum(dim=-1)


@given(worlds, st.lists(st.floats(-2, 3), min_size=3, max_size=3), st.integers(0, 2**31))
def test_theorem_1_the_composed_distribution_minimises_the_weighted_divergences(
    world: Mapping[Term, Tensor], factors: list[float], seed: int
) -> None:
    assume(sum(factors) > 0.2)
    formula = factors[0] * a + factors[1] * b + factors[2] * c
    best = evaluate(formula, world)[0].double().exp()[None]
    source = torch.Generator().manual_seed(seed)
    far = torch.softmax(torch.randn(60, 9, generator=source, dtype=torch.float64) * 3, dim=-1)
    others = torch.cat([far, 0.98 * best + 0.02 * far])

    def objective(p: Tensor) -> Tensor:
        parts = [
            f * divergence(p, world[t][0].double()) for f, t in zip(factors, TERMS, strict=True)
        ]
        return torch.stack(parts).sum(dim=0)

    assert bool((objective(others) >= objective(best) - 1e-4).all())


@given(worlds)
def test_union_is_the_maximum_and_intersection_the_minimum(world: Mapping[Term, Tensor]) -> None:
    p, q = world[a].exp(), world[b].exp()
    for f, raw in ((union(a, b), torch.maximum(p, q)), (intersection(a, b), torch.minimum(p, q))):
        torch.testing.assert_close(evaluate(f, world).exp(), raw / raw.sum(-1, keepdim=True))
    third = torch.maximum(torch.maximum(p, q), world[c].exp())
    result = evaluate(union(a, b, c), world).exp()
    torch.testing.assert_close(result, third / third.sum(-1, keepdim=True))


@given(worlds, st.floats(0.1, 3.0))
def test_members_of_a_union_are_normalised_first(
    world: Mapping[Term, Tensor], factor: float
) -> None:
    close(evaluate(union(factor * a, b), world), evaluate(union(a, b), world))
    close(evaluate(union(a + b, c), world), evaluate(union(0.5 * a + 0.5 * b, c), world))


@given(worlds, logprobs(2, 9), st.floats(-3, 3), st.floats(0.2, 3))
def test_a_classifier_adds_to_the_score_and_not_to_the_weight(
    world: Mapping[Term, Tensor], ratios: Tensor, factor: float, base: float
) -> None:
    result = evaluate(base * a + factor * JUDGE, {**world, JUDGE: ratios})
    expected = torch.log_softmax(world[a] + (factor / base) * ratios, dim=-1)
    close(result, expected, 1e-4)
    assert weight_of(base * a + factor * JUDGE) == pytest.approx(base)


@given(worlds)
def test_unscaled_does_not_divide_by_the_weight(world: Mapping[Term, Tensor]) -> None:
    raw = world[a] - world[b]
    close(evaluate(unscaled(a - b), world), torch.log_softmax(raw, dim=-1))
    close(evaluate(unscaled(2 * a + b), world), (2 * world[a] + world[b]).log_softmax(-1))
    close(evaluate(c + unscaled(a - b), world), ((world[c] + raw) / 2).log_softmax(-1))


@given(spoken(TERMS, holes=True), st.integers(1, 8))
def test_a_cut_forbids_the_tokens_outside_it(world: Mapping[Term, Tensor], k: int) -> None:
    best = set(world[a][0].topk(k).indices.tolist())
    possible = world[a][0] > -torch.inf
    result = evaluate(a.top_k(k), world)[0]
    for token in range(9):
        assert (result[token] > -torch.inf) == (token in best and bool(possible[token]))
    inside = result.exp()[sorted(best)]
    expected = world[a][0].exp()[sorted(best)]
    torch.testing.assert_close(inside, expected / expected.sum())


@given(worlds)
def test_a_cut_in_a_sum_forbids_tokens_for_the_whole_sum(world: Mapping[Term, Tensor]) -> None:
    full, cut = evaluate(a - 0.5 * b, world), evaluate(a.min_p(0.5) - 0.5 * b, world)
    allowed = world[a] >= world[a].amax(-1, keepdim=True) + torch.tensor(0.5).log()
    close(cut, full.masked_fill(~allowed, -torch.inf).log_softmax(-1))


@given(spoken(TERMS, holes=True))
def test_a_union_allows_the_tokens_that_one_member_allows(world: Mapping[Term, Tensor]) -> None:
    result = evaluate(union(a, b), world) > -torch.inf
    assert bool(result.eq((world[a] > -torch.inf) | (world[b] > -torch.inf)).all())
    result = evaluate(intersection(a, b), world) > -torch.inf
    assert bool(result.eq((world[a] > -torch.inf) & (world[b] > -torch.inf)).all())
    result = evaluate(a + 2 * b, world) > -torch.inf
    assert bool(result.eq((world[a] > -torch.inf) & (world[b] > -torch.inf)).all())


def test_terms_that_allow_no_token_in_common_are_an_error() -> None:
    left = torch.tensor([[0.5, 0.5], [1.0, 0.0]]).log()
    right = torch.tensor([[0.5, 0.5], [0.0, 1.0]]).log()
    for f in (a + b, a - 0.5 * b, intersection(a, b), unscaled(a - b), a.top_k(1) + b.top_k(1)):
        with pytest.raises(FormulaError, match="no token is allowed"):
            evaluate(f, {a: left, b: right})
    assert not bool(evaluate(union(a, b), {a: left, b: right}).isnan().any())


def test_minus_infinity_subtracted_makes_no_nan() -> None:
    hole = torch.tensor([[0.0, 0.4, 0.6]]).log()
    full = torch.tensor([[0.2, 0.3, 0.5]]).log()
    for f in (a - 0.5 * b, a - 0.5 * a, a + 0 * b, a - 0.9 * union(a, b), b - 0.5 * a):
        assert not bool(evaluate(f, {a: full, b: hole}).isnan().any())
        assert not bool(evaluate(f, {a: hole, b: full}).isnan().any())


@given(worlds, st.integers(1, 20))
def test_the_likeliest_are_those_of_the_formula(world: Mapping[Term, Tensor], count: int) -> None:
    found = candidates_of(a - 0.3 * b, world, count)
    assert found == evaluate(a - 0.3 * b, world).topk(min(count, 9)).indices.tolist()


@pytest.mark.parametrize("factor", [1e31, 1e38, 1e300])
def test_factors_that_float32_cannot_carry_are_refused(factor: float) -> None:
    with pytest.raises(FormulaError, match="1e30"):
        factor * a


@pytest.mark.parametrize("factor", [1e-5, 1e5, 1e30])
def test_very_large_and_small_factors_change_nothing(factor: float) -> None:
    rows = torch.log_softmax(torch.tensor([[3.0, 1.0, -2.0, -9.0]]), dim=-1)
    close(evaluate(factor * a, {a: rows}), rows)


FACTORED = {
    "terms": a - 0.5 * b,
    "factor": a + jsd(a, b) * (a - b),
    "gate": where(max_prob(a) > 0.5, union(a, b), b),
    "difference": a - 2 * relu(indicator(b - a) * (b - a)),
}


@pytest.mark.parametrize("formula", FACTORED.values(), ids=FACTORED)
def test_tensors_of_an_evaluation_are_freed_without_the_garbage_collector(formula: Formula) -> None:
    """No circle of references, which only the garbage collector would find."""
    gc.collect()
    gc.disable()
    try:
        world = {term: torch.log_softmax(torch.randn(2, 9), dim=-1) for term in TERMS}
        kept = [weakref.ref(world[term]) for term in TERMS]
        result = evaluate(formula, {**world})
        world.clear()
        assert result.shape == (2, 9)
        assert not any(one() is not None for one in kept)
    finally:
        gc.enable()


def test_a_part_that_occurs_twice_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    formula: Formula = a
    for _ in range(9):
        formula = union(formula, formula + 0.5 * b)
    assert formula.nodes > 1_000
    counted: list[Formula] = []

    def counting(of: Formula, at: Evaluation) -> Value:
        counted.append(of)
        return node_value(of, at)

    world = {term: torch.log_softmax(torch.randn(2, 9), dim=-1) for term in TERMS}
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "node_value", counting)
        once = evaluate(formula, world)
        assert len(counted) < 50
        patch.setattr(evaluation, "repeated", lambda _: frozenset())
        close(evaluate(formula, world), once)
        assert len(counted) > 1_000
