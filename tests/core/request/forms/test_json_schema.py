"""Schemas as text: those of classes of pydantic's too."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from re import Pattern
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    UUID4,
    VERSION,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    Field,
    HttpUrl,
    NaiveDatetime,
    SecretStr,
    create_model,
)
from support.random_classes import Tree
from support.schema_walks import accepts, walk

from marith.errors import RequestError
from marith.request.forms.grammar import Grammar
from marith.request.forms.tools import Tools


class River(BaseModel):
    """A river in a text."""

    name: str
    tidal: bool


class Referring(BaseModel):
    other: Undefined  # noqa: F821  # type: ignore[name-defined]


class Calling(BaseModel):
    f: Callable[[], None]


def test_a_class_of_pydantics_is_a_schema() -> None:
    grammar = Grammar.json_schema(River, show_as="river")
    assert grammar == Grammar.json_schema(River.model_json_schema(), show_as="river")
    assert list(json.loads(grammar.text)["properties"]) == ["name", "tidal"]
    assert json.loads(grammar.tool)["function"]["description"] == "A river in a text."


def test_a_class_without_a_schema_is_refused() -> None:
    with pytest.raises(RequestError, match=r"Calling has no JSON schema: .*Callable"):
        Grammar.json_schema(Calling)
    with pytest.raises(RequestError, match="Referring has no JSON schema: `Referring` is not"):
        Grammar.json_schema(Referring)


class Everything(BaseModel):
    """What classes of applications are made of."""

    id: UUID4
    where: Path
    secret: SecretStr
    data: bytes
    coded: Base64Bytes
    like: Pattern[str]
    tags: set[str]
    price: Annotated[Decimal, Field(max_digits=6, decimal_places=2)]
    votes: dict[Literal["yes", "no"], int]
    on: datetime.date


WRITTEN = (
    '{"id": "12345678-1234-4234-8234-123456789abc", "where": "a/b", "secret": "s", "data": "d", '
    '"coded": "aGk=", "like": "a*", "tags": ["a", "b"], "price": 10.5, '
    '"votes": {"no": 2}, "on": "2024-02-29"}'
)


def test_a_class_of_any_types_of_pydantics_is_a_schema() -> None:
    source = Grammar.json_schema(Everything).source
    assert accepts(source, WRITTEN)
    assert Everything.model_validate_json(WRITTEN).tags == {"a", "b"}
    for right, wrong in (
        ("10.5", '"ten"'),
        ("10.5", "10.505"),
        ("10.5", "12345.5"),
        ("-42", "-12"),
    ):
        assert not accepts(source, WRITTEN.replace(right, wrong))


@pytest.mark.skipif(VERSION < "2.14", reason="a Decimal's pattern looks ahead, which is refused")
def test_a_tool_takes_any_types_of_pydantics() -> None:
    function = {"name": "f", "parameters": Everything.model_json_schema()}
    assert Tools(({"type": "function", "function": function},))


def test_the_tool_with_a_bad_schema_is_named() -> None:
    tools = [{"type": "function", "function": {"name": f"f{i}"}} for i in range(30)]
    tools[17]["function"]["parameters"] = {"properties": {"a": {"type": "strin"}}}  # type: ignore[index]
    with pytest.raises(RequestError, match=r"the tool 'f17': this json_schema .* strin"):
        Tools(tuple(tools))


@pytest.mark.parametrize(
    ("kind", "written", "wrong"),
    [
        (NaiveDatetime, '"2024-02-29T12:00:00"', '"2024-02-29T12:00:00Z"'),
        (AwareDatetime, '"2024-02-29T12:00:00Z"', '"2024-02-29T12:00:00"'),
        (HttpUrl, '"https://example.org/a?b=c#d"', '"ftp://example.org"'),
    ],
)
def test_the_grammar_of_a_class_accepts_what_the_class_reads(
    kind: Any, written: str, wrong: str
) -> None:
    made = create_model("Made", v=(kind, ...))
    source = Grammar.json_schema(made).source
    assert accepts(source, f'{{"v": {written}}}')
    assert made.model_validate_json(f'{{"v": {written}}}')
    assert not accepts(source, f'{{"v": {wrong}}}')
    for seed in range(20):
        if (text := walk(source, random.Random(seed))) is not None:
            assert made.model_validate_json(text), text


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"required": None}, "invalid JSON schema: the value of a keyword has the wrong type"),
        ({"enum": "a"}, "enum must be an array"),
        (
            {"oneOf": [{"type": "integer"}, {"type": "number"}]},
            "'oneOf' has schemas that may match",
        ),
    ],
)
def test_a_keyword_of_another_kind_is_refused(schema: Any, sentence: str) -> None:
    with pytest.raises(RequestError) as refused:
        Grammar.json_schema(schema)
    assert sentence in str(refused.value)


TREE = '{"first": {"kind": "bark", "old": true}, "then": {"kind": "leaf", "size": 2}}'


@pytest.mark.parametrize("schema", [Tree, Tree.model_json_schema()], ids=["class", "schema"])
def test_the_tag_of_a_union_is_written_although_it_has_a_default(schema: Any) -> None:
    source = Grammar.json_schema(schema).source
    assert accepts(source, TREE)
    assert Tree.model_validate_json(TREE)
    for tag in ('"kind": "bark", ', '"kind": "leaf", '):
        assert not accepts(source, TREE.replace(tag, ""))


def test_a_field_that_is_equal_in_all_members_of_a_union_is_no_tag() -> None:
    one, two = ({"properties": {"a": {"const": 1}, n: {}}, "type": "object"} for n in "xy")
    assert accepts(Grammar.json_schema({"anyOf": [one, two]}).source, "{}")
