"""Law: where `tool_choice` is "none", no answer has a call, by whatever door.

Inspect is not among the doors, because it sends no tools then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from llama_index.core.tools import FunctionTool
from support.http_server import client, served
from support.langchain_models import MAP, NOON, SCRIPT, clock

from langchain_marith import ChatMarith
from llamaindex_marith import Marith
from marith import Engine, Tools
from marith.testing import save_scripted

ASKED = "What time is it?"  # what SCRIPT answers by a call
CLOCK = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "Tell the time at a place.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}},
            "required": ["place"],
        },
    },
}
Answer = tuple[str, int]  # the text, and the number of calls
Door = Callable[[str, str, Path], Answer]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_scripted(tmp_path_factory.mktemp("calling"), SCRIPT)


def by_python(model: str, choice: str, _: Path) -> Answer:
    tools = Tools((CLOCK, MAP), choice)
    out = Engine.shared(model).generate(ASKED, tools=tools, temperature=0, max_tokens=60)
    return out.text, len(out.calls)


def by_langchain(model: str, choice: str, _: Path) -> Answer:
    chat = ChatMarith(model=model, temperature=0, max_tokens=60)
    answer = chat.bind_tools([clock, MAP], tool_choice=choice).invoke([HumanMessage(ASKED)])
    return str(answer.text), len(answer.tool_calls)


def by_llamaindex(model: str, choice: str, _: Path) -> Answer:
    llm = Marith(model=model, temperature=0, max_tokens=60)
    tool = FunctionTool.from_defaults(clock)
    answer = llm.chat_with_tools([tool], ASKED, tool_choice=choice)
    calls = llm.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
    return str(answer.message.content or ""), len(calls)


def over_http(model: str, choice: str, folder: Path) -> Answer:
    with served(folder, personas=f"[model]\nmodel = {model!r}\n") as server, client(server) as web:
        body = {
            "model": web.get("/v1/models").json()["data"][0]["id"],
            "messages": [{"role": "user", "content": ASKED}],
            "tools": [CLOCK, MAP],
            "tool_choice": choice,
            "temperature": 0,
            "max_tokens": 60,
        }
        message = web.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    return message["content"] or "", len(message.get("tool_calls") or ())


@pytest.mark.parametrize("ask", [by_python, by_langchain, by_llamaindex, over_http])
def test_with_tool_choice_none_no_answer_has_a_call(
    ask: Callable[[str, str, Path], Answer], model: str, tmp_path: Path
) -> None:
    assert ask(model, "auto", tmp_path) == ("I look.", 1)
    text, calls = ask(model, "none", tmp_path)
    assert text.startswith("I look.")
    assert "<tool_call>" in NOON
    assert (calls, "<tool_call>" in text) == (0, False)
