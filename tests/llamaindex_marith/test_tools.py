"""LlamaIndex's tools: defined, called as the application chooses, and read back."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage, ChatResponse, MessageRole
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, Field
from support.llamaindex_calls import Make

import marith
from llamaindex_marith import Marith
from llamaindex_marith.tool_selection import to_definitions, to_tools

BOTH = "clock and map"


def clock(place: str) -> str:
    """Tell the time at a place."""
    return f"12:00 in {place}"


async def aclock(place: str) -> str:
    """Tell the time at a place."""
    return clock(place)


def chart(river: str, scale: int) -> str:
    """Show a river."""
    return f"{river} at 1:{scale}"


TOOLS = [FunctionTool.from_defaults(clock), FunctionTool.from_defaults(chart, name="map")]


class Chain(BaseModel):
    """A chain of ships."""

    ship: str
    tows: list[Chain] = Field(default_factory=list)


class Cargo(BaseModel):
    """What is aboard."""

    model_config = {"extra": "allow"}
    grams: int


async def every_way(model: Marith, question: str, **options: Any) -> list[list[ChatResponse]]:
    """All responses, in each of the four ways to ask."""
    asked: dict[str, Any] = {"tools": TOOLS, "user_msg": question, **options}
    return [
        [model.chat_with_tools(**asked)],
        list(model.stream_chat_with_tools(**asked)),
        [await model.achat_with_tools(**asked)],
        [part async for part in await model.astream_chat_with_tools(**asked)],
    ]


@pytest.mark.parametrize(
    ("schema", "holds", "enforced"),
    [
        (Chain, '"$ref": "#/$defs/Chain"', '"$ref": "#/$defs/Chain"'),
        (Cargo, '"additionalProperties": true', '$": true}'),  # any name but the named ones
    ],
)
def test_a_tool_is_defined_with_all_of_its_schema(
    schema: type[BaseModel], holds: str, enforced: str
) -> None:
    tool = FunctionTool.from_defaults(
        lambda **_: "", name="tow", fn_schema=schema, description="Tow."
    )
    (definition,) = to_definitions([tool])
    function = definition["function"]
    assert (function["name"], function["description"]) == ("tow", "Tow.")
    assert holds in json.dumps(function["parameters"])
    assert enforced in marith.Tools((definition,)).schema_of(function)
    assert to_definitions([definition]) == [definition]


@pytest.mark.parametrize(
    ("choice", "required", "means"),
    [
        (None, False, "auto"),
        (None, True, "required"),
        ("any", True, "required"),
        ("map", True, "map"),
        ("none", False, "none"),
    ],
)
def test_a_required_tool_is_a_choice_too(choice: Any, required: bool, means: str) -> None:
    tools = to_tools(TOOLS, choice, required, False)
    assert tools is not None
    assert (tools.choice, tools.parallel) == (means, False)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tool_choice": "dive"}, "no tool is named 'dive'; the tools are clock, map"),
        ({"tools": ["clock"]}, "a tool is a BaseTool or a dict in OpenAI's format, not 'clock'"),
        ({"tools": 5}, "tools are a list, not 5"),
        ({"tool_choice": "auto", "tool_required": True}, "is 'auto', but a tool is required"),
        ({"tool_choice": False, "tool_required": True}, "is False, but a tool is required"),
    ],
)
async def test_what_cannot_be_called_is_refused_before_a_model_loads(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        Marith(model="/nowhere").chat_with_tools(**{"tools": TOOLS, "user_msg": "k", **options})
    with pytest.raises(ValueError, match="Marith takes no option 'tools'"):
        Marith(model="/nowhere").complete("k", tools=TOOLS)


async def test_calls_come_back_in_every_way_with_the_text_before_them(scripted: Make) -> None:
    model = scripted()
    for answers in await every_way(model, BOTH, allow_parallel_tool_calls=True):
        answer = answers[-1]
        assert answer.message.content == "Both, then."
        assert answer.raw["finish_reason"] == "tool_calls"
        calls = model.get_tool_calls_from_response(answer)
        assert [(call.tool_name, call.tool_kwargs) for call in calls] == [
            ("clock", {"place": "Málaga"}),
            ("map", {"river": "Ebro", "scale": 2}),
        ]
        assert len({call.tool_id for call in calls}) == 2
        noted = answer.message.additional_kwargs["tool_calls"]
        assert [call["id"] for call in noted] == [call.tool_id for call in calls]
        assert "Málaga" in noted[0]["function"]["arguments"]
        assert ChatResponse.model_validate_json(answer.model_dump_json()).message == answer.message
    (one,) = (await every_way(model, BOTH),)
    for answers in one:
        (call,) = model.get_tool_calls_from_response(answers[-1])
        assert call.tool_name == "clock"


async def test_arguments_grow_while_an_answer_comes(scripted: Make) -> None:
    model = scripted()
    for answers in (await every_way(model, BOTH, allow_parallel_tool_calls=True))[1::2]:
        so_far = [model.get_tool_calls_from_response(answer, False) for answer in answers]
        assert [len(calls) for calls in so_far] == sorted(len(calls) for calls in so_far)
        first = [calls[0].tool_kwargs for calls in so_far if calls]
        names = [known["place"] for known in first if known]
        assert len(set(names)) > 2
        assert all(later.startswith(sooner) for sooner, later in pairwise(names))
        ids = {calls[0].tool_id for calls in so_far if calls}
        assert len(ids) == 1


async def test_a_required_call_is_made_where_the_model_would_answer(scripted: Make) -> None:
    model = scripted(max_tokens=400)
    for choice in ({"tool_required": True}, {"tool_choice": "map"}):
        for *_, answer in await every_way(model, "Good evening.", **choice):
            (call,) = model.get_tool_calls_from_response(answer)
            assert call.tool_name == choice.get("tool_choice", call.tool_name)
            tool = next(t for t in TOOLS if t.metadata.name == call.tool_name)
            assert tool.metadata.fn_schema is not None
            tool.metadata.fn_schema.model_validate(call.tool_kwargs, strict=True)
    for *_, answer in await every_way(model, BOTH, tool_choice="none"):
        assert model.get_tool_calls_from_response(answer, error_on_no_tool_call=False) == []
        with pytest.raises(ValueError, match="the answer calls no tool"):
            model.get_tool_calls_from_response(answer)


async def test_a_call_that_was_cut_off_is_not_run(scripted: Make) -> None:
    model = scripted(max_tokens=14)
    for answers in await every_way(model, "What time is it?", tool_required=True):
        answer = answers[-1]
        assert answer.raw["finish_reason"] == "length"
        (block,) = [b for b in answer.message.blocks if isinstance(b, ToolCallBlock)]
        assert isinstance(block.tool_kwargs, str)
        for strict in (True, False):
            with pytest.raises(ValueError, match="the call of 'clock' was cut off at max_tokens"):
                model.get_tool_calls_from_response(answer, error_on_no_tool_call=strict)
        for sooner in answers[:-1]:
            model.get_tool_calls_from_response(sooner, error_on_no_tool_call=False)
    with pytest.raises(ValueError, match="cut off"):
        model.predict_and_call(TOOLS, user_msg="What time is it?", tool_required=True)


async def test_an_answer_cut_off_before_it_names_a_tool_is_no_answer(
    scripted: Make,
) -> None:
    model = scripted(max_tokens=3)
    for *sooner, answer in await every_way(model, "What time is it?", tool_required=True):
        assert (answer.raw["finish_reason"], answer.message.content) == ("length", "")
        with pytest.raises(ValueError, match="cut off at max_tokens before any text or call"):
            model.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
        for part in sooner:
            assert model.get_tool_calls_from_response(part, error_on_no_tool_call=False) == []


async def test_a_tool_is_run_and_its_answer_read(scripted: Make) -> None:
    model = scripted()
    for done in (
        model.predict_and_call(TOOLS, user_msg="What time is it?"),
        await model.apredict_and_call(TOOLS, user_msg="What time is it?"),
    ):
        assert done.response == "12:00 in Málaga"
    waiting = FunctionTool.from_defaults(async_fn=aclock, name="clock")
    done = await model.apredict_and_call([waiting], user_msg="What time is it?")
    assert done.response == "12:00 in Málaga"
    asked = [ChatMessage("What time is it?")]
    before = copy.deepcopy(asked)
    answer = model.chat_with_tools(TOOLS, chat_history=asked)
    assert asked == before
    (call,) = model.get_tool_calls_from_response(answer)
    result = ChatMessage(
        role=MessageRole.TOOL, content="12:00", additional_kwargs={"tool_call_id": call.tool_id}
    )
    history = [*asked, answer.message, result]
    after = model.chat_with_tools(TOOLS, chat_history=history)
    assert after.message.content == "It is noon there."
    assert model.get_tool_calls_from_response(after, error_on_no_tool_call=False) == []
    (other,) = model.get_tool_calls_from_response(model.chat_with_tools(TOOLS, chat_history=asked))
    assert other.tool_id != call.tool_id


def test_a_tool_goes_by_the_name_that_llama_index_finds_it_by(scripted: Make) -> None:
    shop = FunctionTool.from_defaults(clock, name="shop.look up")
    done = scripted(max_tokens=400).predict_and_call([shop], "Good evening.", tool_required=True)
    assert [each.tool_name for each in done.sources] == ["shop.look up"]
    assert not done.sources[0].is_error


def test_a_saved_message_with_an_incomplete_call_is_not_read_as_a_whole_call(
    scripted: Make,
) -> None:
    half = ToolCallBlock(tool_call_id="c", tool_name="pay", tool_kwargs='{"amount": 10')
    kept = ChatResponse(message=ChatMessage(role="assistant", blocks=[half]))
    with pytest.raises(ValueError, match="the call of 'pay' was cut off"):
        scripted().get_tool_calls_from_response(kept)
