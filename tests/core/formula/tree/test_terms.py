"""Terms refuse invalid values, with the value in the sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.strategies import options, vectors

from marith.errors import FormulaError, UnknownOption
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
    (
        Prompted,
        {"vectors": "a.gguf"},
        r"""files to strengths, such as {"happy.gguf": 1.2}, not 'a""",
    ),
    (Prompted, {"vectors": ["ab"]}, r"maps files to strengths, .*, not \['ab'\]"),
    (Prompted, {"vectors": None}, "maps files to strengths, .*, not None"),
    (Prompted, {"vectors": {}}, "vectors names no file; leave vectors out"),
    (Prompted, {"vectors": {5: 1}}, "a vector is named by its file, not by 5"),
    (Prompted, {"vectors": {"": 1}}, "a vector is named by its file, not by ''"),
    (Prompted, {"vectors": (("a", 1), ("a", 2))}, "'a' is named twice; name it once, with the sum"),
    (Prompted, {"vectors": {"a": "1"}}, "the strength of the vector 'a' is a number, not '1'$"),
    (Prompted, {"vectors": {"a": True}}, "the vector 'a' is a number, not True"),
    (Prompted, {"vectors": {"a": Name("x")}}, "the vector 'a' is a number, not x"),
    (Prompted, {"vectors": {"a": float("nan")}}, "vector 'a' is a finite number .*, not nan"),
    (Prompted, {"vectors": {"a": 10**400}}, "vector 'a' is a finite number .*, not inf"),
    (
        Prompted,
        {"vectors": {"happy": {"gguf": 1.2}}},
        "'happy' is a number, not {'gguf': 1.2}; write the whole name of the file in quotes",
    ),
    (Prompted, {"vectors": {"a": 1}, "positions": "last"}, "one of all, answer, not 'last'"),
    (
        Prompted,
        {"positions": "answer"},
        "positions='answer' is only for a term with vectors; write vectors={…} too, or leave",
    ),
    (Prompted, {"mode": "only"}, "one of append, prepend, replace, whole, not 'only'"),
    (Prompted, {"mode": "whole", "hide": "a"}, "reads no message, so hide='a' has no effect; lea"),
    (Prompted, {"mode": "whole", "template": "plain"}, "template='plain' has no effect; leave tem"),
    (Prompted, {"mode": "whole", "options": {"a": 1}}, "options={'a': 1} has no effect"),
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


@given(vectors)
def test_vectors_are_kept_in_their_order_as_numbers(chosen: Any) -> None:
    mapped, paired = Prompted(vectors=chosen), Prompted(vectors=tuple(chosen.items()))
    assert mapped == paired
    assert hash(mapped) == hash(paired)
    assert mapped.vectors == (*chosen.items(),)
    assert {type(strength) for _, strength in mapped.vectors} <= {float}


def test_a_strength_has_either_sign_and_may_be_zero_and_of_any_size() -> None:
    strengths: Any = {"a": -2, "b": 0, "c": -0.0, "d": 1e9, "e": np.float32(0.5)}
    assert str(Prompted(vectors=strengths)) == (
        'prompted(vectors={"a": -2.0, "b": 0.0, "c": 0.0, "d": 1000000000.0, "e": 0.5})'
    )


def test_a_vector_may_be_named_by_a_path() -> None:
    named: Any = {Path("a/b.gguf"): 1}
    assert Prompted(vectors=named).vectors == (("a/b.gguf", 1.0),)
    with pytest.raises(FormulaError, match=r"'a/b\.gguf' is named twice"):
        Prompted(vectors={**named, "a/b.gguf": 1})


def test_terms_differ_by_their_vectors() -> None:
    made: list[Any] = [(), {"a": 1}, {"a": -1}, {"b": 1}, {"a": 1, "b": 1}]
    terms = {Prompted(vectors=each) for each in made}
    terms.add(Prompted(vectors=made[1], positions="answer"))
    assert len(terms) == len(made) + 1


@pytest.mark.parametrize(
    "name",
    ["vector", "control_vector", "control_vectors", "cvec", "steering", "steering_vector"],
)
def test_other_names_of_vectors_lead_to_vectors(name: str) -> None:
    given_: dict[str, Any] = {name: {"a.gguf": 1}}
    with pytest.raises(UnknownOption, match=f"Prompted takes no '{name}'; write vectors=…"):
        Prompted(**given_)
    with pytest.raises(FormulaError, match=f"takes no '{name}'; write vectors=…"):
        parse_text(f'M + prompted({name}={{"a.gguf": 1}})')


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
