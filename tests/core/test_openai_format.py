"""OpenAI's words: what requests ask for in them, what answers say, and what both adapters read."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import marith
from marith import openai_format
from marith.openai_format import to_choice, to_grammar, to_logprobs, to_tools
from marith.request.completion import StageStats

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
NAMES = st.text("abc_", min_size=1, max_size=5)


class River(BaseModel):
    tidal: bool


def tool(name: str, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **function}}


def listed(tools: Any) -> list[dict[str, Any]]:
    return list(tools)


@given(NAMES)
def test_one_choice_is_written_in_many_ways(name: str) -> None:
    assert to_choice(name) == name
    assert to_choice({"type": "function", "function": {"name": name}}) == name
    assert to_choice({"type": "tool", "name": name}) == name
    for anything in ("any", "required", True, {"type": "any"}):
        assert to_choice(anything) == "required"
    for free in (None, False, "auto", {"type": "auto"}):
        assert to_choice(free) == "auto"
    assert to_choice("none") == to_choice({"type": "none"}) == "none"
    for kind in ("function", "tool"):
        assert to_choice({"type": kind, "name": "any"}) == "any"


@pytest.mark.parametrize("choice", [3, {"type": "function"}, ["auto"], {"name": "x"}])
def test_an_invalid_choice_is_refused_with_what_to_write(choice: Any) -> None:
    message = r"tool_choice must be 'auto'.*in OpenAI's format, not"
    with pytest.raises(marith.RequestError, match=message):
        to_choice(choice)


def test_tools_equal_the_tools_of_the_engine() -> None:
    two = [tool("a"), tool("any")]
    assert to_tools(two, listed) == marith.Tools(tuple(two))
    assert to_tools(two, listed, "a", False, True) == marith.Tools(tuple(two), "a", False, True)
    named = to_tools(two, listed, {"type": "function", "function": {"name": "any"}})
    anyone = to_tools(two, listed, "any")
    assert named is not None
    assert anyone is not None
    assert [each["name"] for each in named.callable] == ["any"]
    assert [each["name"] for each in anyone.callable] == ["a", "any"]


def test_tools_that_are_json_are_defined_once() -> None:
    count = 0

    def define(tools: Any) -> list[dict[str, Any]]:
        nonlocal count
        count += 1
        return [tool(str(name)) for name in tools]

    for _ in range(3):
        to_tools(["a", "b"], define, True)
    assert count == 1
    to_tools(["a", "b"], define, "a")
    assert count == 2
    for _ in range(2):
        to_tools([test_tools_that_are_json_are_defined_once], define)
    assert count == 4


def test_without_tools_there_is_nothing_to_choose() -> None:
    for tools in (None, [], ()):
        for free in (None, False, "auto", "none"):
            assert to_tools(tools, listed, free) is None
        with pytest.raises(marith.RequestError, match="tool_choice is 'any', but there are no"):
            to_tools(tools, listed, "any")
    with pytest.raises(marith.RequestError, match="parallel_tool_calls is True or False"):
        to_tools([tool("a")], listed, parallel=[])  # type: ignore[arg-type]


def test_titles_are_left_out_and_properties_so_named_are_not() -> None:
    schema = {
        "title": "Book",
        "properties": {"title": {"title": "Title", "type": "string"}},
        "anyOf": [{"title": "A", "type": "object"}],
    }
    assert openai_format.without_titles(schema) == {
        "properties": {"title": {"type": "string"}}, "anyOf": [{"type": "object"}],
    }  # fmt: skip


def test_formats_are_what_openai_calls_them() -> None:
    described: dict[str, Any] = {
        "type": "json_schema",
        "json_schema": {"name": "x", "schema": SCHEMA},
    }
    assert to_grammar(None, described) == marith.Grammar.json_schema(SCHEMA, show_as="x")
    described["json_schema"] |= {"strict": False, "show_schema": False}
    assert to_grammar(None, described) == marith.Grammar.json_schema(SCHEMA, strict=False)
    described["json_schema"]["show_schema"] = "no"
    with pytest.raises(marith.RequestError, match="show_schema is True or False, not 'no'"):
        to_grammar(None, described)
    assert to_grammar(None, {"type": "json_object"}) == marith.Grammar.json_object()
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    held = to_grammar(None, {"type": "json_object", "schema": schema})
    assert held == openai_format.schema_grammar(schema, None)
    assert to_grammar(None, {"type": "json_object", "schema": None}) == marith.Grammar.json_object()
    assert to_grammar(None, {"type": "text"}) is None
    schema = openai_format.without_titles(River.model_json_schema())
    assert to_grammar(None, River) == marith.Grammar.json_schema(schema, show_as="River")
    for wrong in ("json", {"type": "xml"}, {"type": "json_schema"}, int):
        with pytest.raises(marith.RequestError, match="a pydantic class"):
            to_grammar(None, wrong)
    with pytest.raises(marith.RequestError, match="not both"):
        to_grammar(marith.Grammar.regex("a"), {"type": "json_object"})
    with pytest.raises(marith.RequestError, match=r"grammar is a marith\.Grammar, .*, not 'a'"):
        to_grammar("a", None)  # type: ignore[arg-type]


def test_logprobs_are_asked_for_as_by_openai() -> None:
    assert to_logprobs(None, None) is to_logprobs(False, None) is to_logprobs(False, 2) is None
    assert to_logprobs(True, None) == 0
    assert to_logprobs(True, 4) == to_logprobs(None, 4) == to_logprobs(4, None) == 4


@pytest.mark.parametrize("calls", ["[]", {"id": "c1"}, 7])
def test_calls_that_are_not_a_list_are_refused(calls: Any) -> None:
    with pytest.raises(marith.RequestError, match="tool_calls must be a list of calls, not"):
        openai_format.require_calls(calls)


@pytest.fixture(scope="module")
def completion(tiny_dir: str) -> marith.Completion:
    options = marith.Options(
        model=tiny_dir, formula="2*a - 0.5*M", terms={"a": "x y z"}, seed=4, max_tokens=12
    )
    return options.submit("k l", logprobs=2).result()


def test_logprobs_are_written_as_openai_writes_them(completion: marith.Completion) -> None:
    assert completion.logprobs
    content = openai_format.from_logprobs(completion.logprobs)["logprobs"]["content"]
    for entry, token in zip(content, completion.logprobs, strict=True):
        assert list(entry) == ["token", "bytes", "logprob", "top_logprobs"]
        assert (entry["token"], bytes(entry["bytes"])) == (token.text, token.data)
        assert entry["logprob"] == token.logprob
        assert [each["logprob"] for each in entry["top_logprobs"]] == [
            each.logprob for each in token.top
        ]
    assert openai_format.from_logprobs(None) == openai_format.from_logprobs(()) == {}


def test_a_token_that_cannot_follow_is_json_too() -> None:
    never = marith.TopLogprob(3, "x", b"x", -math.inf)
    entry = openai_format.from_top_logprob(never)
    assert json.loads(json.dumps(entry, allow_nan=False)) == entry
    assert entry["logprob"] == openai_format.LEAST_LOGPROB


def test_the_composition_says_what_each_term_cost(completion: marith.Completion) -> None:
    costs = openai_format.composition_costs(completion)
    stats, tokens = completion.stats, completion.logprobs
    assert tokens
    assert (costs["formula"], costs["passes"], costs["calls"]) == (
        "2*a - 0.5*M", stats.passes, stats.calls,
    )  # fmt: skip
    assert list(costs["terms"]) == list(costs["logprobs"]) == list(stats.terms)
    for term, cost in stats.terms.items():
        assert costs["terms"][term] == {
            "prompt_tokens": cost.prompt_tokens,
            "cached_tokens": cost.cached_tokens,
            "calls": cost.calls,
        }
        assert costs["logprobs"][term] == [token.terms.get(term) for token in tokens]
    assert json.loads(json.dumps(costs, allow_nan=False)) == costs


def test_stages_are_listed_and_logprobs_that_nobody_asked_for_are_not() -> None:
    stats = marith.Stats(3, 2, 4, 0.5, stages=(StageStats("a", 4, 3, 0.7),), uncut=1)
    plain = marith.Completion("x", [1, 2, 3], "stop", marith.Usage(2, 3), stats, stop_string="\n")
    costs = openai_format.composition_costs(plain)
    assert costs["stages"] == [{"part": "a", "evaluated": 4, "accepted": 3, "predicted": 0.7}]
    assert costs["uncut"] == 1
    assert "logprobs" not in costs
    assert openai_format.finish_fields(plain) == {"finish_reason": "stop", "stop_reason": "\n"}


def test_usage_adds_up_over_answers(completion: marith.Completion) -> None:
    assert "stop_reason" not in openai_format.finish_fields(completion)
    usage = completion.usage
    assert openai_format.from_usage(usage) == {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    usages = [marith.Usage(2, 3, 1, 1), marith.Usage(2, 4, 2, 0), marith.Usage(5, 1), usage]
    assert openai_format.total_usage(usages[:3]) == marith.Usage(9, 8, 3, 1)
    assert openai_format.total_usage(usages, 2) == marith.Usage(
        7, 8 + usage.completion_tokens, 1, 1 + usage.reasoning_tokens
    )


@pytest.mark.parametrize("tools", [None, [], [{"type": "function", "function": {"name": "f"}}]])
@pytest.mark.parametrize("flags", [{"parallel": "no"}, {"strict": "no"}, {"strict": 1}])
def test_flags_of_tools_are_checked_where_there_are_no_tools(tools: Any, flags: Any) -> None:
    with pytest.raises(marith.RequestError, match="is True or False, not"):
        to_tools(tools, list, **flags)


@pytest.mark.parametrize(
    "values", [{"default": {"title": "Mr", "x": 1}}, {"enum": [{"title": "a"}, {"title": "b"}]},
               {"const": {"title": "a"}}, {"examples": [{"title": "a"}]}],
)  # fmt: skip
def test_titles_in_values_stay(values: dict[str, Any]) -> None:
    schema = {"title": "A", "properties": {"a": {"title": "B", **values}}, "items": {"title": "C"}}
    untitled = {"properties": {"a": values}, "items": {}}
    assert openai_format.without_titles(schema) == untitled
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    assert openai_format.without_titles(tool)["function"]["parameters"] == untitled


@pytest.mark.parametrize(
    ("logprobs", "top", "name"),
    [("yes", None, "logprobs"), (-1, None, "logprobs"), (1.0, None, "logprobs"),
     (True, "3", "top_logprobs"), (False, -1, "top_logprobs"), (None, True, "top_logprobs")],
)  # fmt: skip
def test_a_wrong_number_of_log_probabilities_is_named(logprobs: Any, top: Any, name: str) -> None:
    with pytest.raises(marith.RequestError, match=f"^{name} must be a whole number of at least 0"):
        to_logprobs(logprobs, top)
