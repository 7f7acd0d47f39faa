"""LlamaIndex's messages, whatever they are made of, as the engine reads them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    CitableBlock,
    CitationBlock,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.llms.llm import ToolSelection

import marith
from llamaindex_marith.chat_messages import to_dicts
from marith.openai_format import to_tool_call

CALL = to_tool_call("c1", "clock", '{"place": "Málaga"}')
SELECTED = ToolSelection(tool_id="c1", tool_name="clock", tool_kwargs={"place": "Málaga"})
AS_CLIENT = SimpleNamespace(id="c1", function=SimpleNamespace(**CALL["function"]))


@given(st.sampled_from(MessageRole), st.lists(st.text(), max_size=3))
def test_every_role_and_text_is_read(role: MessageRole, texts: list[str]) -> None:
    blocks: list[ContentBlock] = [TextBlock(text=text) for text in texts]
    (written,) = to_dicts([ChatMessage(role=role, blocks=blocks)])
    assert written["content"] == "\n".join(texts)
    assert written["role"] in ("system", "developer", "user", "assistant", "tool")


def test_reasoning_is_kept_beside_the_text_and_cache_points_are_left_out() -> None:
    point = CachePoint(cache_control=CacheControl(type="ephemeral"))
    cited = CitableBlock(title="t", source="s", content=[TextBlock(text="b")])
    blocks: list[ContentBlock] = [ThinkingBlock(content="hm"), TextBlock(text="a"), point, cited]
    assert to_dicts([ChatMessage(role="assistant", blocks=blocks)]) == [
        {"role": "assistant", "content": "a\nb", "reasoning_content": "hm"}
    ]
    of_vllm = ChatMessage("a", role="assistant", additional_kwargs={"reasoning": "hm"})
    assert to_dicts([of_vllm])[0]["reasoning_content"] == "hm"
    asked: list[ContentBlock] = [ThinkingBlock(content="hm"), TextBlock(text="a")]
    assert to_dicts([ChatMessage(role="user", blocks=asked)]) == [{"role": "user", "content": "a"}]


def test_quotations_of_sources_are_left_out() -> None:
    text, quoted = TextBlock(text="a"), TextBlock(text="from the page")
    citation = CitationBlock(
        cited_content=quoted, source="s", title="t", additional_location_info={}
    )
    (message,) = to_dicts([ChatMessage(role="assistant", blocks=[text, citation])])
    assert message["content"] == "a"


@pytest.mark.parametrize("call", [CALL, AS_CLIENT, SELECTED])
def test_a_call_is_written_once_whichever_way_it_is_stored(call: Any) -> None:
    block = ToolCallBlock(tool_call_id="c1", tool_name="clock", tool_kwargs='{"place": "Málaga"}')
    noted = {"tool_calls": [call]}
    for blocks, notes in (([block], {}), ([], noted), ([block], noted)):
        message = ChatMessage(role="assistant", blocks=blocks, additional_kwargs=notes)
        (written,) = to_dicts([message])
        (stored,) = written["tool_calls"]
        function = stored["function"]
        assert (stored["id"], function["name"]) == ("c1", "clock")
        assert function["arguments"] in (
            CALL["function"]["arguments"],
            {"place": "Málaga"},
        )


def test_a_tools_answer_names_the_call_that_it_answers() -> None:
    answer = ChatMessage(
        role="tool", content="12:00", additional_kwargs={"tool_call_id": "c1", "extra": 1}
    )
    assert to_dicts([answer]) == [{"role": "tool", "content": "12:00", "tool_call_id": "c1"}]
    older = ChatMessage(role="function", content="12:00", additional_kwargs={"name": "clock"})
    assert to_dicts([older]) == [{"role": "tool", "content": "12:00", "name": "clock"}]


def test_a_refusal_and_the_older_function_call_are_read() -> None:
    refused = ChatMessage(role="assistant", additional_kwargs={"refusal": "no"})
    assert to_dicts([refused]) == [{"role": "assistant", "content": "no"}]
    said = ChatMessage(role="assistant", content="k", additional_kwargs={"refusal": None})
    assert to_dicts([said]) == [{"role": "assistant", "content": "k"}]
    called = ChatMessage(role="assistant", additional_kwargs={"function_call": CALL["function"]})
    call = {**CALL, "id": None}
    assert to_dicts([called]) == [{"role": "assistant", "content": "", "tool_calls": [call]}]
    called.additional_kwargs["tool_calls"] = [CALL]
    assert to_dicts([called])[0]["tool_calls"] == [CALL]


def test_pictures_and_invalid_calls_are_refused() -> None:
    picture = ChatMessage(role="user", blocks=[ImageBlock(url="https://a.b/c.png")])
    with pytest.raises(marith.RequestError, match="only text can be read, not a ImageBlock"):
        to_dicts([picture])
    wrong: list[tuple[Any, str]] = [
        (ChatMessage(role="user", blocks=[ToolCallBlock(tool_name="dive")]), "only an assistant"),
        (ChatMessage(role="assistant", additional_kwargs={"tool_calls": "[]"}), "a list of calls"),
        ({"role": "user", "content": "k"}, "a message is a ChatMessage, not {'role'"),
    ]
    for message, problem in wrong:
        with pytest.raises(marith.RequestError, match=problem):
            to_dicts([message])
    with pytest.raises(
        marith.RequestError, match=r"a call must have a function with a name.*not 7"
    ):
        to_dicts([ChatMessage(role="assistant", additional_kwargs={"tool_calls": [7]})])
