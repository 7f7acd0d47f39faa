"""What a grammar may cost: within the limits it works, and beyond them it is refused at once."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from llguidance import LLParserLimits
from support.chat_families import speaker

from marith.decoding import matcher as matching
from marith.decoding.matcher import Compiled, Lexicon, Matcher
from marith.errors import RequestError
from marith.request.forms.grammar import LETTERS, RULES, Grammar
from marith.request.forms.json_schema import LEVELS


def wide(count: int, required: bool = False) -> dict[str, Any]:
    names = [f"p{i}" for i in range(count)]
    schema = {"type": "object", "properties": {name: {"type": "boolean"} for name in names}}
    return {**schema, "required": names} if required else schema


def chained(count: int) -> dict[str, Any]:
    """Definitions of which each holds the next."""
    held = {
        f"d{i}": {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(count)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**held, f"d{count}": {"type": "string"}}}


def chain_of_rules(count: int) -> str:
    rules = [f"r{i}: r{i + 1}" for i in range(count)]
    return "\n".join(["start: r0", *rules, f'r{count}: "b"'])


def nested(count: int) -> str:
    return '{"items":' * count + "{}" + "}" * count


def read(grammar: Grammar, text: str) -> Matcher:
    """A matcher that has met a text."""
    known = speaker("chatml")
    matcher = Matcher(Compiled(grammar.source, Lexicon(known.raw, known.size, [1])))
    tokens = known.raw.encode(text, add_special_tokens=False).ids
    matcher.allowed(tokens, [len(tokens)])
    assert (matcher.reached == len(tokens)) == (not matcher.refusal)
    return matcher


@pytest.mark.parametrize("required", [False, True])
def test_an_object_of_two_thousand_properties_is_written(required: bool) -> None:
    text = ", ".join(f'"p{i}": true' for i in range(2000))
    grammar = Grammar.json_schema(wide(2000, required))
    assert not read(grammar, "{" + (text if required else text[:60])).refusal


def test_a_text_that_comes_to_a_bound_of_the_grammar_says_which(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matching, "LIMITS", LLParserLimits(max_items_in_row=2000))
    matcher = read(Grammar.json_schema(wide(700)), '{"p0": true, "p1"')
    assert "Current row has 2799 items" in matcher.refusal
    assert "does not allow the text after ''" in read(Grammar.regex("ab"), "b").refusal


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Grammar.json_schema(wide(10_000)), f"characters; at most {LETTERS:,}"),
        (lambda: Grammar.json_schema(wide(5_000)), r"number of symbols\) too big"),
        (lambda: Grammar.regex("ab" * LETTERS), "500,000 characters"),
        (lambda: Grammar.json_schema(chained(6_000)), "characters|levels"),
        (lambda: Grammar.json_schema(chained(2_000)), f"more than {LEVELS} levels"),
        (lambda: Grammar("json_schema", nested(20_000)), "nested deeper|more than"),
        (lambda: Grammar.lark(chain_of_rules(4_000)), f"4,002 rules; at most {RULES:,}"),
        (lambda: Grammar.lark(f"start: %json {json.dumps(chained(2_000))}"), "2,002 rules"),
    ],
)
def test_a_grammar_that_would_take_too_long_is_refused_at_once(make: Any, sentence: str) -> None:
    start = time.process_time()
    with pytest.raises(RequestError, match=sentence):
        make()
    assert time.process_time() - start < 1.5


def test_definitions_that_refer_to_each_other_are_no_chain() -> None:
    reference = {"$ref": "#/$defs/node"}
    node = {"type": "object", "properties": {"left": reference, "right": reference}}
    assert not read(
        Grammar.json_schema({**reference, "$defs": {"node": node}}), '{"left": '
    ).refusal
    assert Grammar.json_schema(chained(200))
    assert Grammar.lark(chain_of_rules(900))
