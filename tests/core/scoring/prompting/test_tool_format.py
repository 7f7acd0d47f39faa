"""How families of models write calls, tools, answers and reasoning, as their templates show."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chat_families import FAMILIES, answering, call, calling, speaker, tool

from marith.scoring.prompting.tool_format import (
    HERMES,
    THINKING,
    CallFormat,
    ToolFormat,
    call_format,
    json_text,
    numbered,
    read_tool_format,
    spelt_out,
    with_tools_listed,
)
from marith.testing import CHAT_TEMPLATE, tiny_tokenizer

HERMES_LIKE = CallFormat(
    '<tool_call>\n{"name": "',
    '", "arguments": ',
    '}\n</tool_call>\n<tool_call>\n{"name": "',
    "}\n</tool_call>",
)
LLAMA = CallFormat('{"name": "', '", "parameters": ', None, "}")
MISTRAL = CallFormat('[TOOL_CALLS] [{"name": "', '", "arguments": ', '}, {"name": "', "}]")
PHI = CallFormat(
    '<|tool_call|>[{"name": "', '", "arguments": ', '}, {"name": "', "}]<|/tool_call|>"
)
NUMBERED = CallFormat(
    '[TOOL_CALLS] [{"name": "',
    '", "arguments": ',
    ', "id": "call00001"}, {"name": "',
    ', "id": "call00001"}]',
)
WANT = {
    "hermes": ToolFormat(HERMES_LIKE, True, True, True, True),
    "hermes special": ToolFormat(HERMES_LIKE, True, True, True, True),
    "thinking": ToolFormat(HERMES_LIKE, True, True, True, True, THINKING),
    "thinking special": ToolFormat(HERMES_LIKE, True, True, True, True, THINKING),
    "opened": ToolFormat(HERMES_LIKE, True, True, True, True, THINKING),
    "llama": ToolFormat(LLAMA, True, True, True, False),
    "mistral": ToolFormat(MISTRAL, True, True, True, False),
    "mistral plain": ToolFormat(MISTRAL, True, True, True, False),
    "mistral ids": ToolFormat(NUMBERED, True, True, True, False),
    "phi": ToolFormat(PHI, True, True, True, True),
    "phi plain": ToolFormat(PHI, True, True, True, True),
    "chatml": ToolFormat(HERMES, False, False, True, True),
    "deaf": ToolFormat(HERMES, False, False, False, True),
    "stern": ToolFormat(HERMES, False, False, False, True),
    "none": ToolFormat(),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_template_shows_how_its_model_writes(name: str) -> None:
    assert speaker(name).tool_format == WANT[name]


@pytest.mark.parametrize("name", [n for n, want in WANT.items() if want.native])
@pytest.mark.parametrize("count", [1, 2])
def test_calls_are_written_as_the_template_writes_them(name: str, count: int) -> None:
    """Ids aside, for templates that write them."""
    known = speaker(name)
    if count > 1 and known.tool_format.calls.joint is None:
        return
    pairs = [("look", {"at": 'é "q" {'}), ("go", {})][:count]
    message = calling(*(call(n, {}, "call00001") for n, _ in pairs), said="")
    for each, (_, arguments) in zip(message["tool_calls"], pairs, strict=True):
        each["function"]["arguments"] = arguments
    text = known.tokenizer.apply_chat_template(
        [{"role": "user", "content": "u"}, message], tokenize=False
    )
    written = [(n, json.dumps(arguments, ensure_ascii=False)) for n, arguments in pairs]
    assert known.tool_format.calls.write(written) in text


def test_one_call_at_a_time_is_written_one_after_the_other() -> None:
    assert LLAMA.write([("f", "{}"), ("g", "{}")]) == (
        '{"name": "f", "parameters": {}}\n{"name": "g", "parameters": {}}'
    )
    assert HERMES.write([("f", "{}"), ("g", "{}")]) == (
        '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n'
        '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
    )


@given(name=st.text(max_size=8))
def test_a_quoted_name_is_what_json_writes(name: str) -> None:
    assert json.loads(f'"{json_text(name)}"') == name


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[0].content }}",  # only the first message
        "{{ 1 / 0 }}",
        "{{ raise_exception('no') }}",
        "{{ messages.nothing.at.all }}",
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.id }}:{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}",  # no name
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.name }}{{ c.function.name }}{{ c.function.arguments | tojson }}"
        "{% endfor %}{% endfor %}",  # the name twice
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}"
        "{% endfor %}){% endfor %}{% endfor %}",  # arguments that are no JSON
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}"
        "{% endfor %}",  # no mark before the name
    ],
)
def test_calls_of_an_unknown_template_are_written_as_hermes_does(template: str) -> None:
    tokenizer = tiny_tokenizer(chat_template=template)
    assert call_format(tokenizer) is None
    tool_format = read_tool_format(tokenizer)
    assert (tool_format.calls, tool_format.native) == (HERMES, False)


def test_a_template_that_joins_calls_in_another_way_may_make_but_one() -> None:
    """Where the marks of two calls are not those of one, only one is known for sure."""
    template = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.tool_calls %}"
        "<{{ m.tool_calls | length }}>{% for c in m.tool_calls %}"
        "{{ c.function.name }}{{ c.function.arguments | tojson }};{% endfor %}{% endif %}\n"
        "{% endfor %}"
    )
    tool_format = call_format(tiny_tokenizer(chat_template=template))
    assert tool_format == CallFormat("<1>", "", None, ";")


def test_a_template_without_reasoning_has_no_reasoning_marks() -> None:
    assert read_tool_format(tiny_tokenizer(chat_template=CHAT_TEMPLATE)).thinking is None
    assert read_tool_format(tiny_tokenizer(("</think>",))).thinking is None


CALLS = [call("f", {"x": 'é"'}, "a"), call("g", "not JSON {", "b")]
TALK = [
    {"role": "user", "content": "u"},
    calling(*CALLS, said=""),
    {**answering("42", "a"), "name": "f"},
    answering("43", "b"),
    calling(CALLS[0], said="Again."),
]


def test_calls_and_answers_become_text_in_order_and_other_messages_stay() -> None:
    kept = json.dumps(TALK)
    told = spelt_out(TALK, HERMES, answers=True)
    assert json.dumps(TALK) == kept
    assert not any(message.get("tool_calls") for message in told)
    assert [m["role"] for m in told] == ["user", "assistant", "user", "user", "assistant"]
    written = HERMES.write([("f", '{"x": "é\\""}'), ("g", "not JSON {")])
    assert [m["content"] for m in told[:4]] == [
        "u",
        written,
        "<tool_response>\nf: 42\n</tool_response>",
        "<tool_response>\n43\n</tool_response>",
    ]
    assert told[4]["content"] == "Again.\n" + HERMES.write([("f", '{"x": "é\\""}')])
    assert spelt_out(TALK, None, answers=False) == TALK


def test_tools_are_listed_after_the_system_text_or_in_its_place() -> None:
    tools = [tool("f", x="string"), tool("größe")]
    user, system = {"role": "user", "content": "u"}, {"role": "system", "content": "S"}
    for messages in ([system, user], [user], []):
        told = with_tools_listed(messages, tools, HERMES)
        assert told[0]["role"] == "system"
        assert told[0]["content"].startswith("S\n\n" if system in messages else "You may")
        for each in tools:
            assert json.dumps(each, ensure_ascii=False) in told[0]["content"]
        assert HERMES.opening in told[0]["content"]
        assert told[1:] == (messages[1:] if system in messages else messages or told[1:])
    assert system == {"role": "system", "content": "S"}


def test_calls_and_their_answers_get_new_ids() -> None:
    told = numbered(TALK)
    ids = [c["id"] for m in told for c in m.get("tool_calls", ())]
    assert ids[0] == ids[2] != ids[1]
    assert all(re.fullmatch("[a-z0-9]{9}", each) for each in ids)
    assert [m["tool_call_id"] for m in told if m["role"] == "tool"] == ids[:2]
    assert [m["content"] for m in told] == [m["content"] for m in TALK]
    assert TALK[2]["tool_call_id"] == "a"
