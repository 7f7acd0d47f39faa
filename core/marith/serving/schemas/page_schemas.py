"""JSON schemas of what the page asks for: its key, recipes, explanations, inspections, what-ifs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

from marith import Inspection
from marith.openai_format import without_titles
from marith.serving.schemas.answer_schemas import (
    COUNT,
    NUMBER,
    TEXT,
    Schema,
    always,
    closed,
    listed,
    or_null,
    ref,
)
from marith.serving.wire.inspected_answers import OBJECT

PAGE_SCHEMAS: Mapping[str, Schema] = {
    "PageKey": closed({"key": TEXT}),
    "RecipeList": closed({"object": always("list"), "data": listed(ref("Recipe"))}),
    "Recipe": closed({"name": TEXT, "call": TEXT, "summary": TEXT, "source": TEXT}),
    "InspectedText": closed(
        {
            "object": always(OBJECT),
            "model": TEXT,
            "inspection": ref("Inspection"),
        },
        {"marith": ref("MarithNote")},
    ),
    "WhatIf": closed(
        {
            "object": always("marith.what_if"),
            "kept": TEXT,
            "model": TEXT,
            "formula": TEXT,
            "numbers": listed(ref("FormulaNumber")),
            "number": COUNT,
            "values": listed(NUMBER),
            "tokens": listed(listed(or_null(COUNT))),
            "texts": listed(listed(or_null(TEXT))),
            "first_flip": listed(or_null(COUNT)),
            "flipped_to": listed(or_null(TEXT)),
            "refused": listed(or_null(TEXT)),
        },
        {"marith": ref("MarithNote")},
    ),
    "FormulaNumber": closed(
        {"index": COUNT, "value": NUMBER, "start": COUNT, "end": COUNT}, {"values": listed(NUMBER)}
    ),
    "Explanation": closed(
        {
            "object": always("marith.explanation"),
            "formula": TEXT,
            "normalised": TEXT,
            "weight": TEXT,
            "tree": listed(closed({"depth": COUNT, "text": TEXT})),
            "warnings": listed(TEXT),
            "numbers": listed(ref("FormulaNumber")),
            "terms": listed(closed({"name": TEXT}, {"text": TEXT, "formula": TEXT})),
        },
        {"marith": ref("MarithNote")},
    ),
}


@cache
def inspection_schemas() -> Mapping[str, Schema]:
    """The schema of an inspection, and of what it is made of, as components of the document."""
    text = json.dumps(Inspection.json_schema()).replace("#/$defs/", "#/components/schemas/")
    schema = json.loads(text)
    parts = schema.pop("$defs")
    return {name: without_titles(part) for name, part in {**parts, "Inspection": schema}.items()}
