"""Messages of any provider reach the engine as roles, texts and calls; nothing is lost silently."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
)
from support.langchain_models import Make, sum_of

import marith
from langchain_marith.messages import to_dicts

CALL = {"name": "colour", "args": {"of": "sea"}, "id": "c1", "type": "tool_call"}
TOLD = {"id": "c1", "type": "function", "function": {"name": "colour", "arguments": {"of": "sea"}}}
TEXTS = st.text(max_size=20)
SAID = st.one_of(
    st.builds(HumanMessage, TEXTS), st.builds(SystemMessage, TEXTS), st.builds(AIMessage, TEXTS)
)


@given(st.lists(SAID, min_size=1, max_size=5))
def test_plain_messages_are_what_langchain_itself_makes_of_them(messages: list[Any]) -> None:
    assert to_dicts(messages) == convert_to_openai_messages(messages)


@given(st.lists(TEXTS, max_size=4))
def test_text_is_the_same_whole_or_in_blocks(parts: list[str]) -> None:
    blocks: list[Any] = [{"type": "text", "text": p, "cache_control": {}} for p in parts]
    for kind in (HumanMessage, SystemMessage, AIMessage):
        (whole,) = to_dicts([kind("".join(parts))])
        assert to_dicts([kind(blocks)]) == to_dicts([kind([*parts])]) == [whole]


@pytest.mark.parametrize(
    "content",
    [
        "So:",
        [{"type": "text", "text": "So:"}, {"type": "tool_use", "input": {"of": "sea"}, **CALL}],
        [{"type": "text", "text": "So:"}, {**CALL}],
        [{"type": "text", "text": "So:"}, {"type": "tool_call_chunk", "args": '{"of', "id": "c1"}],
        [{"type": "output_text", "text": "So:"}, {"type": "function_call", "call_id": "c1"}],
    ],
    ids=["text", "Anthropic", "v1", "chunk", "OpenAI"],
)
def test_a_call_is_written_once_however_often_it_occurs(content: Any) -> None:
    blocks = content if isinstance(content, str) else [{**b, "name": "colour"} for b in content]
    for block in blocks if isinstance(blocks, list) else ():
        if block["type"] == "tool_use":
            block.pop("args")
    messages = to_dicts([AIMessage(blocks, tool_calls=[CALL])])
    assert messages == [{"role": "assistant", "content": "So:", "tool_calls": [TOLD]}]


def test_calls_that_were_cut_off_are_written_as_they_are() -> None:
    broken = {"name": "colour", "args": '{"of": "s', "id": "c2", "error": None}
    (message,) = to_dicts([AIMessage("", tool_calls=[CALL], invalid_tool_calls=[broken])])
    assert [c["function"]["arguments"] for c in message["tool_calls"]] == [
        CALL["args"],
        '{"of": "s',
    ]


def test_a_streamed_message_is_written_as_a_whole_one() -> None:
    piece = {"name": "colour", "args": '{"of": "sea"}', "id": "c1", "index": 0}
    message = AIMessageChunk("So:", tool_call_chunks=[piece], chunk_position="last")
    assert to_dicts([message]) == to_dicts([AIMessage("So:", tool_calls=[CALL])])


def test_earlier_reasoning_is_kept_beside_the_text() -> None:
    """The chat template decides whether the model reads it again."""
    thoughts = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "reasoning", "reasoning": "ha"},
    ]
    blocks = [*thoughts, {"type": "text", "text": "Blue."}]
    want = {"role": "assistant", "content": "Blue."}
    assert to_dicts([AIMessage(blocks)]) == [{**want, "reasoning_content": "hm\n\nha"}]
    noted = AIMessage(blocks, additional_kwargs={"reasoning_content": "oh"})
    assert to_dicts([noted]) == [{**want, "reasoning_content": "oh"}]
    for written in ("oh", {"summary": [{"type": "summary_text", "text": "oh"}]}):
        (of_vllm,) = to_dicts([AIMessage("l", additional_kwargs={"reasoning": written})])
        assert of_vllm["reasoning_content"] == "oh"
    assert to_dicts([AIMessage([thoughts[1], blocks[-1]])]) == [want]


@pytest.mark.parametrize("version", ["v0", "v1"])
def test_an_answers_own_reasoning_is_read_back(
    scripted: Make, thinking_dir: str, version: str
) -> None:
    model = scripted(model=thinking_dir, output_version=version)
    for answer in (model.invoke("Hello!"), sum_of(model.stream("Hello!"))):
        assert to_dicts([answer]) == [
            {"role": "assistant", "content": "Good day.", "reasoning_content": "A greeting."}
        ]


def test_results_within_a_tools_answer_are_its_text() -> None:
    """A tool that answers in Anthropic's blocks still answers one call, the message's own."""
    results = [{"type": "tool_result", "tool_use_id": each, "content": each} for each in "ab"]
    text = {"type": "text", "text": "y"}
    for blocks, told in (([results[0], text], "ay"), (results, "ab"), ([text, results[1]], "by")):
        assert to_dicts([ToolMessage(blocks, tool_call_id="c1")]) == [
            {"role": "tool", "content": told, "tool_call_id": "c1"}
        ]
    told = to_dicts([ToolMessage([{**results[0], "is_error": True}, text], tool_call_id="c1")])
    assert told[0]["content"] == "Error: ay"


def test_tools_answer_in_every_form() -> None:
    answer = ToolMessage("blue", tool_call_id="c1", name="colour", artifact={"not": "sent"})
    written = {"role": "tool", "content": "blue", "tool_call_id": "c1", "name": "colour"}
    assert to_dicts([answer]) == [written]
    assert to_dicts([ToolMessage([{"type": "text", "text": "blue"}], tool_call_id="c1")]) == [
        {"role": "tool", "content": "blue", "tool_call_id": "c1"}
    ]
    (failed,) = to_dicts([ToolMessage("no sea", tool_call_id="c1", status="error")])
    assert failed["content"] == "Error: no sea"
    (failed,) = to_dicts([ToolMessage("Error: no sea", tool_call_id="c1", status="error")])
    assert failed["content"] == "Error: no sea"
    assert to_dicts([FunctionMessage(name="colour", content="blue")])[0]["role"] == "tool"


def test_names_and_roles_of_ones_own_are_kept() -> None:
    assert to_dicts([HumanMessage("k", name="Ada")])[0]["name"] == "Ada"
    assert to_dicts([ChatMessage("k", role="developer")])[0]["role"] == "developer"


def test_a_message_without_content_is_refused() -> None:
    gone: BaseMessage = RemoveMessage(id="m1")
    with pytest.raises(marith.RequestError, match="RemoveMessage"):
        to_dicts([gone])
