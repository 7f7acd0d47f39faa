"""Figures by prefix length: each is what its definition says."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from marith.training.report import Line, auc, cells, figures, lengths

scored = st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=2, max_size=30)


@given(scored)
def test_auc_is_how_often_one_of_the_class_scores_above_one_of_another(
    told: list[tuple[int, bool]],
) -> None:
    ours = [score for score, positive in told if positive]
    others = [score for score, positive in told if not positive]
    assume(ours and others)
    wins = sum((a > b) + 0.5 * (a == b) for a in ours for b in others)
    found = auc(torch.tensor([s for s, _ in told]), torch.tensor([p for _, p in told]))
    assert found == pytest.approx(wins / (len(ours) * len(others)))


@given(
    st.lists(st.tuples(st.lists(st.floats(-9, 9), min_size=3, max_size=3), st.integers(0, 2)),
             min_size=3, max_size=20),
    st.booleans(),
)  # fmt: skip
def test_balanced_figures_count_classes_alike_and_others_texts_alike(
    told: list[tuple[list[float], int]], balance: bool
) -> None:
    right = [one for _, one in told]
    assume(set(right) == {0, 1, 2})
    logprobs = torch.log_softmax(torch.tensor([logits for logits, _ in told]), dim=1)
    line = figures(logprobs, torch.tensor(right), balance, 4, 1)
    hits = [float(row.argmax() == one) for row, one in zip(logprobs, right, strict=True)]
    losses = [-float(row[one]) for row, one in zip(logprobs, right, strict=True)]

    def mean(values: list[float]) -> float:
        if not balance:
            return sum(values) / len(values)
        own = [[v for v, one in zip(values, right, strict=True) if one == i] for i in range(3)]
        return sum(sum(group) / len(group) for group in own) / 3

    assert line.accuracy == pytest.approx(mean(hits))
    assert line.log_loss == pytest.approx(mean(losses), rel=1e-5, abs=1e-6)
    assert (line.tokens, line.longer) == (4, 1)


@given(st.lists(st.integers(1, 70), min_size=1, max_size=9))
def test_lengths_double_as_long_as_a_text_has_more_and_end_with_the_whole(sizes: list[int]) -> None:
    *cut, whole = lengths([[0] * size for size in sizes])
    assert whole is None
    assert cut == [2**i for i in range(len(cut))]
    assert 2 ** len(cut) >= max(sizes) > (2 ** (len(cut) - 1) if cut else 0)


def test_a_line_of_the_report_is_readable() -> None:
    lines = (Line(1, 0.5, 0.25, math.log(2), 3), Line(None, 1.0, 1.0, 0.0, 0))
    assert [*map(cells, lines)] == [
        ("1", "0.500", "0.250", "0.693", "3"),
        ("whole", "1.000", "1.000", "0.000", "0"),
    ]
