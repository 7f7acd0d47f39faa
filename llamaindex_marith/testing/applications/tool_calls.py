"""Does the LLM call tools as the options ask, and does it read their results?"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from pydantic import ValidationError

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.methods import (
    TOOL_METHODS,
    call,
    each_tool_method,
    expect_error,
    text_of,
    user,
)
from llamaindex_marith.testing.observers import usage_of
from llamaindex_marith.testing.tooling import DEPTH, SAIL, TOOLS, adepth, tool

CALL_TOKENS = 120  # more than a call of the tools here has
BY_NAME = {each.metadata.get_name(): each for each in TOOLS}
PREDICT_AND_CALL = ("predict_and_call", "apredict_and_call")


class ToolCalls(LLMUnderTest):
    """Tool calls, for LLMs that claim tools."""

    def test_who_calls_tools_is_known_by_type(self) -> None:
        self.offered_tools()
        llm = self.llm()
        assert isinstance(llm, FunctionCallingLLM)
        assert llm.metadata.is_function_calling_model

    @each_tool_method
    async def test_a_required_call_is_made_and_valid(self, method: str) -> None:
        self.offered_tools()
        calls, _ = await self._calls(method, tool_required=True)
        assert calls, "no tool was called"
        assert all(valid(each) for each in calls), calls

    @each_tool_method
    @pytest.mark.parametrize("name", sorted(BY_NAME))
    async def test_a_tool_may_be_chosen_by_name(self, method: str, name: str) -> None:
        self.offered_tools()
        calls, _ = await self._calls(method, tool_choice=name)
        assert {each.tool_name for each in calls} == {name}

    @each_tool_method
    async def test_no_tool_is_called_where_none_is_chosen(self, method: str) -> None:
        self.offered_tools()
        calls, parts = await self._calls(method, tool_choice="none")
        assert not calls
        llm: Any = self.llm()
        with expect_error(ValueError, case="an answer without the required calls"):
            llm.get_tool_calls_from_response(parts[-1], error_on_no_tool_call=True)

    @each_tool_method
    async def test_one_tool_is_called_where_one_is_allowed(self, method: str) -> None:
        self.offered_tools()
        question = "How deep is the Ebro, and sail on the Rhone, and on the Elbe too, all at once."
        options = {"tool_required": True, "allow_parallel_tool_calls": False}
        calls, _ = await self._calls(method, question, **options)
        assert len(calls) == 1

    @each_tool_method
    async def test_every_call_has_an_id_of_its_own(self, method: str) -> None:
        self.offered_tools()
        ids: list[str] = []
        for _ in range(2):
            calls = (await self._calls(method, tool_required=True))[0]
            ids += [each.tool_id for each in calls]
        assert len(set(ids)) == len(ids) >= 2
        assert all(each and each not in BY_NAME for each in ids)

    @pytest.mark.parametrize("method", ["stream_chat_with_tools", "astream_chat_with_tools"])
    async def test_calls_may_be_asked_for_before_they_are_whole(self, method: str) -> None:
        self.offered_tools()
        calls, parts = await self._calls(method, tool_required=True)
        llm: Any = self.llm()
        assert len(parts) > 1
        for part in parts:
            for each in llm.get_tool_calls_from_response(part, error_on_no_tool_call=False):
                assert isinstance(each, ToolSelection)
                assert each.tool_id == calls[0].tool_id or len(calls) > 1

    @pytest.mark.parametrize("method", TOOL_METHODS[1:])
    async def test_every_way_calls_the_same(self, method: str) -> None:
        self.offered_tools()
        expected, _ = await self._calls("chat_with_tools", tool_required=True)
        calls, _ = await self._calls(method, tool_required=True)
        assert [without_id(each) for each in calls] == [without_id(each) for each in expected]

    @each_tool_method
    async def test_a_call_that_was_cut_off_is_not_run(self, method: str) -> None:
        self.offered_tools()
        for count in (6, 12):
            llm: Any = self.llm(max_tokens=count)
            parts = await call(getattr(llm, method), [SAIL], user_msg="Sail!", tool_required=True)
            with suppress(ValueError):
                for each in llm.get_tool_calls_from_response(parts[-1], False):
                    assert valid(each), f"{each.tool_kwargs!r} comes from a truncated call"

    @each_tool_method
    async def test_a_message_with_calls_survives_json(self, method: str) -> None:
        self.offered_tools()
        _, parts = await self._calls(method, tool_required=True)
        message = parts[-1].message
        json.dumps(message.additional_kwargs)
        assert ChatMessage.model_validate_json(message.model_dump_json()) == message

    @each_tool_method
    async def test_what_a_tool_said_is_read(self, method: str) -> None:
        self.offered_tools()
        calls, parts = await self._calls(method, tool_choice=DEPTH.metadata.name)
        answers = set()
        for result in ("three metres", "the river is dry, and nobody sails there any more"):
            history = [user(self.question), parts[-1].message, *results(calls, result)]
            answer = (await call(getattr(self.llm(), method), TOOLS, chat_history=history))[-1]
            answers.add(self._text_and_count(answer))
        assert len(answers) > 1, "the answer is the same for every result of the tool"

    @each_tool_method
    async def test_a_history_that_was_stored_is_read(self, method: str) -> None:
        self.offered_tools()
        calls, parts = await self._calls(method, tool_required=True)
        history = [user(self.question), parts[-1].message, *results(calls, "three metres")]
        stored = [ChatMessage.model_validate_json(each.model_dump_json()) for each in history]
        chat = getattr(self.llm(), method)
        expected = (await call(chat, TOOLS, chat_history=history))[-1]
        answer = (await call(chat, TOOLS, chat_history=stored))[-1]
        assert self._text_and_count(answer) == self._text_and_count(expected)

    @each_tool_method
    async def test_tools_and_history_are_not_changed(self, method: str) -> None:
        self.offered_tools()
        calls, parts = await self._calls(method, tool_required=True)
        history = [user(self.question), parts[-1].message, *results(calls, "three metres")]
        tools, before = list(TOOLS), [each.model_dump_json() for each in history]
        chat = getattr(self.llm(), method)
        await call(chat, tools, user_msg=self.question, chat_history=history)
        assert [each.model_dump_json() for each in history] == before
        assert tools == TOOLS

    @each_tool_method
    async def test_a_question_follows_its_history(self, method: str) -> None:
        self.offered_tools()
        history = [user("Good day."), ChatMessage(role="assistant", content="Good day to you.")]
        chat = getattr(self.llm(), method)
        answer = (await call(chat, TOOLS, user_msg=self.question, chat_history=history))[-1]
        expected = (await call(chat, TOOLS, chat_history=[*history, user(self.question)]))[-1]
        assert self._text_and_count(answer) == self._text_and_count(expected)

    @pytest.mark.parametrize("method", PREDICT_AND_CALL)
    async def test_a_tool_that_is_called_runs(self, method: str) -> None:
        self.offered_tools()
        predict = getattr(self._tool_llm(), method)
        (response,) = await call(predict, TOOLS, self.question, tool_required=True)
        (output,) = response.sources
        assert not output.is_error
        expected = BY_NAME[output.tool_name](**arguments_of(output)).content
        assert response.response == output.content == expected

    async def test_a_tool_that_waits_runs(self) -> None:
        self.offered_tools()
        tools = [tool(None, async_fn=adepth)]
        llm = self._tool_llm()
        response = await llm.apredict_and_call(tools, self.question, tool_required=True)
        assert response.response.endswith("three metres")

    @pytest.mark.parametrize("method", PREDICT_AND_CALL)
    async def test_a_tool_that_fails_is_told_or_raised(self, method: str) -> None:
        self.offered_tools()

        def sink() -> str:
            """Sink the ship."""
            raise RuntimeError("she sank")

        predict, tools = getattr(self._tool_llm(), method), [tool(sink)]
        (response,) = await call(predict, tools, self.question, tool_required=True)
        assert response.sources[0].is_error
        assert "she sank" in response.response
        with expect_error(ValueError, case="a tool that fails, with error_on_tool_error"):
            options: dict[str, Any] = {"tool_required": True, "error_on_tool_error": True}
            await call(predict, tools, self.question, **options)

    def _tool_llm(self) -> Any:
        return self.llm(max_tokens=CALL_TOKENS)

    def _text_and_count(self, answer: Any) -> tuple[str, int]:
        """The text of an answer, and how many tokens its prompt had (0 if unknown)."""
        return text_of(answer), usage_of(answer)["prompt"] if self.supports_usage else 0

    async def _calls(
        self, method: str, question: str | None = None, **options: Any
    ) -> tuple[list[ToolSelection], list[Any]]:
        """The tool calls of an answer, and the answer as a list of its parts."""
        llm = self._tool_llm()
        message = question or "How deep is the Ebro?"
        parts = await call(getattr(llm, method), TOOLS, user_msg=message, **options)
        return llm.get_tool_calls_from_response(parts[-1], error_on_no_tool_call=False), parts


def valid(call: ToolSelection) -> bool:
    """Whether the arguments of a call match the schema of its tool."""
    try:
        schema: Any = BY_NAME[call.tool_name].metadata.fn_schema
        schema.model_validate(call.tool_kwargs)
    except (KeyError, ValidationError):
        return False
    return True


def without_id(call: ToolSelection) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of a call."""
    return call.tool_name, call.tool_kwargs


def arguments_of(output: Any) -> dict[str, Any]:
    """The arguments with which a tool ran."""
    raw: dict[str, Any] = output.raw_input
    return dict(raw.get("kwargs", raw))


def results(calls: list[ToolSelection], text: str) -> list[ChatMessage]:
    """Tool messages with this text, as LlamaIndex's agents write them: an id, and no name."""
    return [
        ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": each.tool_id})
        for each in calls
    ]
