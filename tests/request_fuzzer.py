"""Requests in which anything may stand anywhere: each is answered, or refused by a MarithError.

Run as `python tests/request_fuzzer.py [how many] [first seed]`, from the project's folder, for
more than the suite's sample.
"""

from __future__ import annotations

import copy
import datetime
import math
import random
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

import marith
from langchain_marith import ChatMarith
from llamaindex_marith import Marith
from marith.testing import CHAT_TEMPLATE, tiny_model, tiny_tokenizer


class Rude:
    """Says nothing of itself."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def deep(kind: type, levels: int = 5000) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value] if kind is list else {"x": value}
    return value


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def doubled() -> list[Any]:
    """Small, and of 2⁶⁰ parts for who looks at each."""
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    return value


JUNK: tuple[Callable[[], Any], ...] = (
    *(lambda value=value: value for value in (None, True, 0, -1, 7, 1.5, 10**400, 1j)),
    *(lambda value=value: value for value in (math.nan, math.inf, b"", b"bytes", object, len)),
    *(lambda value=value: value for value in ("", " ", "a b", "\ud800", "\0", "{", "M", "(a+)+$")),
    *(lambda value=value: value for value in ("[" * 100_000, '{"a": ' * 3000, "a " * 3000)),
    *(lambda value=value: value for value in ([], {}, (), {1, 2}, [None], [[]], {1: 2}, {None: 3})),
    *(lambda value=value: value for value in (("user", "hi"), ["a"], {"a": {"b": [1]}}, {(1,): 2})),
    lambda: deep(list),
    lambda: deep(dict),
    lambda: deep(dict, 150),
    circle,
    doubled,
    Rude,
    lambda: datetime.datetime(2026, 1, 1),
    lambda: iter(["a"]),
)

# Frameworks look at what they hand on, before it is ours to refuse.
TAME = tuple(make for make in JUNK if make not in (doubled, circle, Rude))

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": "a"}}}
MESSAGES = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": [{"type": "text", "text": "u"}]},
    {"role": "assistant", "content": "a", "tool_calls": [CALL]},
    {"role": "tool", "content": "t", "tool_call_id": "c1", "name": "f"},
    {"role": "user", "content": "b c"},
]
PARAMETERS = {
    "type": "object",
    "properties": {"x": {"type": "string", "maxLength": 3}, "y": {"enum": ["a", 1]}},
    "required": ["x"],
}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": PARAMETERS}}
CORE = {
    "prompt": MESSAGES,
    "tools": {"definitions": [TOOL], "choice": "auto", "parallel": True, "strict": None},
    "grammar": {"kind": "json_schema", "text": '{"type": "integer"}'},
    "schema": PARAMETERS,
    "stop": {"max_tokens": 2, "strings": ["a", "b"]},
    "ban": {"words": ["c d"], "whole_words": True, "case_sensitive": False},
    "logprobs": 1,
    "template_options": {"tone": "low"},
    "timeout": 20.0,
    "speculation": "auto",
}
CHAT = {"max_tokens": 2, "stop": ["a"], "seed": 1, "temperature": 0.5, "ban": ["b"]}
LANGCHAIN = {
    **CHAT,
    "tools": [TOOL],
    "tool_choice": "auto",
    "strict": None,
    "parallel_tool_calls": True,
    "response_format": {"type": "json_schema", "json_schema": {"schema": PARAMETERS}},
    "chat_template_kwargs": {"tone": "low"},
    "top_logprobs": 1,
}
LLAMAINDEX = {
    **CHAT,
    "tools": [TOOL],
    "tool_choice": "auto",
    "tool_required": False,
    "allow_parallel_tool_calls": True,
    "logprobs": 1,
    "terms": {"a": "say a"},
}


def altered(value: Any, draw: random.Random, junk: Sequence[Callable[[], Any]] = JUNK) -> Any:
    """A copy in which something stands in another's place, or is missing."""
    value = copy.deepcopy(value)
    at, key = {"": value}, ""
    while draw.random() < 0.75:
        inner = at[key]
        if isinstance(inner, dict) and inner:
            at, key = inner, draw.choice(list(inner))
        elif isinstance(inner, list) and inner:
            at, key = inner, draw.randrange(len(inner))  # type: ignore[assignment]  # a list's
        else:
            break
    if key == "":
        return draw.choice(junk)()
    if draw.random() < 0.15:
        del at[key]
    else:
        at[key] = draw.choice(junk)()
    return value


def some(
    options: Mapping[str, Any], draw: random.Random, junk: Sequence[Callable[[], Any]] = JUNK
) -> dict[str, Any]:
    """A few of the options, of which one is altered."""
    names = draw.sample(list(options), draw.randint(1, 3))
    wrong = draw.choice(names)
    return {n: altered(options[n], draw, junk) if n == wrong else options[n] for n in names}


def by_core(engine: marith.Engine, draw: random.Random) -> None:
    given = some(CORE, draw)
    made: dict[str, Callable[..., Any]] = {
        "tools": marith.Tools,
        "grammar": marith.Grammar,
        "stop": marith.Stop,
        "ban": marith.Ban,
    }
    for name, make in made.items():
        if isinstance(given.get(name), dict) and all(isinstance(key, str) for key in given[name]):
            known = {key: given[name][key] for key in CORE[name] if key in given[name]}
            if known.keys() >= {*list(CORE[name])[:2]}:
                given[name] = make(**known)
    if "schema" in given:
        given["grammar"] = marith.Grammar.json_schema(given.pop("schema"))
    given.setdefault("stop", marith.Stop(2))
    engine.submit(marith.Request(**{"prompt": "a", **given})).result(60)


def by_langchain(model: ChatMarith, draw: random.Random) -> None:
    talk: list[Any] = [
        SystemMessage("s"),
        HumanMessage([{"type": "text", "text": "u"}]),
        AIMessage("a", tool_calls=[{"name": "f", "args": {"x": "a"}, "id": "c1"}]),
        ToolMessage("t", tool_call_id="c1"),
        HumanMessage("b"),
    ]
    if draw.random() < 0.5:
        message = draw.choice(talk)
        name = draw.choice(["content", "name", "tool_calls", "tool_call_id"])
        if name in type(message).model_fields:
            message.__dict__[name] = altered(getattr(message, name), draw, TAME)
    model.invoke(talk, **{"max_tokens": 2, **some(LANGCHAIN, draw, TAME)})


def by_llamaindex(model: Marith, draw: random.Random) -> None:
    call = ToolCallBlock(tool_call_id="c1", tool_name="f", tool_kwargs={"x": "a"})
    talk = [
        ChatMessage(role="user", content="u"),
        ChatMessage(role="assistant", blocks=[TextBlock(text="a"), call]),
        ChatMessage(role="tool", content="t", additional_kwargs={"tool_call_id": "c1"}),
        ChatMessage(role="user", content="b"),
    ]
    if draw.random() < 0.5:
        which = draw.choice(talk)
        which.additional_kwargs = {"tool_calls": altered([CALL], draw, TAME), "tool_call_id": "c1"}
        if draw.random() < 0.3:
            call.tool_kwargs = altered({"x": "a"}, draw, TAME)
    model.chat(talk, **{"max_tokens": 2, **some(LLAMAINDEX, draw, TAME)})


def saved(where: str) -> str:
    """A small model that reads chats."""
    tiny_model(seed=4, context_length=1024).save_pretrained(where)
    tiny_tokenizer(chat_template=CHAT_TEMPLATE).save_pretrained(where)
    return where


def is_ours(error: Exception) -> bool:
    """Whether an error came by way of this project; frameworks refuse some things before."""
    ours = {"marith", "langchain_marith", "llamaindex_marith"}
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_globals["__name__"].split(".")[0] in ours for frame in frames)


def faults(where: str, seeds: range) -> tuple[list[str], int]:
    """What other errors than a MarithError came of these seeds, and how many were answered."""
    chat, index = ChatMarith(model=where), Marith(model=where)
    ways: list[Callable[[random.Random], None]] = [
        lambda draw: by_core(chat.engine(), draw),
        lambda draw: by_langchain(chat, draw),
        lambda draw: by_llamaindex(index, draw),
    ]
    wrong, answered = [], 0
    for seed in seeds:
        try:
            ways[seed % 3](random.Random(seed))
            answered += 1
        except marith.MarithError as error:
            assert str(error)
        except Exception as error:
            if is_ours(error):
                wrong.append(f"seed {seed}: {type(error).__name__}: {str(error)[:200]}")
    return wrong, answered


if __name__ == "__main__":
    count, first = (*map(int, sys.argv[1:]), *(3000, 0)[len(sys.argv) - 1 :])
    with tempfile.TemporaryDirectory() as folder:
        wrong, answered = faults(saved(folder), range(first, first + count))
    print(*wrong, f"{count} requests, {answered} answered, {len(wrong)} wrong", sep="\n")
    sys.exit(bool(wrong))
