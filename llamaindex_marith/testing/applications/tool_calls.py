"""Are tools called as they are offered and chosen, and are their answers read?"""

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
from llamaindex_marith.testing.observers import usage_of
from llamaindex_marith.testing.tooling import DEPTH, SAIL, TOOLS, adepth, tool
from llamaindex_marith.testing.ways import TOOLED, call, each_tooled, refusal, text_of, user

ENOUGH = 120  # tokens: a call of the tools here is shorter
BY_NAME = {each.metadata.get_name(): each for each in TOOLS}
CALLING = ("predict_and_call", "apredict_and_call")


class ToolCalls(LLMUnderTest):
    """Tools, for who claims them."""

    def test_who_calls_tools_is_known_by_type(self) -> None:
        self.offered_tools()
        llm = self.llm()
        assert isinstance(llm, FunctionCallingLLM)
        assert llm.metadata.is_function_calling_model

    @each_tooled
    async def test_a_required_call_is_made_and_valid(self, way: str) -> None:
        self.offered_tools()
        calls, _ = await self._calls(way, tool_required=True)
        assert calls, "no tool was called"
        assert all(valid(each) for each in calls), calls

    @each_tooled
    @pytest.mark.parametrize("name", sorted(BY_NAME))
    async def test_a_tool_may_be_chosen_by_name(self, way: str, name: str) -> None:
        self.offered_tools()
        calls, _ = await self._calls(way, tool_choice=name)
        assert {each.tool_name for each in calls} == {name}

    @each_tooled
    async def test_no_tool_is_called_where_none_is_chosen(self, way: str) -> None:
        self.offered_tools()
        calls, parts = await self._calls(way, tool_choice="none")
        assert not calls
        llm: Any = self.llm()
        with refusal(ValueError, of="an answer without calls, where one is demanded"):
            llm.get_tool_calls_from_response(parts[-1], error_on_no_tool_call=True)

    @each_tooled
    async def test_one_tool_is_called_where_one_is_allowed(self, way: str) -> None:
        self.offered_tools()
        both = "How deep is the Ebro, and sail on the Rhone, and on the Elbe too, all at once."
        calls, _ = await self._calls(way, both, tool_required=True, allow_parallel_tool_calls=False)
        assert len(calls) == 1

    @each_tooled
    async def test_every_call_has_an_id_of_its_own(self, way: str) -> None:
        self.offered_tools()
        told = [
            each.tool_id
            for _ in range(2)
            for each in (await self._calls(way, tool_required=True))[0]
        ]
        assert len(set(told)) == len(told) >= 2
        assert all(each and each not in BY_NAME for each in told)

    @pytest.mark.parametrize("way", ["stream_chat_with_tools", "astream_chat_with_tools"])
    async def test_calls_may_be_asked_for_before_they_are_whole(self, way: str) -> None:
        self.offered_tools()
        calls, parts = await self._calls(way, tool_required=True)
        llm: Any = self.llm()
        assert len(parts) > 1
        for part in parts:
            for each in llm.get_tool_calls_from_response(part, error_on_no_tool_call=False):
                assert isinstance(each, ToolSelection)
                assert each.tool_id == calls[0].tool_id or len(calls) > 1

    @pytest.mark.parametrize("way", TOOLED[1:])
    async def test_every_way_calls_the_same(self, way: str) -> None:
        self.offered_tools()
        truth, _ = await self._calls("chat_with_tools", tool_required=True)
        calls, _ = await self._calls(way, tool_required=True)
        assert [plain(each) for each in calls] == [plain(each) for each in truth]

    @each_tooled
    async def test_a_call_that_was_cut_off_is_not_run(self, way: str) -> None:
        self.offered_tools()
        for count in (6, 12):
            llm: Any = self.llm(max_tokens=count)
            parts = await call(getattr(llm, way), [SAIL], user_msg="Sail!", tool_required=True)
            with suppress(ValueError):
                for each in llm.get_tool_calls_from_response(parts[-1], False):
                    assert valid(each), f"{each.tool_kwargs!r} was made of what was cut off"

    @each_tooled
    async def test_a_message_with_calls_survives_json(self, way: str) -> None:
        self.offered_tools()
        _, parts = await self._calls(way, tool_required=True)
        message = parts[-1].message
        json.dumps(message.additional_kwargs)
        assert ChatMessage.model_validate_json(message.model_dump_json()) == message

    @each_tooled
    async def test_what_a_tool_said_is_read(self, way: str) -> None:
        self.offered_tools()
        calls, parts = await self._calls(way, tool_choice=DEPTH.metadata.name)
        read = set()
        for words in ("three metres", "the river is dry, and nobody sails there any more"):
            history = [user(self.question), parts[-1].message, *results(calls, words)]
            told = await call(getattr(self.llm(), way), TOOLS, chat_history=history)
            read.add(self._gist(told[-1]))
        assert len(read) > 1, "whatever it said, nothing changes"

    @each_tooled
    async def test_a_history_that_was_stored_is_read(self, way: str) -> None:
        self.offered_tools()
        calls, parts = await self._calls(way, tool_required=True)
        history = [user(self.question), parts[-1].message, *results(calls, "three metres")]
        stored = [ChatMessage.model_validate_json(each.model_dump_json()) for each in history]
        method = getattr(self.llm(), way)
        first = (await call(method, TOOLS, chat_history=history))[-1]
        again = (await call(method, TOOLS, chat_history=stored))[-1]
        assert self._gist(again) == self._gist(first)

    @each_tooled
    async def test_tools_and_history_are_not_changed(self, way: str) -> None:
        self.offered_tools()
        calls, parts = await self._calls(way, tool_required=True)
        history = [user(self.question), parts[-1].message, *results(calls, "three metres")]
        tools, before = list(TOOLS), [each.model_dump_json() for each in history]
        method = getattr(self.llm(), way)
        await call(method, tools, user_msg=self.question, chat_history=history)
        assert [each.model_dump_json() for each in history] == before
        assert tools == TOOLS

    @each_tooled
    async def test_a_question_follows_its_history(self, way: str) -> None:
        self.offered_tools()
        history = [user("Good day."), ChatMessage(role="assistant", content="Good day to you.")]
        method = getattr(self.llm(), way)
        apart = (await call(method, TOOLS, user_msg=self.question, chat_history=history))[-1]
        whole = (await call(method, TOOLS, chat_history=[*history, user(self.question)]))[-1]
        assert self._gist(apart) == self._gist(whole)

    @pytest.mark.parametrize("way", CALLING)
    async def test_a_tool_that_is_called_runs(self, way: str) -> None:
        self.offered_tools()
        told = (
            await call(getattr(self._calling(), way), TOOLS, self.question, tool_required=True)
        )[0]
        (source,) = told.sources
        assert not source.is_error
        assert told.response == source.content == BY_NAME[source.tool_name](**given(source)).content

    async def test_a_tool_that_waits_runs(self) -> None:
        self.offered_tools()
        tools = [tool(None, async_fn=adepth)]
        told = await self._calling().apredict_and_call(tools, self.question, tool_required=True)
        assert told.response.endswith("three metres")

    @pytest.mark.parametrize("way", CALLING)
    async def test_a_tool_that_fails_is_told_or_raised(self, way: str) -> None:
        self.offered_tools()

        def sink() -> str:
            """Sink the ship."""
            raise RuntimeError("she sank")

        method, tools = getattr(self._calling(), way), [tool(sink)]
        told = (await call(method, tools, self.question, tool_required=True))[0]
        assert told.sources[0].is_error
        assert "she sank" in told.response
        with refusal(ValueError, of="a tool that fails, where that is an error"):
            options: dict[str, Any] = {"tool_required": True, "error_on_tool_error": True}
            await call(method, tools, self.question, **options)

    def _calling(self) -> Any:
        return self.llm(max_tokens=ENOUGH)

    def _gist(self, answer: Any) -> tuple[str, int]:
        """What was answered, and to how long a prompt, if that is told."""
        return text_of(answer), usage_of(answer)["prompt"] if self.supports_usage else 0

    async def _calls(
        self, way: str, question: str | None = None, **options: Any
    ) -> tuple[list[ToolSelection], list[Any]]:
        """The calls of an answer, and all parts that it came in."""
        llm = self._calling()
        asked = question or "How deep is the Ebro?"
        parts = await call(getattr(llm, way), TOOLS, user_msg=asked, **options)
        return llm.get_tool_calls_from_response(parts[-1], error_on_no_tool_call=False), parts


def valid(call: ToolSelection) -> bool:
    """Whether a call has the arguments that its tool takes."""
    try:
        schema: Any = BY_NAME[call.tool_name].metadata.fn_schema
        schema.model_validate(call.tool_kwargs)
    except (KeyError, ValidationError):
        return False
    return True


def plain(call: ToolSelection) -> tuple[str, dict[str, Any]]:
    """A call without its id."""
    return call.tool_name, call.tool_kwargs


def given(source: Any) -> dict[str, Any]:
    """The arguments that a tool was run with."""
    raw: dict[str, Any] = source.raw_input
    return dict(raw.get("kwargs", raw))


def results(calls: list[ToolSelection], words: str) -> list[ChatMessage]:
    """What the tools said, as LlamaIndex's agents write it: by the id of the call, nameless."""
    return [
        ChatMessage(role="tool", content=words, additional_kwargs={"tool_call_id": each.tool_id})
        for each in calls
    ]
