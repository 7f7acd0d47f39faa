"""Functions of the application that change composed rows before a token is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.checked_engine import CheckedEngine, request
from torch import Tensor

from marith import Ban, Plan, Request, RequestError, Sampling
from marith.decoding.row_constraints import CustomConstraint

FORMULAS = ("M", "M + 0.5*x - 0.3*y", "supersede(A, 2*M - x + 0.4*C)", "union(M, x)")
Rows = Callable[[Tensor, list[int], list[int]], Tensor]


def may_follow(text: list[int], width: int) -> Tensor:
    """Tokens whose parity is that of the number of tokens so far, and never the last token."""
    allowed = torch.arange(width) % 2 == len(text) % 2
    allowed[text[-1:]] = False
    return allowed[None]


def alternating(rows: Tensor, text: list[int], places: list[int]) -> Tensor:
    masks = [may_follow(text[:place], rows.shape[-1]) for place in places]
    return rows.masked_fill(~torch.cat(masks), -math.inf)


def shifted(rows: Tensor, text: list[int], places: list[int]) -> Tensor:
    """Prefers the tokens that a text does not have yet; writes into the rows that it gets."""
    for row, place in zip(rows, places, strict=True):
        row[text[:place]] -= 2.0
    return rows + 5.0


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_token_obeys_and_drafts_change_no_text(checked: CheckedEngine, formula: str) -> None:
    i = FORMULAS.index(formula)
    asked = replace(request(checked, formula, i), constraints=[alternating])
    expected = checked.reference.decode(
        asked, allowed=lambda text: may_follow(text, checked.reference.vocabulary.size)
    )
    for how in (None, "auto"):
        out = checked.engine.submit(replace(asked, speculation=how)).result(60)
        assert (out.text, out.tokens, out.finish_reason) == expected
    cold = replace(asked, sampling=Sampling(0.0), constraints=[alternating, shifted])
    texts = [
        checked.engine.submit(replace(cold, speculation=how)).result(60).tokens
        for how in (None, "auto", Plan.factors({"x": 3} if "x" in formula else {}))
    ]
    assert texts[0] == texts[1] == texts[2]
    assert all(token % 2 == place % 2 for place, token in enumerate(texts[0]))


def test_rows_are_normalised_and_follow_their_places(checked: CheckedEngine) -> None:
    seen: list[tuple[int, list[int], float]] = []

    def watching(rows: Tensor, text: list[int], places: list[int]) -> Tensor:
        for row, place in zip(rows, places, strict=True):
            assert place <= len(text)
            seen.append((place, text[:place], float(row.exp().sum())))
        return rows

    asked = replace(request(checked, "M + 0.5*x", 5), constraints=[watching], ban=Ban(("zz",)))
    out = checked.engine.submit(asked).result(60)
    assert all(total == pytest.approx(1, abs=1e-3) for _, _, total in seen)
    assert {place for place, _, _ in seen} >= set(range(len(out.tokens)))


def failing(rows: Tensor, text: list[int], places: list[int]) -> Tensor:
    raise KeyError("no")


WRONG: list[tuple[Any, str]] = [
    (failing, r"the constraint failing failed with KeyError: 'no'"),
    (
        lambda rows, *_: rows[:, :2],
        r"<lambda> must return rows of the shape \[1, \d+\]; it returned \[1, 2\]",
    ),
    (lambda rows, *_: None, "must return rows of the shape .*; it returned None"),
    (lambda rows, *_: rows - math.inf, "a row in which no token is possible, or which has NaN"),
    (lambda rows, *_: rows * math.nan, "a row in which no token is possible, or which has NaN"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_a_constraint_that_fails_ends_only_its_own_request(
    checked: CheckedEngine, wrong: Rows, said: str
) -> None:
    asked = request(checked, "M + 0.5*x", 7)
    other = checked.engine.submit(asked)
    failed = checked.engine.submit(replace(asked, constraints=[wrong], speculation=None))
    with pytest.raises(RequestError, match=said):
        failed.result(60)
    assert other.result(60).tokens == checked.engine.submit(asked).result(60).tokens


@pytest.mark.parametrize("given", ["upper", [1], [alternating, "x"], alternating, 3])
def test_constraints_are_a_list_of_functions(given: Any) -> None:
    with pytest.raises(RequestError, match="constraints must be a list of functions, not "):
        Request("Hi", constraints=given)


def test_constraints_may_be_given_with_untrusted_text(checked: CheckedEngine) -> None:
    out = checked.engine.generate(
        "q w e", "M", seed=1, max_tokens=6, constraints=[alternating], trusted=False
    )
    assert all(token % 2 == place % 2 for place, token in enumerate(out.tokens))


def test_a_row_without_an_allowed_token_is_left_as_it_is() -> None:
    rows = torch.tensor([[math.nan, math.nan], [0.0, -math.inf]])
    changed = CustomConstraint(lambda rows, *_: rows).apply(rows, [], [0, 0])
    torch.testing.assert_close(changed, rows, equal_nan=True)
