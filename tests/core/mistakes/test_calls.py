"""What is wrong in a call, and the sentence that says what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.mistakes import evaluated, refusal, table

import marith
from marith.testing import tiny_model, tiny_tokenizer

MESSAGE = "{'role': 'user', 'content': '…'}"
SAMPLING = "sampling is a Sampling, not 0.7; write, for example, Sampling(temperature=0.7)"

PROMPTS = [
    (
        "engine.generate([])",
        "a prompt is a text or a list of messages, not []; an empty prompt has no message: "
        f"[{MESSAGE}]",
    ),
    (
        "engine.generate(b'hi')",
        "a prompt is a text or a list of messages, not b'hi'; bytes are decoded first: "
        "prompt.decode()",
    ),
    (
        "engine.generate({'role': 'user', 'content': 'hi'})",
        "a prompt is a text or a list of messages, not {'content': 'hi', 'role': 'user'}; a "
        "message stands in a list: [message]",
    ),
]
OPTIONS = [
    (
        "engine.submit('Hi')",
        "submit takes a Request, not 'Hi'; write submit(Request('Hi')), or generate('Hi') for the "
        "text",
    ),
    ("Stop(max_token=5)", "Stop takes no 'max_token'; did you mean 'max_tokens'?"),
    ("Stop(temperature=0.5)", "Stop takes no 'temperature'; write Sampling(temperature=…)"),
    (
        "Stop('END')",
        "max_tokens is a whole number from 1, not 'END'; a text that ends an answer is written "
        "Stop(strings=['END'])",
    ),
    ("Sampling(max_tokens=5)", "Sampling takes no 'max_tokens'; write Stop(max_tokens=…)"),
    (
        "Request('Hi', stop=['END'])",
        "stop is a Stop, not ['END']; write, for example, Stop(max_tokens=40)",
    ),
    ("engine.generate('Hi', sampling=0.7)", SAMPLING),
    (
        "engine.generate('Hi', temprature=1)",
        "a call takes no 'temprature'; did you mean 'temperature'?",
    ),
    (
        "engine.next_logprobs('Hi', temperature=1)",
        "next_logprobs takes no 'temperature', but prompt, formula, terms, continuation, timeout, "
        "trusted, allowed, cache_salt, tools, template_options",
    ),
    (
        "engine.generate('Hi', {'chef': 'You are a chef.'})",
        "a formula is a text or a Formula, not {'chef': 'You are a chef.'}; terms are given after "
        "it, or by name: terms={…}",
    ),
    (
        "engine.generate('Hi', 'chef', 'You are a chef.')",
        "terms map names to prompts or terms, such as {'formal': 'Speak formally.'}, not 'You are "
        "a chef.'",
    ),
    ("Prompted('x', modle='y')", "Prompted takes no 'modle'; did you mean 'model'?"),
]


GRAMMARS = [
    (
        "engine.generate('Hi', grammar='yes|no')",
        "grammar is a Grammar, not 'yes|no'; write, for example, Grammar.regex('yes|no')",
    ),
    (
        "Tools([tool({'type': 'objekt'})])",
        "the tool 'f': its parameters are an object: {'type': 'object', 'properties': {…}}, not of "
        "type 'objekt'",
    ),
    (
        "Tools([{'name': 'f'}])",
        "a tool is written as {'type': 'function', 'function': {'name': '…', 'parameters': {}}}, "
        "not {'name': 'f'}",
    ),
    ("Tools([tool({})], choice='g')", "no tool is named 'g', but f"),
    (
        "no_template.generate('a b', tools=Tools([tool({})], choice='required'))",
        "the grammar asks for text that this vocabulary cannot write; JSON and calls of tools need "
        "a model whose tokens have letters, digits and punctuation",
    ),
]


def tool(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


@pytest.fixture(scope="module")
def names(tiny_dir: str) -> Mapping[str, Any]:
    """What the code of the tables may name: an engine, and what marith exports."""
    exported = {name: getattr(marith, name) for name in marith.__all__}
    return {
        **exported,
        "tool": tool,
        "engine": marith.Engine.shared(tiny_dir),
        "no_template": marith.Engine.load(tiny_model(), tokenizer=tiny_tokenizer()),
    }


@table([*PROMPTS, *OPTIONS, *GRAMMARS])
def test_it_is_refused_in_one_sentence(typed: str, sentence: str, names: Mapping[str, Any]) -> None:
    assert refusal(lambda: evaluated(typed, names)) == sentence
