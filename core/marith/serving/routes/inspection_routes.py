"""`/v1/inspect` and `/v1/what_if`: why each token of a text is there, and what would change it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache, partial
from typing import Any, Literal

from starlette.requests import Request as WebRequest
from starlette.responses import Response

from marith import (
    Completion,
    Engine,
    Inspection,
    NumberedFormula,
    Request,
    Stats,
    Usage,
    WhatIf,
    submit_inspection,
    submit_what_if,
)
from marith.serving.event_stream import ascii_json
from marith.serving.guard import KEY
from marith.serving.routes.about_routes import number_entries
from marith.serving.served_models import ServedModel
from marith.serving.server import Server, note
from marith.serving.server_settings import ServingLimits
from marith.serving.until_gone import LEFT, until_gone
from marith.serving.wire.refusals import Refusal, naming
from marith.serving.wire.wire_answers import INSPECTION, warnings_note
from marith.serving.wire.wire_fields import (
    ChatFields,
    InspectFields,
    MadeTextFields,
    TextFields,
    WhatIfFields,
)
from marith.serving.wire.wire_requests import chat_requests, text_requests, warnings_of


async def inspect(server: Server, web: WebRequest) -> Response:
    """Return why each token of a continuation is there: the log-probabilities of every term.

    The server evaluates the text in one pass, and samples no token.
    """
    with server.place_for(web):
        fields, model = await server.fields(InspectFields, web)
        warnings = warnings_of(fields)

        def begin() -> Future[Inspection]:
            request = _request(fields, model, server, web)
            tokens = _tokens(fields, model, server.settings.limits)
            prefix = _prefix(fields, tokens)
            return submit_inspection(
                model.engine, request.prompt, tokens, request.formula, request.terms,
                top=fields.top, start=len(prefix), leave_one_out=fields.leave_one_out,
                timeout=request.timeout, cache_salt=request.cache_salt,
                tools=request.tools, template_options=request.template_options,
            )  # fmt: skip

        inspection = await until_gone(web, server.workers.result_of(begin))
        if not server.settings.allow_formulas:
            inspection = inspection.without_texts()
        server.metrics.read(model.name, len(inspection.positions))
        note(web, model=model.name, inspected=len(inspection.positions))
        head = {"object": INSPECTION, "model": model.name, **warnings_note(warnings)}
        data = await server.workers.off_loop(
            lambda: ascii_json({**head, "inspection": inspection.as_dict()})
        )
    return Response(data, media_type="application/json")


def _tokens(fields: InspectFields, model: ServedModel, limits: ServingLimits) -> list[int]:
    """Return the tokens of the continuation. Raises Refusal if there are too many to inspect."""
    text = fields.continuation
    model.require_text_fits(text, "continuation", limits)
    tokens = model.engine.encode(text) if isinstance(text, str) else text
    limit = limits.inspected // fields.top
    if len(tokens) > limit:
        problem = f"with top {fields.top} a continuation has at most {limit:,} tokens"
        raise Refusal(f"{problem}, not {len(tokens):,}", param="continuation")
    return tokens


def _prefix(fields: MadeTextFields, tokens: Sequence[int]) -> list[int]:
    """Return the tokens of `marith.prefix`. Raises Refusal if `tokens` do not begin with them."""
    prefix = fields.marith.prefix or []
    if [*tokens[: len(prefix)]] != prefix:
        raise Refusal(
            "the continuation must begin with the tokens of marith.prefix", param="continuation"
        )
    return prefix


async def what_if(server: Server, web: WebRequest) -> Response:
    """Return the tokens that a text would have if a number of its formula were different.

    The server evaluates the text in one pass, and tries each value on the log-probabilities of
    every term.
    """
    with server.place_for(web):
        fields, model = await server.fields(WhatIfFields, web)
        limits, warnings = server.settings.limits, warnings_of(fields)

        def begin() -> Future[WhatIf]:
            request = _request(fields, model, server, web)
            model.require_known_tokens(fields.continuation, "continuation")
            with naming("number"):
                NumberedFormula.of(request.formula).require(fields.number)
            tokens = fields.continuation[len(_prefix(fields, fields.continuation)) :]
            reason: Literal["stop", "length"] = "stop" if fields.ended else "length"
            completion = Completion("", tokens, reason, Usage(0, 0), Stats(0, 0, 0, 0.0))
            return submit_what_if(model.engine, request, completion, limits.what_if_bytes)

        head = {"object": "marith.what_if", "model": model.name, **warnings_note(warnings)}
        hides, left = not server.settings.allow_formulas, threading.Event()

        async def redrawn() -> bytes:
            async with server.what_ifs:
                made = await server.workers.result_of(begin)
                tried = partial(_redrawn, made, model.engine, fields, hides, left.is_set)
                work = asyncio.to_thread(lambda: ascii_json({**head, **tried()}))
                thread = asyncio.ensure_future(work)
                try:
                    return await asyncio.shield(thread)
                finally:
                    left.set()
                    # The thread holds memory until it ends, so it keeps its place in `what_ifs`.
                    await asyncio.wait([thread])

        try:
            answer = await until_gone(web, redrawn())
        finally:
            left.set()
        server.metrics.read(model.name, len(fields.continuation))
        note(web, model=model.name, values=len(fields.values))
    return Response(answer, media_type="application/json")


def _redrawn(
    what_if: WhatIf, engine: Engine, fields: WhatIfFields, hides: bool, left: Callable[[], bool]
) -> dict[str, Any]:
    """Return the answer for all values. Stops once the client has left.

    If `hides`, texts of terms are removed from the formula.
    """
    prefix = fields.marith.prefix or []
    formula = NumberedFormula(what_if.text, what_if.numbers)
    formula = formula.without_texts() if hides else formula
    spell = cache(lambda token: None if token is None else engine.spell([token]))
    answer: dict[str, list[Any]] = {
        name: [] for name in ("tokens", "texts", "first_flip", "flipped_to", "refused")
    }
    for value in fields.values:
        if left():
            raise Refusal("the client has left", LEFT)
        redrawn = what_if.at(fields.number, [value])
        redrawn = redrawn.without_texts() if hides else redrawn
        drawn = [token if token >= 0 else None for token in redrawn.tokens[0]]
        tokens = [*prefix, *drawn] if drawn else []
        answer["tokens"].append(tokens)
        answer["texts"].append([*map(spell, tokens)])
        answer["first_flip"] += [
            None if flip is None else len(prefix) + flip for flip in redrawn.first_flip
        ]
        answer["flipped_to"] += redrawn.flipped_to
        answer["refused"] += redrawn.refused
    return {
        "formula": formula.text,
        "numbers": number_entries(formula.numbers),
        "number": fields.number,
        "values": fields.values,
        **answer,
    }


def _request(
    fields: MadeTextFields, model: ServedModel, server: Server, web: WebRequest
) -> Request:
    """Return the request that made a text. Raises Refusal, RequestError or FormulaError."""
    asked, settings, key = fields.asked, server.settings, web.scope.get(KEY)
    if isinstance(asked, ChatFields):
        return chat_requests(asked, model, settings, key).requests[0]
    assert isinstance(asked, TextFields), "a text answers a chat or continues a prompt"
    prompt = asked.prompts[0] if asked.prompts else []
    return text_requests(asked, model, settings, key, prompt).requests[0]
