"""Law: a conversation with reasoning is one prompt, through every interface.

The chat template decides whether the prompt shows the reasoning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    get_model,
)
from inspect_ai.tool import ToolCall
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from llama_index.core.base.llms.types import TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage
from support.http_server import client, served
from transformers import AutoTokenizer

from langchain_marith import ChatMarith
from llamaindex_marith import Marith
from marith import Engine
from marith.openai_format import to_tool_call
from marith.scoring.prompting import templates
from marith.scoring.weights.loader import locate
from marith.testing import save_scripted

SHOWS = "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
CHAT = (
    "{% for m in messages %}[{{ m.role }}] @{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
TEXT = {"type": "text", "text": "I look."}
ASKED, TOLD, PLAN = "What time is it?", "Noon.", "The clock knows."
FIELDS: list[dict[str, Any]] = [{"reasoning_content": PLAN}, {"reasoning": PLAN}]
BLOCKS: list[dict[str, Any]] = [
    {"type": "reasoning", "reasoning": PLAN},
    {"type": "thinking", "thinking": PLAN, "signature": "s"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": PLAN}]},
    {"type": "reasoning", "content": [{"type": "reasoning_text", "text": PLAN}], "summary": []},
    {"type": "reasoning_content", "reasoning_content": {"type": "text", "text": PLAN}},
    {"reasoningContent": {"reasoningText": {"text": PLAN, "signature": "s"}}},
    {"thought": True, "text": PLAN},
]


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the template writes of conversations that begin with `ASKED`."""
    prompts: list[str] = []

    def render(*given: Any, **options: Any) -> str:
        text = real(*given, **options)
        prompts.extend([text] * (ASKED in text))
        return text

    real = templates.render
    monkeypatch.setattr(templates, "render", render)
    return prompts


@pytest.mark.parametrize("shown", [True, False])
async def test_reasoning_is_one_prompt_by_every_door(
    shown: bool, prompts: list[str], tmp_path: Path
) -> None:
    model = _saved(tmp_path, shown)
    _by_langchain(model)
    _by_llamaindex(model)
    await _by_inspect(model, None)
    _over_http(model, tmp_path)
    for message in _of_openai():
        asked = [{"role": "user", "content": ASKED}, message, _told()]
        Engine.shared(model).generate(asked, max_tokens=1)
    assert len(prompts) == 3 * len(BLOCKS) + 2 * len(FIELDS) + 3
    assert len(set(prompts)) == 1, {*prompts}
    assert (PLAN in prompts[0]) is shown


async def test_inspect_decides_which_reasoning_comes_back(
    prompts: list[str], tmp_path: Path
) -> None:
    model = _saved(tmp_path, shown=True)
    for history in ("none", "last", "all"):
        await _by_inspect(model, history)
    assert [PLAN in prompt for prompt in prompts] == [False, True, True]


def _saved(folder: Path, shown: bool) -> str:
    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"))
    tokenizer.chat_template = CHAT.replace("@", SHOWS if shown else "")
    return save_scripted(folder, [("", "Good day.")], tokenizer)


def _of_openai() -> list[dict[str, Any]]:
    said = {"role": "assistant", "tool_calls": [to_tool_call("call00001", "clock", "{}")]}
    return [
        *({**said, "content": [TEXT], **field} for field in FIELDS),
        *({**said, "content": [block, TEXT]} for block in BLOCKS),
    ]


def _told() -> dict[str, Any]:
    return {"role": "tool", "content": TOLD, "tool_call_id": "call00001"}


def _by_langchain(model: str) -> None:
    call = {"name": "clock", "args": {}, "id": "call00001", "type": "tool_call"}
    of_field = AIMessage([TEXT], additional_kwargs=FIELDS[0], tool_calls=[call])
    of_blocks = [AIMessage([block, TEXT], tool_calls=[call]) for block in BLOCKS]
    told = ToolMessage(TOLD, tool_call_id="call00001")
    for message in (of_field, *of_blocks):
        ChatMarith(model=model, max_tokens=1).invoke([HumanMessage(ASKED), message, told])


def _by_llamaindex(model: str) -> None:
    call = ToolCallBlock(tool_call_id="call00001", tool_name="clock", tool_kwargs={})
    blocks = [ThinkingBlock(content=PLAN), TextBlock(text=TEXT["text"]), call]
    told = ChatMessage(role="tool", content=TOLD, additional_kwargs={"tool_call_id": "call00001"})
    asked = [ChatMessage(role="user", content=ASKED), None, told]
    asked[1] = ChatMessage(role="assistant", blocks=blocks)
    Marith(model=model, max_tokens=1).chat(asked)


async def _by_inspect(model: str, history: Any) -> None:
    call = ToolCall(id="call00001", function="clock", arguments={})
    content = [ContentReasoning(reasoning=PLAN), ContentText(text=TEXT["text"])]
    messages = [
        ChatMessageUser(content=ASKED),
        ChatMessageAssistant(content=content, tool_calls=[call]),
        ChatMessageTool(content=TOLD, tool_call_id="call00001", function="clock"),
    ]
    config = GenerateConfig(max_tokens=1, reasoning_history=history)
    await get_model(f"marith/{model}", memoize=False).generate(messages, config=config)


def _over_http(model: str, folder: Path) -> None:
    with served(folder, personas=f"[model]\nmodel = {model!r}\n") as server, client(server) as web:
        name = web.get("/v1/models").json()["data"][0]["id"]
        for message in _of_openai():
            messages = [{"role": "user", "content": ASKED}, message, _told()]
            body = {"model": name, "messages": messages, "max_tokens": 1}
            assert web.post("/v1/chat/completions", json=body).status_code == 200
