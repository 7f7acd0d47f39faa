"""Options: plain data in several forms, defaults of the environment, and short refusals."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError
from support.error_sentences import refusal
from support.strategies import NAMES, formulas

from marith import Classifier, Formula, Options, Plan, Prompted, RequestError
from marith.formula.meaning.binding import resolve
from marith.formula.text.term_data import as_data, read_terms
from marith.formula.text.trust import parse
from marith.request.forms.tools import Tools

PLAN = Plan((("formal", 4),), ("ngram(order=4, online=True)",), 6)
TWO = {"formula": "M + formal", "terms": {"formal": "Write formally."}}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def test_a_plan_may_be_given_as_its_json_or_as_a_mapping() -> None:
    whole = Options(**TWO, speculation=PLAN)
    plain = json.loads(PLAN.to_json())
    for spoken in (PLAN.to_json(), plain, whole.chosen()["speculation"]):
        assert Options(**TWO, speculation=spoken) == whole
    assert whole.request("hi").speculation == PLAN


def test_options_with_a_plan_are_a_plain_value() -> None:
    whole = Options(**TWO, speculation=PLAN, chat_template_kwargs={"budget": 3, "deep": [None]})
    assert Options.model_validate_json(whole.model_dump_json()) == whole
    assert Options(**json.loads(json.dumps(whole.chosen()))) == whole
    assert pickle.loads(pickle.dumps(whole)) == whole.overridden({}) == whole
    assert whole.overridden({"speculation": None}).speculation is None
    told = {Options(**TWO, speculation=one).speculation for one in ("auto", None, "none")}
    assert told == {"auto", None}


@pytest.mark.parametrize(
    ("speculation", "problem"),
    [
        ("car", "speculation must be 'auto', None, 'none' or a Plan, not 'car'"),
        ("{", "invalid plan"),
        ({"every": [["formal", 99]]}, "from 1 to 16, not 99"),
        (Plan.factors({"nobody": 3}), "unknown term 'nobody'"),
        (Plan.factors({"M": 3, "formal": 3}), "one term must be evaluated at every token"),
    ],
)
def test_a_plan_of_another_formula_is_refused(speculation: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem) as refused:
        Options(**TWO, model="/nowhere", speculation=speculation)
    assert len(refused.value.errors()) == 1


@given(formulas())
def test_a_term_as_data_means_the_same_as_the_formula(formula: Formula) -> None:
    known = {name: f"You are {name}." for name in NAMES if name != "M"}
    whole = Options(terms={**known, "x": formula})
    assert whole.terms == {**known, "x": as_data(formula)}
    assert resolve(whole.terms) == resolve({**known, "x": formula})


def test_a_term_may_be_a_table_as_in_a_file() -> None:
    whole = Options(
        formula="M + a + b",
        terms={
            "a": {"system": "Be brief.", "hide": "<x>", "options": {"thinking": False}},
            "b": {"classifier": "pocket-toxicity", "label": "civil", "guide": "M"},
        },
    )
    a = Prompted("Be brief.", hide="<x>", options=(("thinking", False),))
    b = Classifier("pocket-toxicity", "civil")
    assert whole.terms["a"] == {"formula": str(a)}
    assert whole.terms["b"] == {"formula": str(b).replace(")", ", guide=M)")}
    assert Options(**whole.values()) == whole


@pytest.mark.parametrize("more", [{}, {"model": "detox"}, {"file": None}])
def test_a_file_is_not_given_for_a_call(more: dict[str, Any]) -> None:
    said = {"file": "marith.toml", **more}
    problem = f"a file is read when options are made, and not given for a call: {said['file']!r}"
    with pytest.raises(RequestError) as refused:
        Options(**TWO, temperature=0.3).overridden(said)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("name", "value", "other"),
    [
        ("model", "dir", "dir2"),
        ("formula", "2*M", "3*M"),
        ("device", "cpu", "cuda"),
        ("dtype", "float32", "bfloat16"),
    ],
)
def test_the_environment_sets_options_that_are_not_given(
    name: str, value: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = getattr(Options(), name)
    monkeypatch.setenv(f"MARITH_{name.upper()}", value)
    assert getattr(Options(), name) == value
    assert getattr(Options(**{name: other}), name) == other
    monkeypatch.setenv(f"MARITH_{name.upper()}", "")
    assert getattr(Options(), name) == usual


def test_a_formula_of_the_environment_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARITH_FORMULA", "M - nobody")
    with pytest.raises(ValidationError, match="unknown term 'nobody'"):
        Options()


@pytest.mark.parametrize(
    "options",
    [
        {"speculation": Plan.factors({"zzz": 4})},
        {"terms": {"b": {"formula": "a2"}}},
        {"faithful": 1, "faithful_to": "("},
    ],
)
def test_the_environment_is_not_blamed_for_other_options(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARITH_FORMULA", "M")
    assert "MARITH_FORMULA" not in refusal(lambda: Options(**options))
    monkeypatch.setenv("MARITH_FORMULA", "M - nobody")
    assert "MARITH_FORMULA: unknown term 'nobody'" in refusal(Options)


def test_a_request_has_the_values_of_all_options() -> None:
    tools = Tools([TOOL])
    options = Options(**TWO, chat_template_kwargs={"thinking": False}, timeout=9, max_tokens=7)
    options = options.overridden({"ban": ["rude", "words"], "cache_salt": "a"})
    request = options.request("hi", tools=tools, logprobs=2)
    assert request.ban is not None
    assert request.ban.words == ("rude", "words")
    assert Options().request("hi").ban is None
    assert (request.formula, request.timeout) == (parse(TWO["formula"]), 9)
    assert request.terms == {"formal": Prompted(TWO["terms"]["formal"])}
    assert (request.stop.max_tokens, request.logprobs, request.cache_salt) == (7, 2, "a")
    assert request.template_options == {"thinking": False}
    assert request.tools == tools
    bare = options.overridden({"steer_tools": False}).request("hi", tools=tools)
    assert bare.tools == replace(tools, steer=False)
    assert options.overridden({"steer_tools": False}).request("hi").tools is None
    with pytest.raises(RequestError, match="-1"):
        options.request("hi", logprobs=-1)


@pytest.mark.parametrize("length", [None, 64])
def test_the_context_that_is_known_is_that_of_the_engine(tiny_dir: str, length: int | None) -> None:
    options = Options(model=tiny_dir, context_length=length)
    with options.engine() as engine:
        assert options.known_context() == engine.context_length == (length or 1024)


def test_nothing_is_known_of_a_model_that_is_not_here() -> None:
    assert Options(model="/nowhere").known_context() is None
    assert Options(model="/nowhere", context_length=64).known_context() == 64


def test_options_need_no_torch() -> None:
    code = (
        "import sys, marith\n"
        "options = marith.Options(formula='M - 0.5*a', terms={'a': 'A.'}).overridden({'seed': 1})\n"
        "assert options.known_context() == 1024\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_terms_are_checked_once_when_options_are_made() -> None:
    """Of many terms a request costs what it uses, and a call's options are not checked anew."""
    terms: dict[str, Any] = {
        f"t{i}": {"formula": f"M - 0.5*t{i - 1}"} if i % 10 else "Be kind." for i in range(1_000)
    }
    options = Options(formula="M + t0", terms=terms, faithful=0.5, faithful_to="<.*>")
    start = time.process_time()
    for seed in range(5):
        assert options.overridden({"seed": seed}).request("<a> b").terms == read_terms(terms)
        assert options.known_context(256) == 256
    assert time.process_time() - start < 1
    with pytest.raises(ValidationError, match="in term 'bad': unknown term 'nobody'"):
        options.overridden({"terms": {"bad": {"formula": "M - nobody"}}})


@pytest.mark.parametrize("trusted", [True, False])
def test_the_terms_of_a_call_are_added_to_those_of_the_model(trusted: bool) -> None:
    model = Options(terms={"a": "Be kind.", "b": {"formula": "a"}}, formula="a", trusted=trusted)
    call = model.overridden({"terms": {"c": "Be brief."}})
    assert call.terms == {**model.terms, "c": "Be brief."}
    assert Options(terms={"a": "x"}, formula="a").overridden({"terms": {"a": "y"}}).terms == {
        "a": "y"
    }
