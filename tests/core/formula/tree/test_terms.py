"""Terms refuse invalid values, with the value in the sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from support.strategies import options

from marith.errors import FormulaError
from marith.formula.text.parsing import parse_text
from marith.formula.tree.nodes import Name
from marith.formula.tree.terms import Classifier, NGram, Prompted

BAD: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (Prompted, {"system": 5}, "not 5"),
    (Prompted, {"mode": "between"}, "not 'between'"),
    (Prompted, {"template": "html"}, "not 'html'"),
    (Prompted, {"hide": "("}, r"hide='\(' is not a regular expression"),
    (Prompted, {"model": 7}, "not 7"),
    (Prompted, {"adapter": 7}, "an adapter is a text, not 7"),
    (Prompted, {"options": "ab"}, "'ab'"),
    (Prompted, {"options": {"a": [1]}}, r"\[1\]"),
    (Prompted, {"options": {1: "a"}}, "not 1"),
    (Prompted, {"options": (("a", 1), ("a", 2))}, "a"),
    (Prompted, {"options": {"a": float("inf")}}, "a"),
    (Classifier, {"model": 5}, "not 5"),
    (Classifier, {"model": "x", "label": True}, "not True"),
    (Classifier, {"model": "x", "candidates": 0}, "not 0"),
    (Classifier, {"model": "x", "guide": "M"}, "not 'M'"),
    (NGram, {}, "either a path or texts"),
    (NGram, {"path": "p", "texts": ("t",)}, "either a path or texts"),
    (NGram, {"texts": "a text"}, "'a text'"),
    (NGram, {"texts": [5]}, "not 5"),
    (NGram, {"path": "p", "order": 33}, "at most 32, not 33"),
    (NGram, {"path": "p", "online": 1}, "not 1"),
    (NGram, {"path": "p", "texts": ("t",), "online": True}, "either a path or texts.*'p'"),
]


@pytest.mark.parametrize(("kind", "given_", "says"), BAD, ids=range(len(BAD)))
def test_a_bad_field_is_refused_with_its_value(
    kind: Callable[..., Any], given_: dict[str, Any], says: str
) -> None:
    with pytest.raises(FormulaError, match=says):
        kind(**given_)


@given(options)
def test_options_are_the_same_in_any_order(chosen: Any) -> None:
    backwards: Any = dict(reversed(chosen.items()))
    first, second = Prompted(options=chosen), Prompted(options=backwards)
    assert first == second
    assert hash(first) == hash(second)
    assert dict(first.options) == chosen


def test_a_classifier_is_told_apart_by_its_guide() -> None:
    assert Classifier("x", guide=Name("a")) != Classifier("x", guide=Name("b"))


def test_options_that_a_template_tells_apart_make_other_terms() -> None:
    """`enable_thinking is false` is a test of what it is, and not of how much."""
    values: list[Any] = [1, True, 1.0, 0, False, None]
    terms = [Prompted(options={"n": value}) for value in values]
    assert len({*terms}) == len(terms)
    assert all(parse_text(str(term)) == term for term in terms)


@pytest.mark.parametrize("option", ["chat_template", "truncation", "return_dict", "tokenize"])
def test_an_option_that_is_the_engines_own_is_refused_when_the_term_is_made(option: str) -> None:
    with pytest.raises(FormulaError, match=f"the template option '{option}' is set by the engine"):
        Prompted(options={option: "x"})
    with pytest.raises(FormulaError, match=r"set by the engine(.|\n)*\^"):
        parse_text(f'M + prompted(options={{"{option}": "x"}})')
