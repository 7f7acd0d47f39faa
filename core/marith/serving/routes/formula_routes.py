"""`/v1/recipes` and `/v1/explain`: the recipes of formulas, and one formula in its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response

from marith import Explanation, FormulaError, FormulaNumber, NumberedFormula, described_recipes
from marith.serving.server import Server
from marith.serving.wire.page_fields import ExplainFields
from marith.serving.wire.refusals import naming
from marith.serving.wire.wire_answers import warnings_note
from marith.serving.wire.wire_requests import warnings_of, with_formula


async def recipes(_: Server, __: WebRequest) -> Response:
    """The published methods that a formula can call by name."""
    return JSONResponse({"object": "list", "data": [*map(asdict, described_recipes())]})


async def explain(server: Server, web: WebRequest) -> Response:
    """A formula as a tree, normalised, with warnings, and the places of its numbers.

    Without a formula that of the model. Texts of terms are in the answer where the server takes
    formulas.
    """
    with server.place_for(web):
        fields, persona = await server.fields(ExplainFields, web)
        settings = server.settings
        warnings = warnings_of(fields, settings)

        def explained() -> dict[str, Any]:
            brought = fields.model_dump(include={"formula", "terms"}, exclude_none=True)
            options = with_formula(brought, persona, settings)
            explanation = Explanation.of(options.formula, options.terms)
            formula = NumberedFormula.of(explanation.formula)
            if not settings.allow_formulas:
                explanation, formula = explanation.without_texts(), formula.without_texts()
            terms = options.terms if settings.allow_formulas else {}
            named = [(name, terms[name]) for name in explanation.names if name in terms]
            return {
                "object": "marith.explanation",
                "formula": explanation.formula,
                "normalised": explanation.normalised,
                "weight": explanation.weight,
                "tree": [{"depth": depth, "text": text} for depth, text in explanation.tree],
                "warnings": [*explanation.warnings],
                "numbers": number_entries(formula.numbers),
                "terms": [{"name": name, "text": text} for name, text in named],
                **warnings_note(warnings),
            }

        with naming("formula", FormulaError):
            return JSONResponse(await server.runner.off_loop(explained))


def number_entries(numbers: Sequence[FormulaNumber]) -> list[dict[str, Any]]:
    """Each number of a formula with its index, and where it is in the formula's text."""
    return [{"index": index, **asdict(number)} for index, number in enumerate(numbers)]
