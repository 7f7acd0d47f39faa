"""How errors quote a value: briefly, whatever it is, and a formula as it is written."""

from __future__ import annotations

import pytest

from marith.errors import shown
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
