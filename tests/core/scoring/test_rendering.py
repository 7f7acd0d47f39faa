"""Chat templates say what they say in transformers, and end."""

from __future__ import annotations

import inspect
import resource
import time
from typing import Any

import pytest
from families import FAMILIES, speaker
from transformers import PreTrainedTokenizerBase

import marith
from marith import RequestError, Stop
from marith.formula.terms import RESERVED
from marith.scoring.rendering import Refused, render
from marith.testing import tiny_model, tiny_tokenizer

TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look é.", "parameters": {"type": "object"}},
}
CALL = {"id": "call00001", "type": "function", "function": {"name": "look", "arguments": {"at": 3}}}
CHATS: tuple[list[dict[str, Any]], ...] = (
    [{"role": "user", "content": " Hi <b>é</b>\n"}],
    [{"role": "system", "content": "S"}, {"role": "user", "content": "u"}],
    [{"role": "user", "content": "u"}, {"role": "assistant", "content": "<think>t</think>\n\na"},
     {"role": "user", "content": "v", "name": None}],
    [{"role": "user", "content": "u"}, {"role": "assistant", "content": "", "tool_calls": [CALL]},
     {"role": "tool", "content": "5", "name": "look", "tool_call_id": "call00001"}],
    [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a", "reasoning": "why"}],
)  # fmt: skip
TRICKS = (
    "{% macro m(x) %}<{{ x }}>{% endmacro %}{% for a in messages recursive %}"
    "{{ m(a.role) }}{{ loop.index }}/{{ loop.length }}{% if loop.last %}!{% endif %}"
    "{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for a in messages if a.role == 'user' %}"
    "{% set ns.n = ns.n + 1 %}{{ 'x' * ns.n ~ ns.n }}{% else %}none{% endfor %}"
    "{{ messages | map(attribute='role') | join('+') }}",
    "{% set b %}{{ messages[0].content }} kept{% endset %}{{ b | upper }}"
    "{% filter trim %} f {% endfilter %}{% generation %}{{ messages[-1]['thinking'] }}"
    "{% endgeneration %}{{ bos_token }}{{ missing | default('d') }}",
    "{% for a in messages %}{% if loop.index > 1 %}{% break %}{% endif %}"
    "{{ a | tojson(indent=2) }}{% endfor %}{{ '%05d' % 42 }}{{ '{:>4}'.format(7) }}"
    "{{ 'a-b'.replace('-', '=') }}{{ 'in 2026: %s' % 3 }}{{ 2 ** 8 }}{{ none }}{{ 1.5 }}",
)  # fmt: skip


def theirs(tokenizer: Any, chat: Any, **options: Any) -> str:
    return str(tokenizer.apply_chat_template(chat, tokenize=False, **options))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("tools", [[], [TOOL]])
def test_a_template_says_what_it_says_in_transformers(name: str, chat: Any, tools: Any) -> None:
    tokenizer = speaker(name).tokenizer
    try:
        truth = theirs(tokenizer, chat, tools=tools or None, add_generation_prompt=True, deep=True)
    except Exception as error:
        with pytest.raises(Refused) as refused:
            render(tokenizer, chat, tools, {"deep": True})
        assert str(refused.value) == str(error)
    else:
        assert render(tokenizer, chat, tools, {"deep": True}) == truth


@pytest.mark.parametrize("template", TRICKS)
@pytest.mark.parametrize("chat", CHATS)
def test_whatever_jinja_can_do_is_done_alike(template: str, chat: Any) -> None:
    tokenizer = tiny_tokenizer(chat_template=template)
    assert render(tokenizer, chat, opens=False) == theirs(tokenizer, chat)


BOMBS = (
    "{{ 'a' * 2000000000 }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% for a in messages[0].content %}{% for b in messages[0].content %}x{% endfor %}"
    "{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}"
    "{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}"
    "{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x %}{{ ns.x }}"
    "{{ ns.x }}{% endset %}{% endfor %}",
    "{% set ns = namespace(x=3) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}"
    "{% endfor %}",
    "{{ 'a' | center(2000000000) }}",
    "{{ 'a'.ljust(2000000000) }}",
    "{{ 10 ** (10 ** 10) }}",
    "{{ '%2000000000d' % 1 }}",
    "{{ '%*d' % (2000000000, 1) }}",
    "{{ '{:{}}'.format(1, 2000000000) }}",
    "{{ '{:2000000000}'.format(1) }}",
    "{{ messages | tojson(indent=99999999) }}",
    "{{ messages[0].content.replace('', messages[0].content) }}",
    "{{ lipsum(n=99999999) }}",
    "{{ ([messages[0].content] * 99999) | map('upper') | join }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{% for i in range(99999) %}"
    + "x" * 999
    + "{% endfor %}{% endmacro %}{{ m() }}",
    "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "{% set ns = namespace(x=1) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}"
    "{% endfor %}{{ ns.x | tojson }}",
    "{% set ns = namespace(x=1) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}"
    "{% endfor %}{{ ns.x }}",
    "{% break %}",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
)  # fmt: skip


@pytest.mark.parametrize("template", BOMBS, ids=range(len(BOMBS)))
def test_a_template_that_does_not_end_is_a_request_error(template: str) -> None:
    tokenizer = tiny_tokenizer(chat_template=template)
    started = time.thread_time()
    with pytest.raises((RequestError, Refused)):
        render(tokenizer, [{"role": "user", "content": "a" * 20_000}])
    assert time.thread_time() - started < 3


def test_a_template_that_does_not_end_takes_no_memory_and_harms_nobody() -> None:
    bomb = "{% if 'b' in messages[0].content %}{{ 'a' * 2000000000 }}{% endif %}a"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tokenizer = tiny_tokenizer(chat_template=bomb)
    with marith.Engine.load(tiny_model(), tokenizer=tokenizer) as engine:
        with pytest.raises(RequestError, match="the chat template makes more than"):
            engine.generate("a b")
        assert engine.generate("a", stop=Stop(2)).tokens
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10 < 500  # megabytes


def test_what_transformers_takes_beside_a_templates_own_options_is_reserved() -> None:
    named = inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters
    assert {n for n in named if n not in ("self", "kwargs")} <= RESERVED
    with pytest.raises(RequestError, match="'chat_template' is the engine's own"):
        marith.Request("a", template_options={"chat_template": "x"})
