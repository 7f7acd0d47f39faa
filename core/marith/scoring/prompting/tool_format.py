"""Read from a chat template how the model writes tool calls and reasoning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marith.scoring.prompting.rendering import Refused, render

# No template contains these names and arguments, so the rendered text shows what surrounds them.
_FIRST, _SECOND = "zephyrlookup", "quartzlookup"
_ARGUMENTS = ({"kiwi": "mango"}, {"plum": "cherry"})
# The id has nine letters and digits, because some templates require that.
ID = "call00001"
_QUESTION = {"role": "user", "content": "question"}
_TEXT = "walnut answer"


@dataclass(frozen=True, slots=True)
class CallFormat:
    """The text around the names and arguments of calls.

    Calls are written as `opening` name `middle` arguments (`joint` name `middle` arguments)…
    `closing`. If `joint` is None, every call has its own `opening` and `closing`.
    """

    opening: str
    middle: str
    joint: str | None
    closing: str

    @property
    def marks(self) -> str:
        """All text around names and arguments, in which special tokens are looked for."""
        return f"{self.opening}{self.joint or ''}{self.closing}"

    def write(self, calls: Sequence[tuple[str, str]]) -> str:
        """Return calls as the model writes them. Each call is a name and its arguments as JSON."""
        written = [f"{json_text(name)}{self.middle}{arguments}" for name, arguments in calls]
        if self.joint is None:
            return "\n".join(f"{self.opening}{each}{self.closing}" for each in written)
        return f"{self.opening}{self.joint.join(written)}{self.closing}"


HERMES = CallFormat(
    '<tool_call>\n{"name": "',
    '", "arguments": ',
    '}\n</tool_call>\n<tool_call>\n{"name": "',
    "}\n</tool_call>",
)
THINKING = ("<think>", "</think>")
# Options of chat templates that turn reasoning on and off.
SWITCHES = "enable_thinking", "thinking"


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """The form in which a chat template shows tools, their calls and results, and reasoning.

    - `native`: the template itself writes calls, in the form of `calls`.
    - `offers`: the template lists the tools.
    - `answers`: the template shows what a tool returned.
    - `says`: the template keeps the text of an assistant's message that has a call.
    - `thinking`: the marks before and after reasoning.
    - `switch`: the option of the template that turns reasoning off if it is False.
    """

    calls: CallFormat = HERMES
    native: bool = False
    offers: bool = False
    answers: bool = False
    says: bool = False
    thinking: tuple[str, str] | None = None
    switch: str | None = None


def read_tool_format(tokenizer: Any) -> ToolFormat:
    """Return the tool format that the tokenizer's chat template shows."""
    template = str(getattr(tokenizer, "chat_template", None) or "")
    if not template:
        return ToolFormat()
    calls = call_format(tokenizer)
    thinks = THINKING[1] in template or THINKING[1] in tokenizer.get_added_vocab()
    return ToolFormat(
        calls or HERMES,
        calls is not None,
        offers_tools(tokenizer),
        answers_tools(tokenizer),
        _renders_text(tokenizer, {**_calls_of(1), "content": _TEXT}),
        THINKING if thinks else None,
        _switch(tokenizer, template) if thinks else None,
    )


def _switch(tokenizer: Any, template: str) -> str | None:
    """Return the option of a template that turns reasoning off, or None."""
    for name in SWITCHES:
        if name not in template:
            continue
        try:
            on, off = (render(tokenizer, [_QUESTION], (), {name: on}) for on in (True, False))
        except Refused:
            continue
        if on != off:
            return name
    return None


def call_format(tokenizer: Any) -> CallFormat | None:
    """Return how the template writes an assistant's calls, or None if it does not write calls.

    The format is found by rendering calls with names and arguments that no template contains. If a
    template writes an id, the id becomes part of the text around calls, the same for every call.
    """
    # An answer without a call shows what the template writes around every answer.
    try:
        plain = _render(tokenizer, {"role": "assistant", "content": _TEXT})
        one = _render(tokenizer, _calls_of(1))
    except Refused:
        return None
    before, text, end = plain.partition(_TEXT)
    first, second = (json.dumps(each) for each in _ARGUMENTS)
    alone = _split(one, (_FIRST, first))
    if not text or alone is None:
        return None
    head, middle, tail = alone
    before, end = before.rstrip(), end.strip()
    if not (head.startswith(before) and tail.rstrip().endswith(end)):
        return None
    opening, closing = head[len(before) :].lstrip(), tail.rstrip().removesuffix(end).rstrip()
    parts = _split(_two_calls(tokenizer), (_FIRST, first, _SECOND, second))
    equal = parts is not None and [parts[0], parts[1], parts[3], parts[4]] == [
        head,
        middle,
        middle,
        tail,
    ]
    joint = parts[2] if parts is not None and equal else None
    # A call needs an opening mark: only this mark shows that the text after it is a call.
    return CallFormat(opening, middle, joint, closing) if opening else None


def offers_tools(tokenizer: Any) -> bool:
    """Return True if the template lists the available tools."""
    tool = {"name": _FIRST, "description": _SECOND, "parameters": {"type": "object"}}
    try:
        text = render(tokenizer, [_QUESTION], [{"type": "function", "function": tool}])
    except Refused:
        return False
    return _FIRST in text and _SECOND in text


def answers_tools(tokenizer: Any) -> bool:
    """Return True if the template shows the result of a tool."""
    answer = {"role": "tool", "tool_call_id": ID, "name": _FIRST, "content": _TEXT}
    return _renders_text(tokenizer, _calls_of(1), answer)


def spelt_out(
    messages: Sequence[Mapping[str, Any]], calls: CallFormat | None, answers: bool
) -> list[dict[str, Any]]:
    """Return messages whose calls are text, in the form of `calls`.

    If `calls` is None, calls stay as they are. With `answers`, the results of tools become text
    too.
    """
    written = []
    for message in map(dict, messages):
        if calls is not None and message.get("tool_calls"):
            pairs = [(call["function"]["name"], _json(call)) for call in message.pop("tool_calls")]
            message["content"] = "\n".join(filter(None, (message["content"], calls.write(pairs))))
        if answers and message["role"] == "tool":
            name = f"{message['name']}: " if message.get("name") else ""
            text = f"<tool_response>\n{name}{message['content']}\n</tool_response>"
            message = {"role": "user", "content": text}
        written.append(message)
    return written


def numbered(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages with new ids for their calls, in a form that every template accepts."""
    numbers: dict[Any, str] = {}

    def number(old: Any) -> str:
        return numbers.setdefault(old, f"call{len(numbers) + 1:05d}")

    numbered_messages = []
    for message in map(dict, messages):
        if message.get("tool_calls"):
            calls = message["tool_calls"]
            message["tool_calls"] = [{**call, "id": number(call.get("id"))} for call in calls]
        elif message["role"] == "tool":
            message["tool_call_id"] = number(message.get("tool_call_id"))
        numbered_messages.append(message)
    return numbered_messages


def with_tools_listed(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], calls: CallFormat
) -> list[dict[str, Any]]:
    """Return messages whose system text lists the tools, for a template that does not list them."""
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    shape = calls.write([("name of the function", "{its arguments}")])
    instructions = (
        f"You may call functions to answer. These are available:\n{listed}\n\n"
        f"To call one, reply with nothing but:\n{shape}"
    )
    first, *rest = map(dict, messages) if messages else ({"role": "user", "content": ""},)
    if first["role"] in ("system", "developer"):
        return [{**first, "content": f"{first['content']}\n\n{instructions}"}, *rest]
    return [{"role": "system", "content": instructions}, first, *rest]


def _renders_text(tokenizer: Any, *messages: Mapping[str, Any]) -> bool:
    try:
        return _TEXT in _render(tokenizer, *messages)
    except Refused:
        return False


def _two_calls(tokenizer: Any) -> str:
    """Render two calls in one message. Return "" if the template allows only one."""
    try:
        return _render(tokenizer, _calls_of(2))
    except Refused:
        return ""


def _json(call: Mapping[str, Any]) -> str:
    arguments = call["function"]["arguments"]
    is_text = isinstance(arguments, str)
    return arguments if is_text else json.dumps(arguments, ensure_ascii=False)


def _calls_of(count: int) -> dict[str, Any]:
    named = zip((_FIRST, _SECOND)[:count], _ARGUMENTS, strict=False)
    calls = [
        {
            "id": ID,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for name, arguments in named
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _render(tokenizer: Any, *messages: Mapping[str, Any]) -> str:
    return render(tokenizer, [_QUESTION, *messages], opens=False)


def _split(text: str, marks: Sequence[str]) -> list[str] | None:
    """Return the texts around the marks, or None unless each mark occurs once and in order."""
    pieces = []
    for mark in marks:
        if text.count(mark) != 1:
            return None
        piece, _, text = text.partition(mark)
        pieces.append(piece)
    return [*pieces, text]


def json_text(name: str) -> str:
    """Return a name as it is written between the quotes of a JSON string."""
    return json.dumps(name, ensure_ascii=False)[1:-1]
