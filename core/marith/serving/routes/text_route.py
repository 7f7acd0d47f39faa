"""`POST /v1/completions`: texts and tokens that are continued as they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response

from marith import Completion
from marith.openai_format import finite_logprob
from marith.serving.http.guard import KEY
from marith.serving.http.until_gone import until_gone
from marith.serving.routes.chat_route import Answering
from marith.serving.served_models import ServedModel
from marith.serving.server import Server
from marith.serving.wire.json_body import read_json
from marith.serving.wire.refusals import Refusal
from marith.serving.wire.wire_answers import (
    AnswerHead,
    TextDeltas,
    legacy_logprobs,
    own,
    text_choice,
    usage,
)
from marith.serving.wire.wire_fields import TextFields
from marith.serving.wire.wire_requests import WireRequest, text_requests

MOST_PROMPTS = 64


async def text(server: Server, web: WebRequest) -> Response:
    """One prompt or several; with `echo` and `logprobs` the prompt's own tokens are scored."""
    began = time.monotonic()
    body = await read_json(web, server.settings.bounds)
    with ExitStack() as place:
        place.enter_context(server.place_for(web))
        fields, persona = await server.fields(TextFields, body)
        asked = await server.runner.off_loop(lambda: _asked(fields, persona, server, web))
        requests = [request for each in asked for request in each.requests]
        tickets = await server.runner.begin(persona.engine, requests)
        head = AnswerHead.of("text_completion", persona.name, persona.fingerprint)
        answer = Answering(server, web, persona, asked[0], head, tickets, began)
        if fields.streams:
            scored = fields.logprobs is not None
            return answer.stream(lambda i: TextDeltas(i, scored), place.pop_all())
        found = await answer.whole()
        choices = await _choices(fields, persona, web, asked, found)
        taken = usage([one.usage for one in found])
        return JSONResponse(
            {**head.fields(), "choices": choices, "usage": taken, **own(asked[0], found)}
        )


def _asked(
    fields: TextFields, persona: ServedModel, server: Server, web: WebRequest
) -> list[WireRequest]:
    """The requests of each prompt. Raises Refusal."""
    prompts = fields.prompts
    if not prompts or len(prompts) > MOST_PROMPTS:
        raise Refusal(f"there are from 1 to {MOST_PROMPTS} prompts", param="prompt")
    if fields.echo and fields.streams:
        raise Refusal("echo is for answers that do not stream", param="echo")
    salt = web.scope.get(KEY)
    return [text_requests(fields, one, persona, server.settings, salt) for one in prompts]


async def _choices(
    fields: TextFields,
    persona: ServedModel,
    web: WebRequest,
    asked: Sequence[WireRequest],
    found: Sequence[Completion],
) -> list[dict[str, Any]]:
    """The choices of all prompts, in their order."""
    choices: list[dict[str, Any]] = []
    each = len(asked[0].requests)
    for at, one in enumerate(asked):
        tokens = [*one.requests[0].prompt]
        before = persona.engine.decode(tokens) if fields.echo else ""
        echoed = None
        if fields.echo and fields.logprobs is not None:
            echoed = await until_gone(web, _echoed(persona, one, tokens))
        for completion in found[at * each : (at + 1) * each]:
            logprobs = None
            if fields.logprobs is not None:
                own_tokens = completion.logprobs or ()
                logprobs = legacy_logprobs(own_tokens, len(before))
                if echoed is not None:
                    logprobs = {name: [*echoed[name], *logprobs[name]] for name in logprobs}
            choices.append(text_choice(len(choices), completion, logprobs, before))
    return choices


async def _echoed(
    persona: ServedModel, asked: WireRequest, tokens: Sequence[Any]
) -> dict[str, list[Any]]:
    """The log-probabilities of a prompt's tokens; that of the first one is null."""
    engine, request = persona.engine, asked.requests[0]
    texts = [engine.decode([token]) for token in tokens]
    scored: list[Any] = [None]
    tops: list[Any] = [None]
    if len(tokens) > 1:
        future = engine.submit_scoring(
            [*tokens[:1]],
            [*tokens[1:]],
            request.formula,
            request.terms,
            timeout=request.timeout,
            cache_salt=request.cache_salt,
        )
        scores = await asyncio.wrap_future(future)
        scored += map(finite_logprob, scores.logprobs)
        for token, logprob, best in zip(texts[1:], scores.logprobs, scores.best, strict=True):
            top = {engine.decode([best[0]]): finite_logprob(best[1])}
            tops.append({**top, token: finite_logprob(logprob)})
    offsets = [sum(map(len, texts[:i])) for i in range(len(texts))]
    return {
        "tokens": texts, "token_logprobs": scored, "top_logprobs": tops, "text_offset": offsets,
    }  # fmt: skip
