"""Two hundred texts of twenty random schemas are valid."""

from __future__ import annotations

from support.schema_texts import texts_of_schemas

from marith import Engine


def test_two_hundred_texts_of_twenty_schemas_are_valid() -> None:
    with Engine.load("pocket", max_lanes=96) as engine:
        texts_of_schemas(engine, kinds=20, each=10)
