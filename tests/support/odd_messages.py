"""Random conversations in the forms of several providers, with odd and missing parts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from llama_index.core.base.llms.types import (
    CachePoint,
    CitableBlock,
    CitationBlock,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms import ChatMessage as IndexMessage

from marith.openai_format import to_tool_call

PIXEL = "iVBORw0KGgo="
BLOCKS: list[Any] = [
    "k",
    {"type": "text", "text": "k"},
    {"text": "k"},
    {"type": "input_text", "text": "k"},
    {"type": "output_text", "text": "k", "annotations": [{"type": "url_citation", "url": "u"}]},
    {"type": "refusal", "refusal": "no"},
    {"type": "thinking", "thinking": "k", "signature": "s"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "k"}]},
    {"thought": True, "text": "k"},
    {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
    {"type": "tool_call", "id": "c1", "name": "f", "args": {"a": 1}},
    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "k"}]},
    {"type": "server_tool_use", "id": "c2", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "c2", "content": [{"url": "u"}]},
    {"type": "web_search_call", "status": "completed"},
    {"type": "mcp_call", "name": "f", "output": "k"},
    {"type": "executable_code", "executable_code": "1"},
    {"type": "non_standard", "value": {"type": "refusal", "refusal": "no"}},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "k"}},
    {"type": "search_result", "source": "u", "content": [{"type": "text", "text": "k"}]},
    {"cachePoint": {"type": "default"}},
    {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}},
    {"toolResult": {"toolUseId": "c1", "content": [{"text": "k"}, {"json": {"a": 1}}]}},
    {"functionResponse": {"name": "f", "response": {"a": 1}}},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    {"inline_data": {"mime_type": "image/png", "data": PIXEL}},
]
CALLS: list[Any] = [
    to_tool_call("c1", "f", '{"a": 1}'),
    to_tool_call("c1", "f", {"a": 1}),
    {"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"},
    {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
    {"function": {"name": "f", "arguments": "{}"}},
]
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "k"},
    {"role": "user", "content": "k l"},
    {"role": "user", "content": BLOCKS[:4]},
    {"role": "assistant", "content": "k", "name": "n", "refusal": None},
    {"role": "assistant", "content": None, "refusal": "no"},
    {"role": "assistant", "content": [BLOCKS[5], *BLOCKS[10:13]]},
    *({"role": "assistant", "content": None, "tool_calls": [call, CALLS[-1]]} for call in CALLS),
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "tool", "content": "k", "tool_call_id": "c1", "name": "f"},
    {"role": "tool", "content": [{"type": "text", "text": "k"}]},
    {"role": "tool", "content": [BLOCKS[11], BLOCKS[1], BLOCKS[11]], "tool_call_id": "c1"},
    {"role": "function", "content": "k", "name": "f"},
]
PLAIN: list[Any] = [None, "", " ", "k", "c1", "f", "tool", 0, 7, True, 1.5, [], {}, [[]], [None]]
ODD = st.sampled_from([*PLAIN, {"k": "l"}, {"": None}, ["k"], "{", "<|end|>"])


@st.composite
def conversations(draw: Callable[..., Any]) -> list[Any]:
    """Draw a few messages. Some have blocks of any provider, and some are odd."""
    messages = copy.deepcopy(draw(st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=5)))
    if draw(st.booleans()):
        draw(st.sampled_from(messages))["content"] = copy.deepcopy(
            draw(st.lists(st.sampled_from(BLOCKS), max_size=3))
        )
    for _ in range(draw(st.integers(0, 3))):
        _alter(draw, messages)
    return messages


def _alter(draw: Callable[..., Any], messages: Any) -> None:
    """Remove or replace one part of the messages."""
    inner = draw(st.sampled_from(messages))
    while isinstance(inner, (dict, list)) and inner:
        key = draw(st.sampled_from([*inner] if isinstance(inner, dict) else [*range(len(inner))]))
        deeper = inner[key]
        if not (isinstance(deeper, (dict, list)) and deeper and draw(st.booleans())):
            if draw(st.booleans()):
                del inner[key]
            else:
                inner[key] = copy.deepcopy(draw(ODD | st.sampled_from(BLOCKS)))
            return
        inner = deeper


_KINDS: dict[Any, Callable[..., BaseMessage]] = {
    "system": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
    "tool": lambda content: ToolMessage(content, tool_call_id=""),
    "function": lambda content: FunctionMessage(content=content, name="f"),
}


def for_langchain(message: dict[str, Any]) -> BaseMessage:
    """Return the message as a message of LangChain, also with values that its classes refuse."""
    kind = message.get("role")
    role = kind if isinstance(kind, str) else "user"
    make = _KINDS.get(role, lambda content: ChatMessage(content, role=role))
    content = message.get("content")
    made = make(content if isinstance(content, str) else "")
    noted = {key: message[key] for key in ("function_call", "refusal") if key in message}
    odd = {key: message[key] for key in ("content", "name", "tool_call_id") if key in message}
    calls = message.get("tool_calls")
    with suppress(Exception):  # LangChain reads calls of OpenAI's form, if it can
        made = AIMessage("", additional_kwargs={"tool_calls": calls}) if calls else made
    if isinstance(made, AIMessage) and not made.tool_calls and calls is not None:
        odd["tool_calls"] = calls
    made.__dict__.update(odd, additional_kwargs=noted)
    return made


def for_llamaindex(message: dict[str, Any]) -> IndexMessage:
    """Return the message as a message of LlamaIndex, with its other fields beside it."""
    noted = {key: value for key, value in message.items() if key not in ("role", "content")}
    kind, content = message.get("role"), message.get("content")
    role = kind if isinstance(kind, str) and kind in _KINDS else "user"
    if isinstance(content, list):
        blocks = [_index_block(block) for block in content]
        return IndexMessage(role=role, blocks=blocks, additional_kwargs=noted)
    text = content if isinstance(content, str) else None
    return IndexMessage(role=role, content=text, additional_kwargs=noted)


def _index_block(block: Any) -> ContentBlock:
    match block:
        case {"type": "tool_use" | "tool_call", **given}:
            kwargs = given.get("input", given.get("args"))
            id_, name = given.get("id"), given.get("name")
            return ToolCallBlock.model_construct(
                tool_call_id=id_, tool_name=name, tool_kwargs=kwargs
            )
        case {"type": "thinking" | "reasoning"}:
            return ThinkingBlock(content="k")
        case {"cachePoint": _}:
            return CachePoint.model_construct(cache_control=None)
        case {"type": "image_url"}:
            return ImageBlock(url="https://a.b/c.png")
        case {"type": "search_result", "source": str(source)}:
            return CitableBlock(title="t", source=source, content=[TextBlock(text="k")])
        case {"type": "citation" | "non_standard"}:
            quoted = TextBlock(text="k")
            return CitationBlock.model_construct(cited_content=quoted, source="s", title="t")
    return TextBlock(text="k")
