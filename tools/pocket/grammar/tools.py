"""Draw chats with tools: the right call, with values copied from the request, and a report."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

from tools.pocket.grammar import toolbox, words
from tools.pocket.grammar.document import Document
from tools.pocket.grammar.passages import WELL_KNOWN
from tools.pocket.grammar.toolbox import TABLE, Parameter, Tool, pick, request

Message = dict[str, Any]
_NOUNS: list[str] = TABLE["entry_nouns"].split()
_ENTRY_KEYS = ("entry_keys", "about_keys")
_TYPES = {
    "age": "integer",
    "year": "integer",
    "integer": "integer",
    "rating": "integer",
    "decimal": "number",
    "boolean": "boolean",
}


def _calls(pairs: list[tuple[str, dict[str, Any]]], first: int = 1) -> Message:
    """Return the assistant's message that calls tools by name."""
    calls = [
        {
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for index, (name, arguments) in enumerate(pairs, first)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _result(tool: Tool, rng: Random) -> tuple[str, str]:
    """Draw the result of the tool, and the sentence that tells it to the user."""
    if rng.random() < 0.1:
        error = rng.choice(TABLE["errors"])
        error = error.format(noun=tool.noun, name=tool.name, k=rng.randint(2, 600))
        sentence = rng.choice(TABLE["error_answers"])
        return error, sentence.format(e=error.removeprefix("Error: "), name=tool.name)
    kind = rng.choice(TABLE["values"]) if tool.asks else rng.choice(("code", "code", "integer"))
    value, _ = pick(kind, rng)
    form = rng.choice(TABLE["results" if tool.asks else "act_results"])
    key, shown = tool.noun.replace(" ", "_"), json.dumps(value, ensure_ascii=False)
    result = form.format(r=value, j=shown, noun=tool.noun, key=key)
    answer = rng.choice(TABLE["answers" if tool.asks else "act_answers"])
    return result, str(answer.format(r=value, noun=tool.noun, name=tool.name))


def _returned(name: str, content: str, index: int = 1) -> Message:
    return {"role": "tool", "tool_call_id": f"call_{index}", "name": name, "content": content}


def _say(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _chat(rng: Random) -> tuple[str, str]:
    """Draw a question or a remark that needs no tool, and the reply."""
    if rng.random() < 0.3:
        ask, reply, _, _ = rng.choice(WELL_KNOWN)
        return ask, reply
    ask, reply = rng.choice(TABLE["chats"])
    slots = {"w": words.name(rng), "c": words.city(rng)}
    word = words.secret(rng)
    slots["x"] = word
    return ask.format(**slots), reply.format(**slots)


def _double(tools: list[Tool], rng: Random) -> list[Message]:
    """Draw two calls: at once, or one after the other."""
    first, second = rng.sample(tools, 2) if len(tools) > 1 else [tools[0], tools[0]]
    (ask, given), (also, more) = request(first, rng), request(second, rng)
    form = rng.choice(TABLE["parallel"])
    result, answer = _result(first, rng)
    outcome, reply = _result(second, rng)
    messages = [_say("user", form.format(x=ask, y=also))]
    if first is second and given == more:
        messages = [_say("user", ask), _calls([(first.name, given)])]
        return [*messages, _returned(first.name, result), _say("assistant", answer)]
    if rng.random() < 0.5:
        messages.append(_calls([(first.name, given), (second.name, more)]))
        messages.append(_returned(first.name, result))
    else:
        messages += [_calls([(first.name, given)]), _returned(first.name, result)]
        messages.append(_calls([(second.name, more)], 2))
    messages.append(_returned(second.name, outcome, 2))
    return [*messages, _say("assistant", f"{answer} {reply}")]


def _chain(tools: list[Tool], rng: Random) -> tuple[list[Tool], list[Message]]:
    """Draw two calls, the second with the result of the first, and all tools with the second's."""
    first, second = rng.sample(tools, 2)
    field = rng.choice(("input", "value", "source", words.pseudo_word(rng)))
    value = words.secret(rng)
    parameter = Parameter(field, {"type": "string"}, value, value)
    changed = replace(second, parameters=(parameter,))
    ask, given = request(first, rng)
    then = rng.choice(TABLE["then"]).format(verb=second.verb, noun=second.noun, name=second.name)
    result, answer = _result(second, rng)
    messages = [
        _say("user", f"{ask} {then}"),
        _calls([(first.name, given)]),
        _returned(first.name, value),
        _calls([(second.name, {field: value})], 2),
        _returned(second.name, result, 2),
        _say("assistant", answer),
    ]
    return [changed if tool is second else tool for tool in tools], messages


def _single(tool: Tool, full: bool, rng: Random, index: int = 1) -> list[Message]:
    """Draw one call, and with `full` its result and the report."""
    text, arguments = request(tool, rng)
    messages = [_say("user", text), _calls([(tool.name, arguments)], index)]
    if full:
        result, answer = _result(tool, rng)
        messages += [_returned(tool.name, result, index), _say("assistant", answer)]
    return messages


def _remark(rng: Random) -> list[Message]:
    ask, reply = _chat(rng)
    return [_say("user", ask), _say("assistant", reply)]


def _record(rng: Random) -> tuple[Tool, list[Message]]:
    """Draw one tool whose parameters are fields of the user's text, and a chat that fills them."""
    form = rng.choice(TABLE["extractions"])
    parameters = []
    for each in form["fields"]:
        field, kind = each.split(":")
        value, spoken = pick(kind, rng)
        schema = {"type": _TYPES.get(kind, "string")}
        parameters.append(Parameter(field, schema, value, spoken))
    name = rng.choice(form["names"].split())
    if rng.random() < 0.2:
        name = f"{name}_{words.word(rng)}"
    text = rng.choice(form["texts"]).format(**{each.name: each.spoken for each in parameters})
    text = rng.choice(TABLE["extract_asks"]).format(t=text)
    arguments = {each.name: each.value for each in parameters}
    messages = [_say("user", text), _calls([(name, arguments)])]
    if rng.random() < 0.3:
        result = rng.choice(("ok", "saved", "done", f"id {words.code(rng)}"))
        messages += [_returned(name, result), _say("assistant", rng.choice(TABLE["saved"]))]
    if rng.random() < 0.3:
        messages.insert(0, _say("system", rng.choice(TABLE["extract_systems"])))
    return Tool(name, "", "", False, form["description"], tuple(parameters)), messages


def _entry(rng: Random) -> tuple[Tool, list[Message]]:
    """Draw one tool that stores a name, often in another script, and a chat that uses it."""
    noun = rng.choice(_NOUNS) if rng.random() < 0.7 else words.pseudo_word(rng)
    verb = rng.choice(TABLE["entry_verbs"].split())
    kind = rng.choice(("foreign", "foreign", "foreign", "located", "firm", "quoted", "full_name"))
    value, spoken = pick(kind, rng)
    trait, trade = rng.choice(TABLE["entry_traits"].split("|")), words.word(rng)
    about = f"{trait} {rng.choice((trade, rng.choice(words.LISTS['country']), trade))} {noun}"
    keys = [rng.choice(TABLE[each].split()).format(noun=noun) for each in _ENTRY_KEYS]
    texts = ("the name as it is written", "its name", "what it is", "Some words about it.")
    parameters = []
    for key, given in zip(keys, (value, about), strict=True):
        schema: dict[str, Any] = {"type": "string"}
        if rng.random() < 0.4:
            schema["description"] = rng.choice(texts)
        parameters.append(Parameter(key, schema, given, given))
    if rng.random() < 0.3:
        parameters, about = parameters[:1], rng.choice((about, "it is new"))
    form = rng.choice(TABLE["entries"])
    text = form.format(verb=verb, Verb=words.capital(verb), noun=noun, v=spoken, about=about)
    tool = toolbox.named(verb, noun, f"{words.capital(verb)} a {noun}.", tuple(parameters), rng)
    arguments = {each.name: each.value for each in parameters}
    messages = [_say("user", text), _calls([(tool.name, arguments)])]
    if rng.random() < 0.3:
        result, answer = _result(tool, rng)
        messages += [_returned(tool.name, result), _say("assistant", answer)]
    return tool, messages


def _toolset(rng: Random) -> list[Tool]:
    """Draw one to five tools of different names. The more tools, the fewer parameters."""
    count = rng.choice((1, 1, 1, 2, 2, 2, 3, 3, 4, 5))
    most = (0, 1, 1, 1, 2, 2, 3, 4) if count < 3 else (0, 1, 1, 1, 2, 2)
    tools: list[Tool] = []
    for _ in range(count):
        tool = toolbox.make(rng.choice(most), rng)
        if all(tool.name != other.name and tool.noun != other.noun for other in tools):
            tools.append(tool)
    return tools


def _key(messages: list[Message], offered: list[Tool]) -> str:
    """Return the names that are called and their values, or else the request."""
    called = [call["function"] for each in messages for call in each.get("tool_calls", ())]
    if not called:
        return f"{offered[0].name}/{messages[-2]['content']}"
    return "; ".join(f"{call['name']}/{list(call['arguments'].values())}" for call in called)


def draw(rng: Random) -> Document:
    """Draw a chat with tools: a call, a full loop, two calls, a record, or no call."""
    fate = rng.random()
    if fate < 0.16:
        tool, messages = _record(rng) if fate < 0.07 else _entry(rng)
        tools = [tool]
    else:
        tools = _toolset(rng)
        if fate < 0.28:
            messages = _remark(rng)
        elif fate < 0.41:
            if len(tools) > 1 and rng.random() < 0.35:
                tools, messages = _chain(tools, rng)
            else:
                messages = _double(tools, rng)
        else:
            tool, *others = rng.sample(tools, len(tools))
            messages = _single(tool, fate < 0.72, rng)
            if others and rng.random() < 0.4:
                earlier = _single(others[0], True, rng)
                messages = earlier + _single(tool, fate < 0.72, rng, 2)
        if rng.random() < 0.1:
            messages = _remark(rng) + messages
        if rng.random() < 0.3:
            messages.insert(0, _say("system", rng.choice(TABLE["systems"])))
    offered = tuple(toolbox.offer(tool, rng) for tool in tools)
    return Document("tool", _key(messages, tools), tuple(messages), offered)
