"""Whatever a schema's grammar accepts is valid by the schema, or the schema is refused at once."""

from __future__ import annotations

import itertools
import json
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.random_schemas import BOUNDS, NAMES, Schema, schemas
from support.schema_walks import accepts, problems, walk

from marith.errors import RequestError
from marith.request.forms.grammar import Grammar
from marith.request.forms.tools import Tools


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    schema=schemas, strict=st.sampled_from([None, False]), draw=st.randoms(use_true_random=False)
)
def test_every_text_that_a_grammar_accepts_is_valid_by_its_schema(
    schema: Schema, strict: bool | None, draw: random.Random
) -> None:
    """Texts are drawn from the grammar itself, and then changed: of those, some are accepted."""
    try:
        source = Grammar.json_schema(schema, strict).source
    except RequestError:
        return
    for _ in range(4):
        text = walk(source, draw)
        if text is None:
            continue
        assert not problems(schema, text), text
        for _ in range(6):
            changed = json.dumps(_changed(json.loads(text), draw), ensure_ascii=False)
            assert not accepts(source, changed) or not problems(schema, changed), changed


def _changed(value: Any, draw: random.Random) -> Any:
    """A value like this one: a number, a letter, a name or an item of it is another."""
    match value:
        case dict() if value and draw.random() < 0.7:
            name = draw.choice([*value])
            return {**value, name: _changed(value[name], draw)}
        case dict():
            kept = {name: each for name, each in value.items() if draw.random() < 0.7}
            return {**kept, draw.choice([*NAMES, "x", "x_1"]): draw.choice([0, "a", None])}
        case list() if value and draw.random() < 0.6:
            at = draw.randrange(len(value))
            return [*value[:at], _changed(value[at], draw), *value[at + 1 :]]
        case list():
            return [*value, *value[-1:]] if draw.random() < 0.6 else value[:-1]
        case str():
            at = draw.randint(0, len(value))
            return value[:at] + draw.choice(["a", "b", "0", "é", ""]) + value[at + 1 :]
        case bool() | None:
            return draw.choice([True, False, None, 0])
    number = value if abs(value) < 1e300 else 0  # 1e400 is read as infinite
    return draw.choice([number + 1, -number, number / 2, round(number), *BOUNDS])


def _pairs() -> list[Schema]:
    keys = itertools.product(("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
    return [
        {low: BOUNDS[i], high: BOUNDS[j]}
        for low, high in keys
        for i in range(len(BOUNDS))
        for j in range(i, len(BOUNDS))
    ]


@pytest.mark.parametrize("kind", ["number", "integer"])
def test_every_pair_of_bounds_holds(kind: str) -> None:
    for bounds in _pairs():
        schema = {"type": kind, **bounds}
        near = [bound + step for bound in bounds.values() for step in (-1e-6, 0, 1e-6)]
        written = ["-0", "0.0", *map(str, bounds.values()), *(f"{number:.6f}" for number in near)]
        try:
            source = Grammar.json_schema(schema).source
        except RequestError as refused:
            assert "imum" in str(refused) or "interval" in str(refused)
            assert all(problems(schema, text) for text in written), schema
            continue
        for text in written:
            assert not accepts(source, text) or not problems(schema, text), (schema, text)


def test_a_number_within_bounds_can_be_written() -> None:
    for bounds in _pairs():
        low, high = bounds.values()
        middle = str((low + high) / 2)
        if low < high:
            assert accepts(Grammar.json_schema({"type": "number", **bounds}).source, middle)


@pytest.mark.parametrize(
    ("format_", "right", "wrong"),
    [
        ("date", ["2024-02-29", "2000-02-29", "0001-01-01", "9999-12-31"],
         ["2023-02-29", "1900-02-29", "0000-01-01", "2023-04-31", "2023-13-01", "2023-1-1"]),
        ("time", ["23:59:59Z", "00:00:00.123456+05:30"], ["23:59:60Z", "24:00:00Z", "12:00:00"]),
        ("date-time", ["2024-02-29T12:00:00Z"], ["2023-02-29T12:00:00Z", "2023-01-01T00:00:60Z"]),
        ("duration", ["P1Y2M3DT4H5M6S", "PT30M", "P2W"], ["P", "PT", "P1D1Y", "1D"]),
        ("email", ["a.b+c@mail.example.org"],
         ["a@b", "a..b@c.de", ".a@b.cd", "a@-b.cd", "a b@c.de"]),
        ("hostname", ["a", "a-1.example.org"], ["-a.de", "a..b", f"{'a' * 64}.de", "1.2.3.4"]),
        ("ipv4", ["127.0.0.1"], ["256.0.0.1", "01.2.3.4", "1.2.3"]),
        ("ipv6", ["::1", "1:2:3:4:5:6:7:8"], ["1:2:3", "1::2::3", "12345::"]),
        ("uuid", ["12345678-1234-1234-1234-123456789ABC"],
         ["1234", "1234567g-1234-1234-1234-123456789abc"]),
        ("uuid4", ["12345678-1234-4234-8234-123456789abc"],
         ["12345678-1234-1234-8234-123456789abc"]),
    ],
)  # fmt: skip
def test_a_text_of_a_format_is_one(format_: str, right: list[str], wrong: list[str]) -> None:
    schema = {"type": "string", "format": format_}
    source = Grammar.json_schema(schema).source
    for text in map(json.dumps, right):
        assert accepts(source, text), text
        assert not problems(schema, text), text
    assert not [text for text in wrong if accepts(source, json.dumps(text))]


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"properties": {"a": {}}, "patternProperties": {"^a$": {}}}, "the pattern '^"),
        ({"required": ["a"], "patternProperties": {"^a$": {}}}, "'patternProperties' matches no"),
        ({"allOf": [{"patternProperties": {"^a": {}}}, {"additionalProperties": {"type": "null"}}]},
         "'patternProperties' cannot be combined with"),
        ({"additionalProperties": {"type": "integer"}, "minProperties": 2}, "'minProperties' is 2"),
        ({"const": 2**60 + 1}, "'const' has the number 1152921504606846977"),
        ({"enum": [1, [2**60 + 1]]}, "'enum' has the number"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "'uniqueItems' "),
        ({"type": "number", "exclusiveMinimum": 1, "maximum": 1}, "exclusiveMinimum"),
    ],
)  # fmt: skip
def test_an_unsupported_keyword_is_named_and_refused(schema: Schema, sentence: str) -> None:
    with pytest.raises(RequestError) as refused:
        Grammar.json_schema(schema)
    assert sentence in str(refused.value)


ITSELF: Schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}
LISTED: Schema = {"type": "array", "items": {"$ref": "#/$defs/n"}}


@pytest.mark.parametrize("value", [5, "a", [5], [[]], {"a": 5}, None, True, {}, [], ["a"]], ids=str)
@pytest.mark.parametrize(
    "keyword",
    [
        "properties",
        "required",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "items",
        "allOf",
        "anyOf",
        "enum",
        "format",
        "pattern",
        "uniqueItems",
        "minItems",
        "maxItems",
        "minimum",
        "exclusiveMinimum",
        "multipleOf",
        "minProperties",
        "$ref",
        "$defs",
        "type",
    ],
)
def test_no_value_of_a_keyword_raises_another_error(keyword: str, value: Any) -> None:
    beside = {"properties": {"a": {}}, "items": {"type": ["null"]}, "uniqueItems": False}
    for schema in (
        {keyword: value},
        {**beside, keyword: value},
        {"propertyNames": {keyword: value}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": ["object"], keyword: value}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {**LISTED, "minItems": 1, keyword: value}}},
        {"anyOf": [{**ITSELF, keyword: value}, beside], "discriminator": {"propertyName": value}},
    ):
        for strict in (None, False):
            with suppress(RequestError):
                Grammar.json_schema(schema, strict)


def test_items_of_several_types_may_repeat_in_a_tool_alone() -> None:
    schema = {"type": "array", "items": {"type": ["string", "null"]}, "uniqueItems": True}
    with pytest.raises(RequestError, match="uniqueItems"):
        Grammar.json_schema(schema)


def test_a_name_that_is_too_long_is_refused() -> None:
    schema = {"type": "object", "properties": {"a" * 5000: {}}}
    assert Grammar.json_schema(schema)
    with pytest.raises(RequestError, match="name of a property"):
        Grammar.json_schema(schema, strict=False)


def test_a_pattern_of_names_beside_a_named_property_is_held() -> None:
    named = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    schema = {"type": "object", **named, "patternProperties": {"^n": {"minLength": 2}}}
    source = Grammar.json_schema(schema).source
    assert accepts(source, '{"name": "ab", "nb": 1}')
    assert not accepts(source, '{"name": "a"}')
    assert not accepts(source, '{"name": "ab", "nb": "a"}')
    assert not accepts(source, '{"name": "ab", "x": "a"}'), "no name but those that it describes"


def test_a_free_name_is_no_named_property_however_it_is_written() -> None:
    schema = {"type": "object", "properties": {"größe": {"type": "integer"}, "g": {}}}
    source = Grammar.json_schema(schema, strict=False).source
    needs = Grammar.json_schema({**schema, "required": ["x"]}, strict=False).source
    assert accepts(needs, '{"x": 1}')
    for free in ("gr", "größer", "ä", "", "größ"):
        assert accepts(source, json.dumps({"größe": 1, free: "x"}, ensure_ascii=False))
    for named in ("größe", "gr\\u00f6\\u00dfe", "g"):
        assert not accepts(source, f'{{"größe": 1, "g": 1, "{named}": "x"}}')


def test_names_of_an_enum_are_properties_each_once() -> None:
    schema = {
        "type": "object",
        "propertyNames": {"$ref": "#/$defs/K"},
        "$defs": {"K": {"enum": ["a", "b"]}},
    }
    source = Grammar.json_schema({**schema, "additionalProperties": {"type": "integer"}}).source
    assert accepts(source, '{"a": 1, "b": 2}')
    for wrong in ('{"a": 1, "a": 2}', '{"c": 1}', '{"a": "x"}'):
        assert not accepts(source, wrong)


def test_references_that_come_back_after_a_value_are_read() -> None:
    tree: Schema = {"properties": {"left": {"$ref": "#"}}}
    assert accepts(Grammar.json_schema(tree).source, '{"left": {"left": {}}}')
    either: Schema = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]}
    assert accepts(Grammar.json_schema(either).source, "[[null]]")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Grammar.json_schema({"type": "integer", "multipleOf": 1000000007}), "fuel"),
        (lambda: Grammar.lark('start: start "a"'), "it matches no text"),
        (lambda: Grammar.lark('start: "x" A\nA: /a/ & /b/'), "no text follows 'x'"),
        (lambda: Grammar.lark('start: "é" a\na: b\nb: a'), "no text follows 'é'"),
        (lambda: Grammar.lark('start: "a" start'), "the text that it forces .* has no end"),
    ],
)
def test_a_schema_that_fails_at_its_first_token_is_refused_when_it_is_made(
    make: Any, reason: str
) -> None:
    with pytest.raises(RequestError, match=f"grammar cannot be used: .*{reason}"):
        make()


@pytest.mark.parametrize(
    "definitions",
    [
        {"n": ITSELF},
        {"n": {"$ref": "#/$defs/m"}, "m": {"$ref": "#/$defs/n"}},
        {"n": {**LISTED, "minItems": 2}},
        {"n": {**LISTED, "items": [{}, {"$ref": "#/$defs/n"}], "minItems": 2}},
        {"n": {"anyOf": [{"$ref": "#/$defs/m"}, ITSELF]}, "m": {"allOf": [ITSELF]}},
    ],
)
def test_a_definition_that_no_finite_text_matches_is_named(definitions: Schema) -> None:
    for holder in (
        {"properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["x"]},
        {"properties": {"x": {"$ref": "#/$defs/n"}, "y": {"const": 1}}},
    ):
        schema = {"$defs": definitions, "type": "object", **holder}
        with pytest.raises(RequestError, match=r"no finite text matches '#/\$defs/[nm]'"):
            Grammar.json_schema(schema)
        function = {"name": "f", "parameters": schema}
        with pytest.raises(RequestError, match="the tool 'f': no finite text matches"):
            Tools(({"type": "function", "function": function},))
    with pytest.raises(RequestError, match="no finite text matches '#'"):
        Grammar.json_schema({"$ref": "#"})


@pytest.mark.parametrize(
    "definition",
    [
        LISTED,
        {**LISTED, "items": [{}, {"$ref": "#/$defs/n"}], "minItems": 1},
        {**ITSELF, "required": []},
        {**ITSELF, "type": ["object", "null"]},
        {"anyOf": [ITSELF, {"type": "null"}]},
        {**ITSELF, "properties": {"n": {"anyOf": [{"$ref": "#/$defs/n"}, {"const": 1}]}}},
    ],
)
def test_a_definition_that_may_hold_itself_is_read(definition: Schema) -> None:
    source = Grammar.json_schema({"$defs": {"n": definition}, "$ref": "#/$defs/n"}).source
    assert walk(source, random.Random(1)) is not None
