"""JSON schemas of what the page asks for: its key, recipes, formulas explained."""

from __future__ import annotations

from collections.abc import Mapping

from marith.serving.schemas.answer_schemas import (
    COUNT,
    NUMBER,
    TEXT,
    Schema,
    always,
    closed,
    listed,
    ref,
)

PAGE_SCHEMAS: Mapping[str, Schema] = {
    "PageKey": closed({"key": TEXT}),
    "RecipeList": closed({"object": always("list"), "data": listed(ref("Recipe"))}),
    "Recipe": closed({"name": TEXT, "call": TEXT, "summary": TEXT, "source": TEXT}),
    "FormulaNumber": closed({"index": COUNT, "value": NUMBER, "start": COUNT, "end": COUNT}),
    "Explanation": closed(
        {
            "object": always("marith.explanation"),
            "formula": TEXT,
            "normalised": TEXT,
            "weight": TEXT,
            "tree": listed(closed({"depth": COUNT, "text": TEXT})),
            "warnings": listed(TEXT),
            "numbers": listed(ref("FormulaNumber")),
            "terms": listed(closed({"name": TEXT, "text": TEXT})),
        },
        {"marith": ref("MarithNote")},
    ),
}
