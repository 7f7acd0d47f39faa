"""How errors quote a value: briefly, whatever it is, and a formula as it is written."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from marith import Options
from marith.errors import (
    FormulaError,
    MarithError,
    RequestError,
    from_validation,
    shown,
    similar,
    suggestion,
)
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
        ({"temperature": -1}, RequestError, "temperature must be a number of at least 0, not -1"),
        ({"model": 5}, RequestError, "model: Input should be .*, not 5"),
        ({"stop": ["a", ""]}, RequestError, "each item of stop must be a non-empty text, not ''"),
    ],
)
def test_an_error_of_pydantic_becomes_an_error_of_marith(
    options: dict[str, object], kind: type[MarithError], text: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        Options(**options)  # type: ignore[arg-type]
    error = from_validation(refused.value)
    assert type(error) is kind
    with pytest.raises(kind, match=text):
        raise error


CALLED = ["union", "uniform", "unscaled", "cfg", "M"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("uniom", "union"),
        ("UNION", "union"),
        ("m", "M"),
        ("unif", "uniform"),
        ("unio", "union"),
        ("print", None),
        ("", None),
        (5, None),
    ],
)
def test_a_mistyped_name_resembles_one_of_like_length(name: object, meant: str | None) -> None:
    assert similar(name, CALLED) == meant


@pytest.mark.parametrize("meant", [name for name in Options.model_fields if len(name) > 5])
def test_two_letters_that_changed_places_are_recognized(meant: str) -> None:
    swapped = {meant[:i] + meant[i + 1] + meant[i] + meant[i + 2 :] for i in range(len(meant) - 1)}
    for typed in swapped - {meant}:
        assert similar(typed, Options.model_fields) == meant


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("temp", "temperature"),
        ("tempe", "temperature"),
        ("repet", "repetition_penalty"),
        ("max_tok", "max_tokens"),
        ("faith", "faithful"),
        ("lenght", None),
        ("max", None),
    ],
)
def test_the_longest_common_beginning_decides_among_similar_names(
    typed: str, meant: str | None
) -> None:
    assert similar(typed, Options.model_fields) == meant


def test_a_name_that_resembles_none_is_followed_by_what_there_is() -> None:
    assert suggestion("uniom", CALLED) == "; did you mean 'union'?"
    assert suggestion("print", CALLED) == ""
    assert suggestion("print", CALLED, "; there are two") == "; there are two"
