"""What a server says of itself: models, health, metrics."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response

from marith import NumberedFormula, __version__
from marith.serving.served_models import ServedModel, shown_name
from marith.serving.server import Server
from marith.serving.server_metrics import CONTENT_TYPE
from marith.serving.wire.refusals import Refusal


async def models(server: Server, _: WebRequest) -> Response:
    """All models: the base model, its formulas, and aliases."""
    models, brings = server.models, server.settings.allow_formulas
    listed = [_card(one, models.created, brings) for one in models.by_name.values()]
    server_note = {"version": __version__, "allow_formulas": brings}
    return JSONResponse({"object": "list", "data": listed, "marith": server_note})


async def model(server: Server, web: WebRequest) -> Response:
    """One model. Raises Refusal."""
    models, name = server.models, web.path_params["name"]
    if not name:
        raise Refusal("a model has a name: /v1/models/NAME", 404, "model_not_found")
    brings = server.settings.allow_formulas
    return JSONResponse(_card(models.find(name), models.created, brings))


def _card(model: ServedModel, created: int, with_terms: bool) -> dict[str, Any]:
    """A model; the texts of its terms where a formula of the client's own may use them."""
    options = model.options
    formula = options.formula
    described = {
        "formula": formula if with_terms else NumberedFormula.of(formula).without_texts().text,
        "description": model.description,
        "system_fingerprint": model.fingerprint,
        "faithful": options.faithful_to is not None,
        "options": model.shaping,
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
    """Whether the process serves at all: 503 once an engine has ended."""
    alive = not any(engine.closed for engine in server.engines())
    return JSONResponse({"status": "ok" if alive else "an engine has ended"}, 200 if alive else 503)


async def ready(server: Server, _: WebRequest) -> Response:
    """Whether it takes requests: 503 while models load, and once it ends."""
    if server.ready:
        return JSONResponse({"status": "ready"})
    status = "draining" if server.draining else "loading"
    return JSONResponse({"status": status}, 503, {"retry-after": "1"})


async def metrics(server: Server, _: WebRequest) -> Response:
    """The counts, for Prometheus."""
    text = await server.runner.off_loop(server.metrics.text)
    return Response(text, headers={"content-type": CONTENT_TYPE})
