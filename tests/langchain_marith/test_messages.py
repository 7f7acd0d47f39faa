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
from support.speaking_model import Make

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


def test_a_call_that_only_a_block_holds_is_written() -> None:
    block = {"type": "tool_use", "name": "colour", "input": {"of": "sea"}, "id": "c1"}
    assert to_dicts([AIMessage([block])])[0]["tool_calls"] == [TOLD]
    by_openai = {"id": "c1", "function": {"name": "colour", "arguments": '{"of": "sea"}'}}
    message = AIMessage("", additional_kwargs={"tool_calls": [by_openai]})
    assert to_dicts([message])[0]["tool_calls"] == [TOLD]


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


def test_earlier_reasoning_is_left_out() -> None:
    thoughts = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "reasoning", "reasoning": "hm"},
    ]
    message = AIMessage(
        [*thoughts, {"type": "text", "text": "Blue."}],
        additional_kwargs={"reasoning_content": "hm"},
    )
    assert to_dicts([message]) == [{"role": "assistant", "content": "Blue."}]


def test_langchains_notes_are_not_sent_to_the_model() -> None:
    notes = {"lc_source": "summarisation", "lc_data": {"x": 1}, "other": 2}
    marked = HumanMessage("k l", additional_kwargs=notes, response_metadata={"y": 3}, id="m1")
    assert to_dicts([marked]) == [{"role": "user", "content": "k l"}]


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


def test_a_tools_answer_within_a_users_message_becomes_its_own() -> None:
    result = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "b"}],
    }
    failed = {"type": "tool_result", "tool_use_id": "c2", "content": "no sea", "is_error": True}
    first = {"role": "tool", "content": "b", "tool_call_id": "c1"}
    second = {"role": "tool", "content": "Error: no sea", "tool_call_id": "c2"}
    question = {"type": "text", "text": "And now?"}
    assert to_dicts([HumanMessage([result, failed, question])]) == [
        first,
        second,
        {"role": "user", "content": "And now?"},
    ]
    assert to_dicts([HumanMessage([result])]) == [first]


def test_names_and_roles_of_ones_own_are_kept() -> None:
    assert to_dicts([HumanMessage("k", name="Ada")])[0]["name"] == "Ada"
    assert to_dicts([ChatMessage("k", role="developer")])[0]["role"] == "developer"


PICTURES: list[dict[str, Any]] = [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
]


@pytest.mark.parametrize("block", PICTURES, ids=[block["type"] for block in PICTURES])
def test_what_is_no_text_is_refused_rather_than_lost(block: dict[str, Any]) -> None:
    for message in (
        HumanMessage([{"type": "text", "text": "k"}, block]),
        ToolMessage([block], tool_call_id="c1"),
        HumanMessage([{"type": "tool_result", "tool_use_id": "c1", "content": [block]}]),
    ):
        with pytest.raises(marith.RequestError, match=f"only text can be read.*'{block['type']}'"):
            to_dicts([message])


def test_a_call_and_its_answer_without_ids_find_each_other(make: Make) -> None:
    asked = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": None}])
    for answer in (ToolMessage("k", tool_call_id=""), FunctionMessage("k", name="f")):
        assert make().invoke([HumanMessage("k"), asked, answer]).usage_metadata


def test_what_other_providers_left_behind_is_not_read() -> None:
    """As LangChain's models of OpenAI, Anthropic, Google and Bedrock write it."""
    left: list[Any] = [
        {"type": "web_search_call", "id": "w", "status": "completed"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
        {"type": "executable_code", "executable_code": "1", "language": "python"},
        {"type": "non_standard", "value": {"type": "mcp_call", "output": "x"}},
        {"type": "cachePoint"},
        {"cachePoint": {"type": "default"}},
        {"type": "citation", "cited_text": "x"},
    ]
    refused = {"type": "refusal", "refusal": "no"}
    text = {"type": "text", "text": "k"}
    assert to_dicts([AIMessage([text, *left, refused])]) == [
        {"role": "assistant", "content": "kno"}
    ]
    assert to_dicts([HumanMessage([*left, text])]) == [{"role": "user", "content": "k"}]
    declined = AIMessage("", additional_kwargs={"refusal": "no"})
    assert to_dicts([declined]) == [{"role": "assistant", "content": "no"}]


def test_a_message_without_content_is_refused() -> None:
    gone: BaseMessage = RemoveMessage(id="m1")
    with pytest.raises(marith.RequestError, match="RemoveMessage"):
        to_dicts([gone])
