"""Schemas as text: those of classes of pydantic's too."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pydantic import BaseModel

from marith.errors import RequestError
from marith.request.forms.grammar import Grammar


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
