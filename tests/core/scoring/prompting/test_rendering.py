"""Chat templates render as in transformers, and cannot access the machine."""

from __future__ import annotations

import inspect
import io
from typing import Any

import pytest
from support.chat_families import FAMILIES, speaker
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
REACHING = (
    "{{ ''.__class__.__mro__ }}", "{{ ''.__class__.__base__.__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.system('id') }}", "{{ namespace.__init__.__globals__.os }}",
    "{{ raise_exception.__globals__.sys }}", "{{ render.__code__.co_code }}", "{{ open('a') }}",
    "{{ self.__init__.__globals__ }}", "{{ '{0.__class__.__mro__}'.format('') }}",
    "{{ messages.append(1) }}", "{{ __import__('os').getcwd() }}", "{% import 'os' as os %}",
    "{% include '/etc/passwd' %}", "{% extends '/etc/passwd' %}", "{{ log.write('a') }}",
    "{{ messages[0].log.write('a') }}", "{% set ns = namespace(__class__=1) %}",
)  # fmt: skip


def theirs(tokenizer: Any, chat: Any, **options: Any) -> str:
    return str(tokenizer.apply_chat_template(chat, tokenize=False, **options))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("tools", [[], [TOOL]])
def test_a_template_renders_as_in_transformers(name: str, chat: Any, tools: Any) -> None:
    tokenizer = speaker(name).tokenizer
    try:
        truth = theirs(tokenizer, chat, tools=tools or None, add_generation_prompt=True, deep=True)
    except Exception as error:
        with pytest.raises(Refused) as refused:
            render(tokenizer, chat, tools, {"deep": True})
        assert str(refused.value) == str(error)
    else:
        assert render(tokenizer, chat, tools, {"deep": True}) == truth


@pytest.mark.parametrize("template", REACHING)
def test_a_template_reaches_no_files_no_attributes_and_no_imports(template: str) -> None:
    log = io.StringIO()
    tokenizer = tiny_tokenizer(chat_template=template)
    with pytest.raises(Refused):
        render(tokenizer, [{"role": "user", "content": "a", "log": log}], (), {"log": log})
    assert not log.getvalue()


def test_a_template_that_is_too_long_or_calls_itself_harms_no_other_request() -> None:
    calls = "{% macro m() %}{{ m() }}{% endmacro %}"
    tokenizer = tiny_tokenizer(chat_template=calls + "{% if deep %}{{ m() }}{% endif %}a")
    with marith.Engine.load(tiny_model(), tokenizer=tokenizer) as engine:
        with pytest.raises(RequestError, match=r"the chat template refuses .* recursion"):
            engine.generate("a", template_options={"deep": True})
        assert engine.generate("a", sampling=Sampling(seed=1), stop=Stop(2)).tokens
    tokenizer.chat_template = " " * 100_001
    with pytest.raises(Refused, match="100,001 characters, more than 100,000"):
        render(tokenizer, CHATS[0])


def test_arguments_of_transformers_are_reserved_names() -> None:
    named = inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters
    assert {n for n in named if n not in ("self", "kwargs")} <= RESERVED
    with pytest.raises(RequestError, match="'chat_template' is set by the engine"):
        marith.Request("a", template_options={"chat_template": "x"})
