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

MOST_WITH_VALUES = 20  # numbers of a formula for which values are looked for: each takes a while


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
            count = min(len(formula.numbers), MOST_WITH_VALUES)
            accepted = [formula.accepted(number, options.terms) for number in range(count)]
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
                "warnings": [
                    *explanation.warnings,
                    *options.warnings_of(fields.terms or ()),
                ],
                "numbers": _with_values(number_entries(formula.numbers), accepted),
                "terms": [
                    {"name": name} | ({"text": term} if isinstance(term, str) else term)
                    for name, term in named
                ],
                **warnings_note(warnings),
            }

        with naming("formula", FormulaError):
            return JSONResponse(await server.runner.off_loop(explained))


def _with_values(
    entries: list[dict[str, Any]], accepted: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    """Add to the first entries the values that a slider of the number may take."""
    first = zip(entries[: len(accepted)], accepted, strict=True)
    with_values = [{**entry, "values": values} for entry, values in first]
    return [*with_values, *entries[len(accepted) :]]


def number_entries(numbers: Sequence[FormulaNumber]) -> list[dict[str, Any]]:
    """Each number of a formula with its index, and where it is in the formula's text."""
    return [{"index": index, **asdict(number)} for index, number in enumerate(numbers)]
