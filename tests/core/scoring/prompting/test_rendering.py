"""Chat templates say what they say in transformers, and end."""

from __future__ import annotations

import inspect
import resource
import time
from typing import Any

import pytest
from support.families import FAMILIES, speaker
from transformers import PreTrainedTokenizerBase

import marith
from marith import RequestError, Sampling, Stop
from marith.formula.tree.terms import RESERVED
from marith.scoring.prompting.rendering import Refused, render
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
    "{{ 1 < 2 <= loop_count | default(3) != 4 }}{{ messages[:1] == messages[0:1] }}{{ 7 - 2 * 3 }}"
    "{{ 'role' in messages[0] and 'x' not in 'abc' }}{{ messages[1:][::-1] | length }}"
    "{{ {1 + 1: 'two'}[2] }}{{ messages[0]['ro' ~ 'le'] }}"
    "{{ 'user' in messages | map(attribute='role') }}{{ dict(a=1, b=[2]).items() | list }}"
    "{{ [3, 1] | sort }}{{ [1, [2]] == [1, [2]] }}{{ messages[0].content in 'aS b' }}",
    "{% for k, v in messages[0] | dictsort if v is string %}{{ k }}={{ v | trim | length }},"
    "{% else %}none{% endfor %}{% for a in messages | selectattr('role', 'eq', 'user') | list %}"
    "{{ loop.cycle('a', 'b') }}{{ loop.previtem is defined }}{{ loop.changed(a.role) }}{% endfor %}"
    "{{ ', '.join(['a', 'b'] | reverse) }}{{ [1, 2, 3] | batch(2, 0) | list }}{{ 'é\"' | tojson }}"
    "{{ messages | tojson(indent=1, separators=(',', ' : ')) }}{{ '<%s>' | format('&') | e }}"
    "{% set x = joiner('|') %}{{ x() }}{{ x() }}{{ range(9)[2:] | sum }}{{ {}.get('a', 'no') }}",
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


BOMBS: tuple[str, ...] = (
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


TWINS = (  # each holds itself twice, forty deep
    "{% set ns = namespace(x=1, y=1, t=1, d=1) %}{% for i in range(40) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% set ns.t = (ns.t, ns.t) %}"
    "{% set ns.d = {'a': ns.d, 'b': ns.d}.items() %}{% endfor %}"
)
LARGE = "{% set b = messages[0].content * 10 %}{% set c = b ~ '' %}"
SHARED = (
    "{{ ns.x == ns.y }}", "{{ ns.x < ns.y }}", "{{ 0 != ns.x != ns.y }}", "{{ ns.x in [ns.y] }}",
    "{{ [ns.x].index(ns.y) }}", "{{ [ns.x].count(ns.y) }}", "{{ {ns.t: 1} }}", "{{ {}[ns.t] }}",
    "{{ {}.get(ns.t) }}", "{{ ns.t in {} }}", "{{ (ns.t, 1) in {}.items() }}", "{{ 'a' ~ ns.x }}",
    "{{ '%s' % ns.x }}", "{{ '%s' % ns.t }}", "{{ '{}'.format(ns.x) }}", "{{ ns.d }}",
    "{{ '{0.x}'.format(ns) }}", "{{ '{0[x]}'.format(ns) }}", "{{ [ns] | join(attribute='x') }}",
    "{{ [ns, ns] | max(attribute='x') }}", "{{ raise_exception(ns.x) }}", "{{ ns.x is eq ns.y }}",
    "{{ ns.x is upper }}", "{{ ns.t is filter }}", "{{ [ns.t] | unique | list }}",
    "{{ [ns.x, ns.y] | sort | length }}", "{{ dict([(ns.t, 1)]) }}", "{{ dict.fromkeys([ns.t]) }}",
    "{{ namespace([(ns.t, 1)]) }}", "{{ [1] | sort(attribute=ns.t) }}", "{{ ns.d.mapping }}",
)  # fmt: skip
REPEATED = (  # done 99,999 times each
    "{{ b == c }}", "{{ 'zz' in b }}", "{% set d = b[1:] %}", "{{ b | wordcount }}",
    "{{ b | title | length }}", "{{ b.split() | length }}", "{{ b | list | length }}",
    "{{ b | sort | length }}", "{{ b.rfind('b' ~ c) }}", "{{ b.strip('bc' ~ c) | length }}",
    "{{ range(99999) | max }}", "{{ range(99999) | unique | list | length }}",
    "{{ range(99999) | sort | length }}", "{{ range(99999) | sum }}", "{{ 1.5 in range(99999) }}",
    "{{ '...'.join(range(99999) | map('string')) | length }}", "{{ messages[:] == [range(9)] }}",
    "{{ loop.cycle(*range(9999)) }}", "{{ (b | e).upper }}", "{{ strftime_now('%c' * 9000) }}",
    "{% for j in range(99999) if false %}{% endfor %}", "{{ [" + "1, " * 4000 + "] | length }}",
    "{% if " + " and ".join(["not messages.x"] * 900) + " %}{% endif %}",
    "{% set q = namespace(**dict.fromkeys('abcdefgh')) %}", "{{ c ~ b == b ~ c }}",
)  # fmt: skip
BOMBS += (
    *(TWINS + each for each in SHARED),
    *(LARGE + "{% for i in range(99999) %}" + each + "{% endfor %}" for each in REPEATED),
    "{{ ('a' * 1000).translate({97: 'b' * 100000}) | length }}",
    "{{ ('a'.encode() * 2000000000) | length }}",
    "{{ (1).to_bytes(2000000000, 'big') | length }}",
    "{{ 1.5 | round(-10000000) }}",
    "{{ 15 | round(-10000000) }}",
    "{{ ('a\n' * 9999) | indent(width=messages[0].content) }}",
    "{{ [[messages]] | tojson(indent=messages[0].content) }}",
    "{{ range(9999) | list | tojson(separators=(messages[0].content, 'a')) }}",
    "{{ '%(a)2000000000d' % {'a': 1} }}",
    "{{ '{0[" + "a" * 100 + "]:2000000000}'.format({'" + "a" * 100 + "': 1}) }}",
    "{{ ('{0}' * 99999).format(1) }}",
    "{{ '%2000000000d' is odd }}",
    "{{ (range(99999) | batch(1) | list) | sum(start=[]) | length }}",
    "{{ messages[0].content | wordwrap(1) }}",
    "{{ ('(' * 20000) | urlize }}",
    "{{ ([1] | slice(2000000000)) | list }}",
    "{{ namespace(*([1] | slice(2000000000))) }}",
    "{{ range(0, 99999 * (2**61 - 1), 2**61 - 1) | unique | list | length }}",
    "{{ ('a' * 90000) | replace(new='b' * 90000, old='a') }}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{% for a in range(99999) recursive %}" + "x" * 50_000 + "{% endfor %}",
    "{% set ns = namespace(t=1) %}{% for i in range(30000) %}{% set ns.t = (ns.t,) %}{% endfor %}"
    "{{ {ns.t: 1} }}",
    "{% set ns = namespace(t=1) %}{% for i in range(3000) %}{% set ns.t = (ns.t,) %}"
    "{% if ns.t == (1, 2) %}{% endif %}{% endfor %}{{ {ns.t: 1} | length }}",
    *(
        each.replace("MANY", ", ".join(["messages.x"] * 2000))
        for each in (
            "{% for i in range(99999) if [MANY] == 1 %}{% endfor %}",
            "{% macro m(a=[MANY]) %}{% endmacro %}{% for i in range(99999) %}{{ m() }}{% endfor %}",
            "{% macro m() %}{% for i in range(99999) %}{{ caller() }}{% endfor %}{% endmacro %}"
            "{% call(a=[MANY]) m() %}{% endcall %}",
        )
    ),
    "{% for i in range(99999) %}{% if 0 %}"
    + "".join(f"{{{{ a{i} }}}}" for i in range(3000))
    + "{% endif %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{{ 1 == 1 in loop }}{% endfor %}"
    "{% endfor %}",
    "{% macro m() %}{% if varargs %}{% endif %}{% endmacro %}{% set r = range(99999) %}"
    "{% for i in r %}{{ m(*r) }}{% endfor %}",
    "{% for a in range(9) %}{% set a %}{% include 'a' %}{% endset %}{% endfor %}",
    "{{ " + "a < " * 20_000 + "a }}",
    " " * 100_001,
)


@pytest.mark.parametrize("template", BOMBS, ids=range(len(BOMBS)))
def test_a_template_that_does_not_end_is_a_request_error(template: str) -> None:
    tokenizer = tiny_tokenizer(chat_template=template)
    started = time.thread_time()
    with pytest.raises((RequestError, Refused)):
        render(tokenizer, [{"role": "user", "content": "a" * 20_000}])
    assert time.thread_time() - started < 1.5


def test_a_template_that_does_not_end_takes_no_memory_and_harms_nobody() -> None:
    bomb = "{% if 'b' in messages[0].content %}{{ 'a' * 2000000000 }}{% endif %}a"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tokenizer = tiny_tokenizer(chat_template=bomb)
    with marith.Engine.load(tiny_model(), tokenizer=tokenizer) as engine:
        with pytest.raises(RequestError, match="the chat template makes more than"):
            engine.generate("a b")
        assert engine.generate("a", sampling=Sampling(seed=1), stop=Stop(2)).tokens
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10 < 500  # megabytes


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.template])
@pytest.mark.parametrize("shape", [(2000, 500), (2, 500_000), (2000, 1)])
def test_long_conversations_stay_within_the_bounds(name: str, shape: tuple[int, int]) -> None:
    count, letters = shape
    text = ("some words, " * letters)[:letters]
    chat = [{"role": ("user", "assistant")[i % 2], "content": text} for i in range(count)]
    tokenizer = speaker(name).tokenizer
    assert render(tokenizer, chat, [TOOL] * 9).count(text) >= count


def test_what_transformers_takes_beside_a_templates_own_options_is_reserved() -> None:
    named = inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters
    assert {n for n in named if n not in ("self", "kwargs")} <= RESERVED
    with pytest.raises(RequestError, match="'chat_template' is set by the engine"):
        marith.Request("a", template_options={"chat_template": "x"})
