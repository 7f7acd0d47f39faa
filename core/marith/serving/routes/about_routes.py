"""Routes about the server: models, health, metrics, recipes, explained formulas, and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.requests import Request as WebRequest
from starlette.responses import FileResponse, JSONResponse, Response

from marith import (
    Explanation,
    FormulaError,
    FormulaNumber,
    NumberedFormula,
    __version__,
    described_recipes,
)
from marith.serving.served_models import ServedModel, shown_name
from marith.serving.server import Server
from marith.serving.server_metrics import CONTENT_TYPE
from marith.serving.wire.refusals import Refusal, naming
from marith.serving.wire.wire_answers import warnings_note
from marith.serving.wire.wire_fields import ExplainFields
from marith.serving.wire.wire_requests import warnings_of, with_formula

# Only the first numbers of a formula get values for a slider, because finding them takes time.
MOST_WITH_VALUES = 20
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_FOLDER = Path(__file__).parents[1] / "page"


async def models(server: Server, _: WebRequest) -> Response:
    """Return all models: the base model and its formulas."""
    models, brings = server.models, server.settings.allow_formulas
    listed = [_card(one, models.created, brings) for one in models.by_name.values()]
    server_note = {"version": __version__, "allow_formulas": brings}
    return JSONResponse({"object": "list", "data": listed, "marith": server_note})


async def model(server: Server, web: WebRequest) -> Response:
    """Return one model."""
    models, name = server.models, web.path_params["name"]
    if not name:
        raise Refusal("a model has a name: /v1/models/NAME", 404, "model_not_found")
    brings = server.settings.allow_formulas
    return JSONResponse(_card(models.find(name), models.created, brings))


def _card(model: ServedModel, created: int, with_terms: bool) -> dict[str, Any]:
    """Return a model. If `with_terms`, it includes the terms with their texts."""
    options = model.options
    formula = options.formula
    described = {
        "formula": formula if with_terms else NumberedFormula.of(formula).without_texts().text,
        "description": model.description,
        "system_fingerprint": model.fingerprint,
    }
    return {
        "id": model.name,
        "object": "model",
        "created": created,
        "owned_by": "marith",
        "root": shown_name(model.engine.model_name),
        "parent": model.parent,
        "max_model_len": model.engine.context_length,
        "marith": described | ({"terms": dict(options.terms)} if with_terms else {}),
    }


async def health(server: Server, _: WebRequest) -> Response:
    """Return 200, or 503 once an engine has ended."""
    alive = not any(engine.closed for engine in server.engines())
    return JSONResponse({"status": "ok" if alive else "an engine has ended"}, 200 if alive else 503)


async def ready(server: Server, _: WebRequest) -> Response:
    """Return 200, or 503 while the models load and while the server shuts down."""
    if server.ready:
        return JSONResponse({"status": "ready"})
    status = "draining" if server.draining else "loading"
    return JSONResponse({"status": status}, 503, {"retry-after": "1"})


async def metrics(server: Server, _: WebRequest) -> Response:
    """Return the metrics for Prometheus."""
    text = await server.workers.off_loop(server.metrics.text)
    return Response(text, headers={"content-type": CONTENT_TYPE})


async def recipes(_: Server, __: WebRequest) -> Response:
    """Return the published methods that a formula can call by name."""
    return JSONResponse({"object": "list", "data": [*map(asdict, described_recipes())]})


async def explain(server: Server, web: WebRequest) -> Response:
    """Return a formula as a tree and normalised, with warnings and the positions of its numbers.

    Without a formula, the model's own formula is explained. The answer has texts of terms only if
    the server allows formulas.
    """
    with server.place_for(web):
        fields, model = await server.fields(ExplainFields, web)
        settings = server.settings
        warnings = warnings_of(fields)

        def explained() -> dict[str, Any]:
            brought = fields.model_dump(include={"formula", "terms"}, exclude_none=True)
            options = with_formula(brought, model, settings)
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
                "vectors": [*explanation.vectors],
                "warnings": [*explanation.warnings],
                "numbers": number_entries(formula.numbers, accepted),
                "terms": [
                    {"name": name} | ({"text": term} if isinstance(term, str) else term)
                    for name, term in named
                ],
                **warnings_note(warnings),
            }

        with naming("formula", FormulaError):
            return JSONResponse(await server.workers.off_loop(explained))


def number_entries(
    numbers: Sequence[FormulaNumber], values: Sequence[Sequence[float]] = ()
) -> list[dict[str, Any]]:
    """Return each number of a formula with its index and its position in the formula's text.

    The first numbers have the `values` that a slider can set.
    """
    entries = [{"index": index, **asdict(number)} for index, number in enumerate(numbers)]
    for entry, each in zip(entries, values, strict=False):
        entry["values"] = each
    return entries


async def page(_: Server, __: WebRequest) -> Response:
    """Return the page that shows this server in a browser."""
    return _file("index.html")


async def page_file(_: Server, web: WebRequest) -> Response:
    """Return a style sheet, a script or a picture of the page."""
    return _file(web.path_params["file"])


def _file(name: str) -> Response:
    """Return a file of the page. Raises Refusal for an unknown file."""
    # Only files of this folder can be found, whatever path the client sends.
    file = next((one for one in _FOLDER.iterdir() if one.name == name), None)
    if file is None:
        raise Refusal(f"the page has no file {name!r:.80}", 404, "not_found")
    # Operating systems disagree only about the type of .js files.
    kind = "text/javascript" if file.suffix == ".js" else None
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache"}
    return FileResponse(file, headers=headers, media_type=kind)
