"""Tools in every form that LangChain knows, called as the application chooses."""

from __future__ import annotations

import json
from typing import Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableBinding
from langchain_core.tools import tool
from pydantic import BaseModel, Field
from support.langchain_models import MAP, Make, clock, knots, ring, sum_of

import marith
from langchain_marith.tool_definitions import to_definitions
from marith.openai_format import to_tools


class Weigh(BaseModel):
    """Weigh a thing."""

    thing: str
    grams: int | None = None


class Sail(TypedDict):
    """Sail somewhere."""

    port: str


ANTHROPIC = {"name": "dive", "description": "Dive.", "input_schema": {"type": "object"}}
RESPONSES = {"type": "function", "name": "rest", "parameters": {"type": "object"}}


class Chain(BaseModel):
    """A chain of ships."""

    ship: str
    tows: list[Chain] = Field(default_factory=list)


@tool
def moor(chain: Chain) -> str:
    """Moor a chain of ships."""
    return chain.ship


def test_arguments_may_be_recursive() -> None:
    for each in (Chain, moor):
        (definition,) = to_definitions([each])
        assert to_definitions([definition]) == [definition]
        text = marith.Tools((definition,)).schema_of(definition["function"])
        assert text.count('"#/$defs/Chain"') >= 2
    assert "$ref" not in str(to_definitions([Weigh, clock]))


def test_a_tool_that_is_given_twice_is_one() -> None:
    assert to_definitions([Weigh, Weigh.model_json_schema()]) == to_definitions([Weigh])


def test_every_form_of_a_tool_is_defined_alike() -> None:
    tools = [clock, tool(clock), Weigh, Sail, ANTHROPIC, RESPONSES, MAP]
    definitions = to_definitions(tools)
    names = ["clock", "clock", "Weigh", "Sail", "dive", "rest", "map"]
    assert [each["function"]["name"] for each in definitions] == names[1:]
    assert {each["type"] for each in definitions} == {"function"}
    assert definitions[-1] == MAP
    assert to_definitions(definitions) == definitions


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tool_choice": "compass"}, "compass"),
        ({"tools": [{"type": "web_search"}]}, "only functions can be called.*'web_search'"),
        ({"tools": [7]}, "7 is not a tool"),
        ({"tools": [{"type": "object", "properties": {}}]}, "is not a tool"),
        ({"tools": [MAP, {**MAP["function"], "parameters": {}}]}, "two tools are named 'map'"),
    ],
)
def test_an_invalid_tool_is_refused_when_it_is_bound(
    scripted: Make, options: dict[str, Any], problem: str
) -> None:
    given = {"tools": [clock], **options}
    with pytest.raises(marith.RequestError, match=problem):
        scripted(model="/nowhere").bind_tools(**given)


def test_binding_changes_nothing_but_the_calls(scripted: Make) -> None:
    model = scripted()
    bound = model.bind_tools([clock], tool_choice="any", strict=True, parallel_tool_calls=False)
    assert isinstance(bound, RunnableBinding)
    assert bound.bound is model
    assert set(bound.kwargs) == {"tools", "tool_choice", "strict", "parallel_tool_calls"}
    assert set(model.bind_tools([clock]).kwargs) == {"tools"}
    assert to_tools([clock], to_definitions) == marith.Tools(tuple(to_definitions([clock])))


def test_several_calls_have_ids_of_their_own(scripted: Make) -> None:
    answer = scripted().bind_tools([clock, MAP]).invoke("clock and map")
    assert [call["name"] for call in answer.tool_calls] == ["clock", "map"]
    assert answer.tool_calls[1]["args"] == {"river": "Ebro", "scale": 2}
    again = scripted().bind_tools([clock, MAP]).invoke("clock and map")
    ids = [call["id"] for call in (*answer.tool_calls, *again.tool_calls)]
    assert len(set(ids)) == 4
    alone = scripted().bind_tools([clock, MAP], parallel_tool_calls=False)
    assert [call["name"] for call in alone.invoke("clock and map").tool_calls] == ["clock"]


def test_a_tools_answer_ends_the_loop(scripted: Make) -> None:
    model = scripted().bind_tools([clock])
    asked = HumanMessage("What time is it?")
    calls = model.invoke([asked])
    (call,) = calls.tool_calls
    answer = model.invoke(
        [asked, calls, ToolMessage(clock(**call["args"]), tool_call_id=call["id"])]
    )
    assert (answer.text, answer.tool_calls) == ("It is noon there.", [])
    broken = ToolMessage("no hands", tool_call_id=call["id"], status="error")
    assert model.invoke([asked, calls, broken]).text == "The clock stands still."


NAME = {"name": "any"}
NAMED = ["ring", {"type": "function", "function": {"name": "ring"}}]


@pytest.mark.parametrize("choice", ["any", "required", True, *NAMED])
def test_a_choice_is_obeyed_whatever_the_model_would_say(scripted: Make, choice: Any) -> None:
    model = scripted().bind_tools([knots, ring], tool_choice=choice, parallel_tool_calls=False)
    for answer in (model.invoke("Hello!"), sum_of(model.stream("Hello!"))):
        (call,) = answer.tool_calls
        assert (answer.text, answer.response_metadata["finish_reason"]) == ("", "tool_calls")
        assert call["name"] in (("ring",) if choice in NAMED else ("knots", "ring"))
        assert call["args"] == ({} if call["name"] == "ring" else {"speed": 0})


def test_a_tool_named_any_is_chosen_by_a_dict(scripted: Make) -> None:
    named = {"type": "function", "function": {"name": "any", "parameters": {}}}
    for choice in ({"type": "function", "function": {"name": "any"}}, {"type": "tool", **NAME}):
        model = scripted().bind_tools([knots, named], tool_choice=choice)
        (call,) = model.invoke("Hello!", parallel_tool_calls=False).tool_calls
        assert (call["name"], call["args"]) == ("any", {})


def test_a_call_that_was_cut_off_is_an_invalid_one(scripted: Make) -> None:
    model = scripted(max_tokens=14).bind_tools([clock], tool_choice="clock")
    answer = model.invoke("What time is it?")
    assert answer.response_metadata["finish_reason"] == "length"
    assert answer.tool_calls == []
    (call,) = answer.invalid_tool_calls
    assert call["name"] == "clock"
    assert "cut off" in (call["error"] or "")
    with pytest.raises(ValueError, match=r"."):
        json.loads(call["args"] or "")


def test_calls_come_in_pieces_of_which_the_first_has_the_name(scripted: Make) -> None:
    chunks = list(scripted().bind_tools([clock, MAP]).stream("clock and map"))
    pieces = [piece for chunk in chunks for piece in chunk.tool_call_chunks]
    assert all(chunk.content == "" for chunk in chunks if chunk.tool_call_chunks)
    assert len(pieces) > 4
    for index, name in enumerate(["clock", "map"]):
        own = [piece for piece in pieces if piece["index"] == index]
        assert [piece["name"] for piece in own] == [name, *[None] * (len(own) - 1)]
        assert own[0]["id"]
        assert not any(piece["id"] for piece in own[1:])
