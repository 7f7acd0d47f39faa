"""Calls of tools follow their schemas, whatever the model is, and can be streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema
import pytest
from support.chat_families import speaker, tool

import marith
from marith import Completion, Engine, Request, Sampling, Stop, Tools
from marith.testing import scripted_model, tiny_model

COLD = Sampling(0.0)
LOOK = tool("look", at={"enum": ["été", "мир", "c"]}, n={"type": "integer", "maximum": 9})
RING = tool("ring")
PART = {"type": "object", "properties": {"青": {"type": "boolean"}}, "required": ["青"]}
MAKE = tool(
    "mach_es",
    "teil",
    teil={"$ref": "#/$defs/Part"},
    wo={"anyOf": [{"enum": ["hier", "là"]}, {"type": "null"}], "default": None},
    oft={"type": "array", "items": {"$ref": "#/$defs/Part"}, "maxItems": 1},
)
MAKE["function"]["parameters"]["$defs"] = {"Part": PART}
ALL = (LOOK, RING, MAKE)
SCHEMAS = {one["function"]["name"]: one["function"]["parameters"] for one in ALL}
# the n-gram makes a model with random weights begin a call soon
FORMULA = "1.5*x - 0.5*M + opens"
TERMS = {"x": "b c", "opens": {"formula": 'ngram(texts=["<tool_call>"], order=1)'}}


@pytest.fixture(scope="module")
def wild() -> Iterator[Engine]:
    """A model with random weights, byte by byte."""
    known = speaker("hermes")
    model = tiny_model(vocab=known.size, seed=3, sharpness=3.0, context_length=2048)
    with Engine.load(model, tokenizer=known.tokenizer) as engine:
        yield engine


CUT_OFF = "the call of 'look' was cut off: its arguments are not whole"


def asked(seed: int, tools: Tools, **options: Any) -> Request:
    given = {"stop": Stop(160), **options}
    return Request("q", FORMULA, TERMS, Sampling(1.0, seed=seed), tools=tools, **given)


def answers(engine: Engine, requests: Sequence[Request]) -> list[Completion]:
    tickets = [engine.submit(request) for request in requests]
    return [ticket.result(120) for ticket in tickets]


def follows(out: Completion, tools: Tools) -> None:
    """What holds of every answer that may call these tools."""
    whole = out.calls if out.finish_reason == "tool_calls" else out.calls[:-1]
    for call in whole:
        schema = SCHEMAS[call.name]
        jsonschema.validate(call.parsed, schema)
        assert call.parsed.keys() <= schema["properties"].keys()
        assert json.loads(call.arguments) == call.parsed
    for call in out.calls[len(whole) :]:
        assert call.name in SCHEMAS
    assert {call.name for call in out.calls} <= {each["name"] for each in tools.callable}
    assert (out.finish_reason == "tool_calls") <= bool(out.calls)
    assert len({call.id for call in out.calls}) == len(out.calls)
    if not tools.parallel:
        assert len(out.calls) <= 1
    if tools.choice not in ("auto", "none"):
        assert out.text == ""
        assert out.finish_reason != "stop"


@pytest.mark.parametrize(
    ("choice", "parallel"),
    [("auto", True), ("required", True), ("none", True), ("auto", False), ("mach_es", False)],
)
def test_calls_follow_their_schemas(wild: Engine, choice: str, parallel: bool) -> None:
    tools = Tools(ALL, choice, parallel)
    hows = ("auto", None)
    requests = [asked(seed, tools, speculation=how) for seed in range(8, 16) for how in hows]
    done = answers(wild, requests)
    for out in done:
        follows(out, tools)
    for auto, plain in zip(done[::2], done[1::2], strict=True):
        assert (auto.tokens, auto.text) == (plain.tokens, plain.text)
        assert [(c.name, c.arguments) for c in auto.calls] == [
            (c.name, c.arguments) for c in plain.calls
        ]
    called = sum(out.finish_reason == "tool_calls" for out in done)
    assert called == 0 if choice == "none" else called >= 4
    if choice == "required":
        assert len({call.name for out in done for call in out.calls}) >= 2
    if choice in SCHEMAS:
        assert all(len(out.calls) <= 1 for out in done)


def test_streamed_pieces_add_up_to_the_calls(wild: Engine) -> None:
    for seed in range(6):
        request = asked(seed, Tools(ALL, ("auto", "required")[seed % 2]))
        whole = wild.submit(request).result(60)
        chunks = list(wild.submit(request))
        calls: list[list[Any]] = []
        for piece in (piece for chunk in chunks for piece in chunk.calls):
            if piece.index == len(calls):
                assert piece.id
                calls.append([piece.name, piece.arguments])
            else:
                assert piece.index == len(calls) - 1
                assert (piece.id, piece.name) == (None, None)
                calls[-1][1] += piece.arguments
        assert calls == [[call.name, call.arguments] for call in whole.calls]
        assert "".join(chunk.text for chunk in chunks) == whole.text
        assert chunks[-1].finish_reason == whole.finish_reason


CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "été", "n": -12}}\n</tool_call>'
MORE = '<tool_call>\n{"name": "note", "arguments": {"a": "}\\"{", "more": [1]}}\n</tool_call>'
NOTE = tool("note", "a", a="string", b="boolean")
SCRIPT = [("Look", f"I look.{CALL}"), ("Both", f"{CALL}\n{MORE}"), ("Note", MORE), ("", "Well.")]


@pytest.fixture(scope="module")
def scripted() -> Iterator[Engine]:
    tokenizer = speaker("hermes").tokenizer
    with Engine.load(scripted_model(SCRIPT, tokenizer), tokenizer=tokenizer) as engine:
        yield engine


def test_a_call_that_is_cut_off_is_returned_in_part(scripted: Engine) -> None:
    tools = Tools((LOOK,), steer=True)
    whole = scripted.generate("Look", sampling=COLD, tools=tools)
    assert whole.calls[0].parsed == {"at": "été", "n": -12}
    assert whole.text == "I look."
    met = set()
    lengths = range(1, len(whole.tokens))
    requests = [Request("Look", sampling=COLD, tools=tools, stop=Stop(most)) for most in lengths]
    for most, out in zip(lengths, answers(scripted, requests), strict=True):
        assert out.finish_reason == "length"
        assert out.tokens == whole.tokens[:most]
        assert 'I look.<tool_call>\n{"name": "'.startswith(out.text)
        for call in out.calls:
            assert call.name == "look"
            assert whole.calls[0].arguments.startswith(call.arguments.rstrip("\ufffd"))
            met.add(call.arguments == whole.calls[0].arguments)
            assert call.is_whole == (call.arguments == whole.calls[0].arguments)
            assert out.warnings == (() if call.is_whole else (CUT_OFF,))
            if call.arguments != whole.calls[0].arguments:
                with pytest.raises(json.JSONDecodeError):
                    call.parsed  # noqa: B018  # a property that parses
    assert met == {True, False}


def test_stop_strings_are_not_searched_for_in_calls(scripted: Engine) -> None:
    within = Stop(200, ("name", '"', "}", "été", "call", "\n"))
    out = scripted.generate("Look", sampling=COLD, tools=Tools((LOOK,)), stop=within)
    assert out.calls[0].arguments == '{"at": "été", "n": -12}'
    assert (out.text, out.finish_reason, out.stop_string) == ("I look.", "tool_calls", None)
    before = scripted.generate("Look", sampling=COLD, tools=Tools((LOOK,)), stop=Stop(99, ("oo",)))
    assert (before.text, before.calls, before.stop_string) == ("I l", (), "oo")


@pytest.mark.parametrize(
    ("strict", "own", "keys"),
    [
        (None, None, {"a"}),
        (True, None, {"a"}),
        (False, None, {"a", "more"}),
        (False, True, {"a"}),
        (True, False, {"a", "more"}),
    ],
)
def test_undeclared_properties_are_excluded_unless_strict_is_off(
    scripted: Engine, strict: bool | None, own: bool | None, keys: set[str]
) -> None:
    note = NOTE if own is None else {**NOTE, "function": {**NOTE["function"], "strict": own}}
    out = scripted.generate("Note", sampling=COLD, tools=Tools((note,), strict=strict))
    assert out.calls[0].parsed.keys() >= {"a"}
    assert (out.calls[0].parsed.keys() & {"a", "more"}) == keys
    assert out.calls[0].parsed["a"].startswith('}"{')


def test_tools_are_in_the_prompt_and_counted(scripted: Engine) -> None:
    bare, told = scripted.count_tokens("Well?"), scripted.count_tokens("Well?", ALL)
    assert told > bare + 200
    for choice, count in (("auto", told), ("none", bare)):
        out = scripted.generate("Well?", sampling=COLD, tools=Tools(ALL, choice))
        assert out.usage.prompt_tokens == count
        assert (out.text, out.calls) == ("Well.", ())


BAD = {
    "nothing": lambda: Tools(()),
    "no list": lambda: Tools(LOOK),  # type: ignore[arg-type]
    "no function": lambda: Tools(({"name": "look"},)),
    "twice": lambda: Tools((RING, RING)),
    "unknown": lambda: Tools(ALL, "fly"),
    "parallel": lambda: Tools(ALL, parallel=1),  # type: ignore[arg-type]
    "named as a choice": lambda: Tools((tool("none", x={"type": "string"}),), "none"),
    "schema": lambda: Tools((tool("a", x={"type": "fish"}),)),
    "no schema": lambda: Tools(({"type": "function", "function": {"name": "a", "parameters": 3}},)),
    "no tools": lambda: Request("q", tools=[RING]),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_tool_is_refused_before_anything_runs(name: str) -> None:
    with pytest.raises(marith.RequestError) as told:
        BAD[name]()
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 400
