"""Join the deltas of streamed chats."""

from __future__ import annotations

from typing import Any

import pytest
from support.http_server import WEATHER

TOOLS: dict[str, Any] = {"tools": [WEATHER], "tool_choice": "required"}
KINDS: list[dict[str, Any]] = [
    {},
    {"logprobs": True, "top_logprobs": 3},
    {"stop": ["the", "you"]},
    {"n": 3},
    TOOLS,
    {**TOOLS, "logprobs": True},
    {"presence_penalty": 1.5, "frequency_penalty": 0.5, "logit_bias": {"300": 5}},
    {"response_format": {"type": "json_object"}},
    {"grammar": 'start: "yes" | "no, never"'},
]


def joined(chunks: list[Any], index: int = 0) -> dict[str, Any]:
    """Return the message that the deltas of a choice add up to."""
    made: dict[str, Any] = {
        "content": "", "reasoning": "", "calls": {}, "logprobs": [], "reason": None,
    }  # fmt: skip
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        if choice["index"] != index:
            continue
        delta = choice["delta"]
        made["content"] += delta.get("content") or ""
        made["reasoning"] += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls", ()):
            known = made["calls"].setdefault(call["index"], {"name": "", "arguments": ""})
            known["name"] += call["function"].get("name", "")
            known["arguments"] += call["function"]["arguments"]
        made["logprobs"] += (choice.get("logprobs") or {}).get("content", [])
        made["reason"] = choice["finish_reason"] or made["reason"]
    return made


def require_joined(whole: Any, chunks: list[Any]) -> None:
    """Raise AssertionError unless the deltas of each choice add up to the whole choice."""
    for choice in whole["choices"]:
        made, message = joined(chunks, choice["index"]), choice["message"]
        assert made["content"] == (message["content"] or "")
        assert made["reasoning"] == message.get("reasoning_content", "")
        assert made["reason"] == choice["finish_reason"]
        calls = [call["function"] for call in message.get("tool_calls", ())]
        assert [*made["calls"].values()] == calls
        logprobs = (choice["logprobs"] or {}).get("content", [])
        for streamed, wanted in zip(made["logprobs"], logprobs, strict=True):
            assert streamed["bytes"] == wanted["bytes"]
            assert streamed["logprob"] == pytest.approx(wanted["logprob"], abs=1e-3)
    assert {chunk["id"] for chunk in chunks} == {chunks[0]["id"]}
