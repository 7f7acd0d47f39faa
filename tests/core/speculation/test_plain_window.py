"""Without drafts the plain window composes what the draft window would, one position a round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from marith.formula.meaning.binding import BARE, resolve
from marith.formula.text.trust import parse
from marith.request.plan import Plan
from marith.speculation.execution_plan import ExecutionPlan
from marith.speculation.verify import Verdict
from marith.speculation.window import DraftWindow, PlainWindow
from marith.tensor_rows import gather, rows_of

NAMES = resolve({"a": "be kind", "b": "be brief"})
VOCAB = 4


def plan_of(text: str, speculation: Any = None, alternative: bool = False) -> ExecutionPlan:
    return ExecutionPlan.of(parse(text), NAMES, speculation, NAMES[BARE] if alternative else None)


@pytest.mark.parametrize(
    ("text", "speculation", "is_plain"),
    [
        ("M - 0.3*a", None, True),
        ("supersede(a, M - 0.3*b)", None, True),
        ("supersede(a, M - 0.3*b)", Plan(), False),
        ("M - 0.3*a", Plan.factors({"a": 2}), False),
        ("M - 0.3*a", "auto", False),
    ],
)
def test_only_what_drafts_needs_the_draft_window(
    text: str, speculation: Any, is_plain: bool
) -> None:
    assert plan_of(text, speculation).is_plain is is_plain


def steered(tokens: Sequence[int]) -> bool:
    """Whether the formula is composed after these tokens."""
    return len(tokens) % 2 == 0


@pytest.mark.parametrize("alternative", [False, True])
def test_both_windows_compose_the_same(alternative: bool) -> None:
    plan = plan_of("M - 0.3*a + 0.5*b", alternative=alternative)
    windows = PlainWindow(plan, steered), DraftWindow(plan, 8, (), {}, steered)
    text = [3, 1, 2, 0]
    for place, token in enumerate(text):
        answers = {term: rows_of(torch.randn(1, VOCAB)) for term in plan.terms}
        composed = []
        for window in windows:
            read, counts = window.wanted()
            assert list(read) == text[:place]
            assert counts == dict.fromkeys(plan.terms, 1)
            window.receive(answers)
            [block] = window.blocks()
            composed.append((block.formula, {t: gather(r).tolist() for t, r in block.rows.items()}))
            assert window.places == [window.final]
            assert window.standing() == [None]
            target = rows_of(torch.zeros(1, VOCAB))
            assert window.accept(Verdict([token], [0.0], target)) == [token]
        assert composed[0] == composed[1]
    for window in windows:
        window.rewind(1)
        assert window.tokens == [3]
