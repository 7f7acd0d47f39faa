"""How errors quote a value: briefly, whatever it is, and a formula as it is written."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from marith import Options
from marith.errors import FormulaError, MarithError, RequestError, from_validation, shown
from marith.formula.tree.nodes import Name
from marith.formula.tree.signals import entropy

M, a = Name("M"), Name("a")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (M - 0.5 * a, "M - 0.5*a"),
        (entropy(M) > 2, "entropy(M) > 2"),
        ("a text", "'a text'"),
        (10**5000, "a number of 16610 bits"),
        ([1] * 9, "[1, 1, 1, 1, 1, 1, 1, 1, ...]"),
    ],
    ids=["a formula", "a condition", "a text", "a large number", "a long list"],
)
def test_a_value_is_quoted_as_one_writes_it(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"formula": "M - 2*M"}, FormulaError, "more than zero"),
        ({"temperature": -1}, RequestError, "temperature is a number from 0, not -1"),
        ({"model": 5}, RequestError, "model: Input should be .*, not 5"),
        ({"stop": ["a", ""]}, RequestError, "a stop string has at least one letter: ''"),
    ],
)
def test_what_pydantic_refuses_is_an_error_of_ours(
    options: dict[str, object], kind: type[MarithError], text: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        Options(**options)  # type: ignore[arg-type]
    error = from_validation(refused.value)
    assert type(error) is kind
    with pytest.raises(kind, match=text):
        raise error
