"""A schema that the prompt shows as a tool: the answer is its arguments, as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from marith import Ban, Engine, Grammar, Request, Tools

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
PEOPLE = {name: 20 + 3 * i for i, name in enumerate(("Ada", "Tom", "Mia", "Ben", "Zoe"))}
SHOWN = Grammar.json_schema(SCHEMA, show_as="person")
LIKELIEST: dict[str, Any] = {"temperature": 0, "max_tokens": 60}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


def right(engine: Engine, grammar: Grammar) -> int:
    """How many names and ages are those of the prompts."""
    count = 0
    for name, age in PEOPLE.items():
        answer = engine.generate(f"{name} is {age} years old.", grammar=grammar, **LIKELIEST)
        if answer.finish_reason == "stop":
            person = json.loads(answer.text)
            count += (person["name"] == name) + (person["age"] == age)
    return count


def test_a_model_fills_the_fields_of_a_schema_that_it_reads(engine: Engine) -> None:
    assert right(engine, SHOWN) >= 8
    assert right(engine, Grammar.json_schema(SCHEMA)) <= 4


def test_an_answer_is_text_and_not_a_call_also_in_a_stream(engine: Engine) -> None:
    prompt = "Ada is 36 years old."
    answer = engine.generate(prompt, grammar=SHOWN, **LIKELIEST)
    called = Tools.of_schema(SHOWN)
    assert (answer.calls, answer.finish_reason) == ((), "stop")
    assert json.loads(answer.text) == {"name": "Ada", "age": 36}
    chunks = [*engine.stream(prompt, tools=called, **LIKELIEST)]
    assert "".join(chunk.text for chunk in chunks) == answer.text
    assert not any(chunk.calls for chunk in chunks)
    assert [token for chunk in chunks for token in chunk.tokens] == answer.tokens


@pytest.mark.parametrize("grammar", [SHOWN, Grammar.json_schema(SCHEMA), Grammar.json_object()])
def test_no_stop_string_cuts_json(engine: Engine, grammar: Grammar) -> None:
    asked: dict[str, Any] = {"prompt": "Ada is 36 years old.", "grammar": grammar, **LIKELIEST}
    whole = engine.generate(**asked)
    for stop in ('"', ["{", "a"], "}"):
        answer = engine.generate(**asked, stop=stop)
        assert answer.stop_string is None
        assert answer.text == whole.text
        assert answer.finish_reason == "length" or json.loads(answer.text)


def test_bans_apply_to_the_arguments(engine: Engine) -> None:
    prompt = "Ada is 36 years old."
    banned = engine.generate(prompt, grammar=SHOWN, ban=Ban(["Ada"]), **LIKELIEST)
    assert "Ada" not in banned.text
    json.loads(banned.text)


def test_beside_tools_or_without_an_object_a_schema_is_not_shown() -> None:
    tool = {"type": "function", "function": {"name": "other", "parameters": {}}}
    request = Request("Hi", grammar=SHOWN, tools=Tools((tool,)))
    assert request.tools is not None
    assert request.tools.names == ["other"]
    assert Grammar.json_schema({"enum": ["a", "b"], "type": "string"}, show_as="x").tool == ""


def test_a_name_of_any_letters_becomes_that_of_a_tool() -> None:
    grammar = Grammar.json_schema(SCHEMA, strict=False, show_as="a person's data!")
    function = json.loads(grammar.tool)["function"]
    assert (function["name"], function["strict"]) == ("a_person_s_data_", False)
