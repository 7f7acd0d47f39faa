"""What is read of the content blocks of any provider, and what is left out or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from marith import RequestError
from marith.request.message_content import plain_messages, text_of, to_tool_call

READ: list[dict[str, Any]] = [
    {"type": "text", "text": "k"},
    {"text": "k"},
    {"type": "input_text", "text": "k"},
    {"type": "output_text", "text": "k", "annotations": []},
    {"type": "refusal", "refusal": "k"},
    {"type": "text-plain", "text": "k", "mime_type": "text/plain"},
    {"type": "file", "source_type": "text", "text": "k"},
    {"type": "text", "text": {"value": "k", "annotations": []}},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "k"}},
    {"type": "document", "source": {"type": "content", "content": [{"text": "k"}]}},
    {"type": "search_result", "source": "u", "content": [{"type": "text", "text": "k"}]},
    {"type": "resource", "resource": {"uri": "u", "mimeType": "text/plain", "text": "k"}},
    {"type": "guard_content", "guard_content": {"text": {"text": "k"}}},
    {"guardContent": {"text": {"text": "k", "qualifiers": []}}},
    {"citationsContent": {"content": [{"text": "k"}], "citations": []}},
    {"type": "non_standard", "value": {"type": "refusal", "refusal": "k"}},
    {"type": "unheard_of", "text": "k"},
    {"type": "call_transcript", "text": "k"},
    {"type": "tool_notes", "text": "k"},
    {"type": "citations", "content": [{"text": "k"}]},
    {"type": "thinking_aloud", "text": "k"},
]
LEFT: list[dict[str, Any]] = [
    *(
        {"type": kind, "id": "i", "status": "completed", "output": "x", "text": "x"}
        for kind in (
            "web_search_call", "file_search_call", "code_interpreter_call", "mcp_call",
            "mcp_list_tools", "mcp_approval_request", "image_generation_call", "computer_call",
            "computer_call_output", "local_shell_call", "custom_tool_call", "function_call",
            "server_tool_use", "server_tool_call", "server_tool_result", "tool_reference",
            "thinking", "redacted_thinking", "reasoning", "reasoning_content", "citation",
        )
    ),
    {"type": "web_fetch_tool_result", "content": {"content": {"type": "document", "data": "x"}}},
    {"type": "web_search_tool_result", "content": [{"type": "text", "text": "x"}]},
    {"type": "code_execution_tool_result", "content": {"stdout": "x"}},
    {"type": "mcp_tool_result", "content": [{"type": "text", "text": "x"}]},
    {"type": "web_search_result", "url": "u", "encrypted_content": "x"},
    {"type": "executable_code", "executable_code": "x"},
    {"type": "code_execution_result", "code_execution_result": "x"},
    {"executable_code": {"code": "x", "language": "PYTHON"}},
    {"thought": True, "text": "x"},
    {"reasoningContent": {"reasoningText": {"text": "x"}}},
    {"type": "cachePoint"},
    {"cachePoint": {"type": "default"}},
    {"type": "non_standard", "value": {"id": "x"}},
    {"type": "non_standard", "value": {"type": "mcp_call", "output": "x"}},
    {"type": "container_upload", "file_id": "x"},
]  # fmt: skip
REFUSED: list[Any] = [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    {"type": "input_image", "file_id": "f"},
    {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    {"type": "video_url", "video_url": {"url": "u"}},
    {"type": "file", "file": {"file_id": "f"}},
    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}},
    {"type": "image", "source": {"type": "url", "url": "u"}},
    {"type": "media", "mime_type": "video/mp4", "data": "AA=="},
    {"type": "unheard_of", "mime_type": "image/png", "data": "AA=="},
    {"image": {"format": "png", "source": {"bytes": "AA=="}}},
    {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
    {"type": "non_standard", "value": {"type": "image", "url": "u"}},
    {"type": "text", "text": 7},
    {"type": "text"},
    {},
    7,
    None,
]


@pytest.mark.parametrize("block", READ, ids=str)
def test_text_is_read_in_every_form(block: Any) -> None:
    assert text_of([block, "l"]) == "kl"


@pytest.mark.parametrize("block", LEFT, ids=str)
def test_metadata_of_content_is_left_out(block: Any) -> None:
    assert text_of([block, {"type": "text", "text": "l"}]) == "l"


@pytest.mark.parametrize("block", REFUSED, ids=str)
def test_content_that_is_not_text_is_refused(block: Any) -> None:
    with pytest.raises(RequestError, match="only text can be read, not "):
        text_of([block])


def test_a_refusal_is_read_as_text_of_the_assistant() -> None:
    (message,) = plain_messages({"role": "assistant", "content": None, "refusal": "no"})
    assert message["content"] == "no"


def test_reasoning_stands_beside_the_text_of_an_answer() -> None:
    """A block that is encrypted has none, and what a user writes there is nobody's reasoning."""
    thoughts = [{"type": "thinking", "thinking": "j"}, {"thought": True, "text": "k"}]
    sealed = {"type": "redacted_thinking", "data": "x"}
    said = {"role": "assistant", "content": [*thoughts, sealed, "l"]}
    (message,) = plain_messages(said)
    assert message == {"role": "assistant", "content": "l", "reasoning_content": "j\n\nk"}
    (message,) = plain_messages({**said, "reasoning_content": "i"})
    assert message["reasoning_content"] == "i"
    for empty in (None, "", 7):
        kept = {"role": "assistant", "content": "l", "reasoning_content": empty}
        assert plain_messages(kept) == [{"role": "assistant", "content": "l"}]
    (message,) = plain_messages({**said, "reasoning_content": "i", "reasoning": "i"})
    assert "reasoning" not in message, "a copy would stay when `hide` cleans the first"
    asked = {**said, "role": "user", "reasoning_content": "i"}
    assert plain_messages(asked) == [{"role": "user", "content": "l"}]


CALLS: list[Any] = [
    to_tool_call("c1", "f", {"a": 1}),
    {"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"},
    {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
    {"type": "function_call", "call_id": "c1", "id": "i", "name": "f", "arguments": {"a": 1}},
    {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}},
    {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}},
    {"function_call": {"id": "c1", "name": "f", "args": {"a": 1}}},
]
FORMS = [
    "OpenAI",
    "LangChain",
    "Anthropic",
    "OpenAI's items",
    "Bedrock",
    "Gemini",
    "Gemini in Python",
]


@pytest.mark.parametrize("call", CALLS, ids=FORMS)
def test_calls_of_every_form_are_openai_s(call: Any) -> None:
    (message,) = plain_messages({"role": "assistant", "content": None, "tool_calls": [call]})
    assert message["tool_calls"] == [CALLS[0]]
    if call in CALLS[1:]:
        (message,) = plain_messages({"role": "assistant", "content": ["k", call]})
        assert message["tool_calls"] == [CALLS[0]]


def test_the_older_function_call_is_read_as_a_tool_call() -> None:
    once = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    (message,) = plain_messages(once)
    assert message["tool_calls"] == [to_tool_call(None, "f", "{}")]
    assert "function_call" not in message


def test_results_in_a_users_message_are_messages() -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "k", "is_error": True}
    told = {"role": "tool", "content": "Error: k", "tool_call_id": "c1"}
    question = {"role": "user", "content": "l"}
    assert plain_messages({"role": "user", "content": [result]}) == [told]
    assert plain_messages({"role": "user", "content": [result, "l"]}) == [told, question]


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"toolResult": {"toolUseId": "c1", "content": [{"text": "k"}]}}, {"content": "k"}),
        (
            {"toolResult": {"toolUseId": "c1", "content": [{"json": {"t": 2}}], "status": "error"}},
            {"content": 'Error: {"t": 2}'},
        ),
        (
            {"functionResponse": {"id": "c1", "name": "f", "response": {"t": "é"}}},
            {"content": '{"t": "é"}', "name": "f"},
        ),
        (
            {"function_response": {"id": "c1", "name": "f", "response": {"t": 2}}},
            {"content": '{"t": 2}', "name": "f"},
        ),
        ({"type": "function_call_output", "call_id": "c1", "output": "k"}, {"content": "k"}),
    ],
)
def test_results_of_every_form_are_messages(block: Any, told: dict[str, str]) -> None:
    assert plain_messages({"role": "user", "content": [block]}) == [
        {"role": "tool", "tool_call_id": "c1", **told}
    ]


@pytest.mark.parametrize("key", ["json", "value"])
def test_json_of_a_tool_is_read_as_text(key: str) -> None:
    for value in ({"t": 22}, [1, "é"], 7, None):
        block = {"type": "json", key: value}
        (message,) = plain_messages({"role": "tool", "content": [block], "tool_call_id": "c1"})
        assert json.loads(message["content"]) == value
    with pytest.raises(RequestError, match="the answer of a tool"):
        text_of([{"type": "json", "json": {1, 2}}])
