"""An option of a request is declared in two places: as a field, and by its type in a call."""

from __future__ import annotations

from dataclasses import fields

from marith import Request
from marith.request.request import InspectedOptions

GIVEN_BY_PLACE = ["prompt", "formula", "terms", "sampling", "stop", "speculation"]


def test_the_typed_options_are_the_fields_of_a_request() -> None:
    names = [field.name for field in fields(Request)]
    assert names == [*GIVEN_BY_PLACE, *InspectedOptions.__annotations__]
