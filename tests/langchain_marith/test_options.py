"""A model's options: checked when they are said, one by one, and all that an answer hangs on."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.load import dumpd
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError
from speaking_model import FORMULA, TERMS, Make, by_engine

import marith
from langchain_marith import ChatMarith


def test_a_call_may_change_what_is_sampled(make: Make, tiny_dir: str) -> None:
    model = make()
    other = model.invoke("k l", formula="c", terms={"c": "q r"}, max_tokens=24)
    assert other.text == by_engine(tiny_dir, "k l", formula="c", terms={"c": "q r"}).text
    assert other.text != model.invoke("k l").text
    assert other.response_metadata["composition"]["formula"] == "c"
    short = model.invoke("k l", max_tokens=3)
    assert short.response_metadata["finish_reason"] == "length"
    assert (short.usage_metadata or {})["output_tokens"] == 3
    greedy = {model.invoke("k l", temperature=0, seed=seed).text for seed in (1, 2, 3)}
    assert len(greedy) == 1
    assert model.bind(seed=6).invoke("k l").text == make(seed=6).invoke("k l").text


async def test_an_unknown_option_is_refused_wherever_it_is_given(make: Make) -> None:
    with pytest.raises(ValidationError, match="temprature"):
        make(temprature=0)
    model = make()
    with pytest.raises(ValueError, match="ChatMarith takes no option 'temprature'"):
        model.invoke("k", temprature=0)
    with pytest.raises(ValueError, match="no option 'tools'"):
        await model.ainvoke("k", tools=[])
    with pytest.raises(ValueError, match="no option 'n'"):
        list(model.stream("k", n=2))
    with pytest.raises(ValidationError, match="temperature"):
        model.invoke("k", temperature=-1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"formula": "2*a -"}, "formula"),
        ({"formula": "a - nobody"}, "unknown term 'nobody'"),
        ({"formula": "a - 2*b"}, "more than zero"),
        ({"terms": {"a": "b + M", "b": "a + M"}}, "defined by each other"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": [""]}, "stop"),
    ],
)
def test_what_means_nothing_is_refused_before_a_model_loads(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValidationError, match=problem):
        ChatMarith(**{"model": "/nowhere", "formula": FORMULA, "terms": TERMS, **options})


def test_a_formula_is_kept_as_its_text(make: Make) -> None:
    a, b = marith.Prompted("a b c"), marith.Prompted("x y z")
    by_formula = make(formula=2 * a - 0.5 * b, terms={})
    by_term = make(terms={"a": a, "b": b})
    truth = make().invoke("k l").text
    assert by_formula.formula == str(2 * a - 0.5 * b)
    assert by_term.terms == {"a": str(a), "b": str(b)}
    assert by_formula.invoke("k l").text == by_term.invoke("k l").text == truth


def test_two_formulas_never_share_an_answer(make: Make) -> None:
    cache = InMemoryCache()
    one, other = make(cache=cache), make(cache=cache, formula="a")
    first = one.invoke("k l").text
    assert other.invoke("k l").text == make(formula="a").invoke("k l").text != first
    assert one.invoke("k l", temperature=0).text == make(temperature=0).invoke("k l").text
    unseeded = make(cache=cache, seed=None)
    assert unseeded.invoke("k l").text == unseeded.invoke("k l").text


def test_a_model_is_a_plain_value(make: Make) -> None:
    model = make()
    truth = model.invoke("k l").text
    for twin in (
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        model.model_copy(),
        ChatMarith.model_validate_json(model.model_dump_json(exclude_none=True)),
    ):
        assert twin == model
        assert twin.invoke("k l").text == truth
    assert "torch" not in str(dumpd(model))


def test_fields_can_be_configured_without_a_second_engine(make: Make, tiny_dir: str) -> None:
    engine = marith.Engine.shared(tiny_dir)
    model = make().configurable_fields(formula=ConfigurableField(id="formula"))
    told = model.invoke("k l", config={"configurable": {"formula": "b"}})
    assert told.text == make(formula="b").invoke("k l").text
    assert marith.Engine.shared(tiny_dir) is engine
