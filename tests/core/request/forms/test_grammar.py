"""Grammars as data: which texts they accept, and which grammars are refused at once."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.schema_walks import accepts

from marith.errors import RequestError
from marith.request.forms.grammar import Grammar
from marith.request.forms.json_schema import schema_text

A = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
B = {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}


def lets(grammar: Grammar, text: str) -> bool:
    """Whether a text may be written, and end where it ends."""
    return accepts(grammar.source, text)


def written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# Of DEL, which JSON need not escape, llguidance writes only the escape.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x7f"), max_size=8)
scalars: st.SearchStrategy[tuple[dict[str, Any], st.SearchStrategy[Any]]] = st.one_of(
    st.just(({"type": "null"}, st.none())),
    st.just(({"type": "boolean"}, st.booleans())),
    st.just(({"type": "integer"}, st.integers(-(10**12), 10**12))),
    st.just(({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False, width=32))),
    st.just(({"type": "string"}, texts)),
    st.integers(-50, 50).map(
        lambda least: (
            {"type": "integer", "minimum": least, "maximum": least + 30},
            st.integers(least, least + 30),
        )
    ),
    # whole numbers that JSON's readers agree on (RFC 8259, section 6)
    st.lists(st.integers(-(2**53), 2**53) | texts, min_size=1, max_size=3).map(
        lambda known: ({"enum": known}, st.sampled_from(known))
    ),
)


def _array(item: tuple[Any, Any]) -> tuple[dict[str, Any], Any]:
    return {"type": "array", "items": item[0], "maxItems": 2}, st.lists(item[1], max_size=2)


def _nullable(item: tuple[Any, Any]) -> tuple[dict[str, Any], Any]:
    return {"anyOf": [item[0], {"type": "null"}]}, st.none() | item[1]


def _object(parts: dict[str, tuple[Any, Any]]) -> tuple[dict[str, Any], Any]:
    """All but every other property are required; values have the schema's order."""
    names = list(parts)
    schema = {
        "type": "object",
        "properties": {name: each[0] for name, each in parts.items()},
        "required": names[::2],
    }
    must = st.fixed_dictionaries({name: parts[name][1] for name in names})
    kept = st.sets(st.sampled_from(names[1::2])) if names[1::2] else st.just(set())
    return schema, st.builds(
        lambda value, some: {n: value[n] for n in names if n in names[::2] or n in some},
        must,
        kept,
    )


names = texts | st.sampled_from(["properties", "anyOf", "$defs", "items", "type", 'q"\\'])
described = st.recursive(
    scalars,
    lambda inner: st.one_of(
        inner.map(_array),
        inner.map(_nullable),
        st.dictionaries(names, inner, max_size=3).map(_object),
    ),
    max_leaves=5,
)


@given(data=st.data(), described=described)
def test_a_valid_object_can_be_written_as_json(
    data: st.DataObject, described: tuple[dict[str, Any], Any]
) -> None:
    schema, values = described
    assert lets(Grammar.json_schema(schema), written(data.draw(values)))


def test_objects_have_only_declared_properties_by_default() -> None:
    told, more = written({"a": 1}), written({"a": 1, "z": 2})
    for strict in (None, True):
        assert lets(Grammar.json_schema(A, strict), told)
        assert not lets(Grammar.json_schema(A, strict), more)
        assert lets(Grammar.json_schema({**A, "additionalProperties": True}, strict), more)
    assert lets(Grammar.json_schema(A, strict=False), more)
    assert lets(Grammar.json_schema({"type": "object"}), more)


@pytest.mark.parametrize(
    "within",
    [
        lambda schema: {"type": "object", "properties": {"x": schema}, "required": ["x"]},
        lambda schema: {"$defs": {"X": schema}, "$ref": "#/$defs/X"},
        lambda schema: {"definitions": {"X": schema}, "anyOf": [{"$ref": "#/definitions/X"}]},
        lambda schema: {"anyOf": [{"type": "null"}, schema]},
        lambda schema: {"allOf": [schema]},
        lambda schema: {"type": "array", "items": schema},
        lambda schema: {"type": "array", "prefixItems": [schema], "items": False},
        lambda schema: {"type": "array", "items": [schema], "additionalItems": False},
        lambda schema: {"type": "object", "additionalProperties": schema},
    ],
)
def test_objects_are_closed_wherever_they_are(within: Any) -> None:
    schema = within(A)
    kept = json.dumps(schema)
    wrap = {"properties": '{"x": %s}', "additionalProperties": '{"y": %s}'}
    shape = next((s for key, s in wrap.items() if key in schema), "%s")
    shape = "[%s]" if schema.get("type") == "array" else shape
    assert lets(Grammar.json_schema(schema), shape % '{"a": 1}')
    assert not lets(Grammar.json_schema(schema), shape % '{"a": 1, "z": 2}')
    assert lets(Grammar.json_schema(schema, strict=False), shape % '{"a": 1, "z": 2}')
    assert json.dumps(schema) == kept


def test_a_property_named_as_a_keyword_is_a_property() -> None:
    schema = {"type": "object", "properties": {"properties": A, "anyOf": {"enum": [A]}}}
    closed = json.loads(schema_text(schema))
    assert closed["properties"]["properties"] == {**A, "additionalProperties": False}
    assert closed["properties"]["anyOf"] == {"enum": [A]}
    assert lets(Grammar.json_schema(schema), written({"properties": {"a": 1}, "anyOf": A}))


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [A, B]},
        {"$defs": {"A": A}, "allOf": [{"$ref": "#/$defs/A"}, B]},
        {"$defs": {"A": A}, "$ref": "#/$defs/A", **B},
        {"$defs": {"X": {"$ref": "#/$defs/A"}, "A": A}, "allOf": [{"$ref": "#/$defs/X"}, B]},
        {"$defs": {"a/a": A}, "allOf": [{"$ref": "#/$defs/a~1a"}, B]},
        {**A, "allOf": [B]},
        {**A, "anyOf": [B, {"type": "object", "properties": {"c": {"type": "integer"}}}]},
    ],
)
def test_schemas_in_all_of_do_not_forbid_the_properties_of_each_other(
    schema: dict[str, Any],
) -> None:
    grammar = Grammar.json_schema(schema)
    assert any(lets(grammar, text) for text in ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'))
    assert not lets(grammar, '{"a": "1", "b": 2}')


def test_objects_inside_all_of_have_only_declared_properties() -> None:
    inner = {"type": "object", "properties": {"n": A}, "required": ["n"]}
    grammar = Grammar.json_schema({"$defs": {"I": inner}, "allOf": [{"$ref": "#/$defs/I"}, B]})
    assert lets(grammar, '{"n": {"a": 1}, "b": 2}')
    assert not lets(grammar, '{"n": {"a": 1, "z": 2}, "b": 2}')


def test_required_alone_does_not_allow_undeclared_properties() -> None:
    parts = {name: {"type": "integer"} for name in "ab"}
    schema = {"properties": parts, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert json.loads(schema_text(schema))["additionalProperties"] is False


def test_any_object_is_an_object_and_nothing_else() -> None:
    grammar = Grammar.json_object()
    for value in ({}, {"a": {"b": [1, None, "é"]}}, {"": ""}):
        assert lets(grammar, written(value))
    for value in ([], 1, "a", None):
        assert not lets(grammar, written(value))


def test_regular_expressions_match_the_whole_text() -> None:
    grammar = Grammar.regex(r"[ab]{2,3}(é|\d+)?")
    assert [t for t in ("a", "ab", "abaé", "ab12", "abc", "xab") if lets(grammar, t)] == [
        "ab", "abaé", "ab12",
    ]  # fmt: skip
    assert lets(Grammar.regex(""), "")
    assert not lets(Grammar.regex(""), "a")


def test_lark_derives_from_start() -> None:
    grammar = Grammar.lark('start: "(" start ")" | WORD\nWORD: /[a-z]+/')
    assert lets(grammar, "((word))")
    assert not lets(grammar, "((word)")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Grammar("yaml", "x"), "json_schema, regex, lark, not 'yaml'"),  # type: ignore[arg-type]
        (lambda: Grammar.regex(5), "a regex grammar must be a text, not 5"),  # type: ignore[arg-type]
        (lambda: Grammar.json_schema([1]), r"a mapping or a pydantic class, not \[1\]"),  # type: ignore[arg-type]
        (lambda: Grammar.json_schema(int), "a pydantic class, not <class 'int'>"),  # type: ignore[arg-type]
        (
            lambda: Grammar.json_schema({"name": "a", "schema": A}),
            "pass only the value of its 'schema'",
        ),
        (lambda: Grammar.json_schema({"json_schema": {"schema": A}}), "which wraps a JSON schema"),
        (lambda: Grammar.regex("("), r"'\(' is not a valid regex: unclosed group"),
        (lambda: Grammar.regex("(?=a)b"), "look-around"),
        (lambda: Grammar.regex(r"(a)\1"), "backreferences"),
        (lambda: Grammar.lark('word: "x"'), "no start rule"),
        (lambda: Grammar.lark(""), "[Ee]mpty"),
        (lambda: Grammar.json_schema({"not": {"type": "string"}}), r"\[\"not\"\]"),
        (lambda: Grammar.json_schema({"type": "date"}), "Invalid type: date"),
        (lambda: Grammar.json_schema({"$ref": "#/$defs/No"}), "/\\$defs/No"),
        (lambda: Grammar.json_schema({"$ref": "http://x.y/z"}), "http://x.y/z"),
        (lambda: Grammar.json_schema({"enum": [{1}]}), "cannot be written as JSON: .*set"),
        (lambda: Grammar.json_schema({"const": "\ud800"}), "cannot be written as JSON"),
        (lambda: Grammar.json_schema(nested(5000)), "at most 100 levels"),
        (lambda: Grammar.json_schema(circular()), "at most 100 levels"),
    ],
)
def test_an_invalid_grammar_is_refused_when_it_is_made(make: Any, sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence) as refused:
        make()
    assert "\n" not in str(refused.value)


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "null"}
    return reduce(lambda schema, _: {"type": "array", "items": schema}, range(depth), inner)


def circular() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"again": schema}
    return schema


def test_a_grammar_is_plain_data() -> None:
    assert Grammar.json_schema(A) == Grammar.json_schema(dict(A))
    assert len({Grammar.regex("a"), Grammar.regex("a"), Grammar.lark('start: "a"')}) == 2
    assert Grammar.json_schema(A) != Grammar.json_schema(A, strict=False)
    assert "source" not in repr(Grammar.regex("a"))


@pytest.mark.parametrize(
    "grammar",
    [Grammar.json_schema(A), Grammar.regex(r'\{"a": 1\}'), Grammar.lark('start: "{" /"a": 1/ "}"')],
)
def test_a_part_of_another_grammar_means_the_same(grammar: Grammar) -> None:
    whole = {"grammars": [{"lark_grammar": "start: /<+/ @inner"}, grammar.part("inner")]}
    assert accepts(json.dumps(whole), '<<{"a": 1}')
