"""`POST /v1/completions`: texts and tokens that are continued as they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from starlette.requests import Request as WebRequest
from starlette.responses import Response

from marith import Completion, ContextOverflow, Engine
from marith.openai_format import finite_logprob
from marith.serving.http.guard import KEY
from marith.serving.http.until_gone import until_gone
from marith.serving.routes.answering import Answering
from marith.serving.served_models import ServedModel
from marith.serving.server import Server
from marith.serving.wire.choice_events import ChoiceWriter
from marith.serving.wire.refusals import Refusal, naming
from marith.serving.wire.wire_answers import (
    AnswerHead,
    TextDeltas,
    legacy_logprobs,
    likeliest,
    own,
    text_choice,
    token_name,
    usage,
)
from marith.serving.wire.wire_fields import TextFields
from marith.serving.wire.wire_requests import WireRequest, text_requests

MOST_PROMPTS = 64


async def text(server: Server, web: WebRequest) -> Response:
    """One prompt or several; with `echo` and `logprobs` the prompt's own tokens are scored."""
    began = time.monotonic()
    with ExitStack() as place:
        place.enter_context(server.place_for(web))
        fields, persona = await server.fields(TextFields, web)
        if len(fields.prompts) > MOST_PROMPTS or not fields.prompts:
            raise Refusal(f"there are from 1 to {MOST_PROMPTS} prompts", param="prompt")
        place.enter_context(server.more_places(web, fields.n, len(fields.prompts)))
        asked = await server.runner.off_loop(lambda: _asked(fields, persona, server, web))
        nothing = fields.max_tokens == 0  # the prompt alone is echoed
        requests = [] if nothing else [request for each in asked for request in each.requests]
        with naming("prompt", ContextOverflow):
            tickets = await server.runner.begin(persona.engine, requests)
        head = AnswerHead.of("text_completion", persona.name, persona.fingerprint)
        each = len(asked[0].requests)
        answer = Answering(server, web, persona, each, tickets, began)
        if fields.streams:
            scored = fields.logprobs is not None
            deltas = [TextDeltas(i, scored) for i in range(len(tickets))]
            return answer.stream(ChoiceWriter(head, asked[0], deltas), place.pop_all())
        found = [] if nothing else await answer.whole()
        choices = await _choices(fields, persona, server, web, asked, found)
        taken = usage([one.usage for one in found], each)
        if nothing:
            taken["prompt_tokens"] = sum(len(one.requests[0].prompt) for one in asked)
            taken["total_tokens"] = taken["prompt_tokens"]
        whole = {**head.fields(), "choices": choices, "usage": taken, **own(asked[0], found)}
        return await answer.json(whole, found)


def _asked(
    fields: TextFields, persona: ServedModel, server: Server, web: WebRequest
) -> list[WireRequest]:
    """The requests of each prompt. Raises Refusal."""
    if fields.echo and fields.streams:
        raise Refusal("echo is for answers that do not stream", param="echo")
    key = web.scope.get(KEY)
    return [text_requests(fields, one, persona, server.settings, key) for one in fields.prompts]


async def _choices(
    fields: TextFields,
    persona: ServedModel,
    server: Server,
    web: WebRequest,
    asked: Sequence[WireRequest],
    found: Sequence[Completion],
) -> list[dict[str, Any]]:
    """The choices of all prompts, in their order."""
    choices: list[dict[str, Any]] = []
    for at, one in enumerate(asked):
        tokens, each = [*one.requests[0].prompt], len(one.requests)
        before, echoed = "", None
        if fields.echo:
            decode = partial(persona.engine.decode, tokens)
            before = await server.runner.off_loop(decode)
        completions = found[at * each : (at + 1) * each]
        if fields.echo and fields.logprobs is not None:
            end = persona.engine.end_tokens[:1] if any(map(_ended_at_once, completions)) else []
            columns = _echoed(persona, server, one, [*tokens, *end], fields.logprobs)
            echoed = await until_gone(web, columns)
        if not found:
            choices.append(
                {"index": at, "text": before, "logprobs": echoed, "finish_reason": "length"}
            )
        for completion in completions:
            logprobs = None
            if fields.logprobs is not None:
                letters = len(completion.text)
                logprobs = legacy_logprobs(completion.logprobs or (), letters, len(before))
            if logprobs is not None and echoed is not None:
                count = None if _ended_at_once(completion) else len(tokens)
                logprobs = {name: [*echoed[name][:count], *logprobs[name]] for name in logprobs}
            choices.append(text_choice(len(choices), completion, logprobs, before))
    return choices


def _ended_at_once(completion: Completion) -> bool:
    """Whether the end was the first token: clients that read an echo count one token after it."""
    stopped = completion.finish_reason == "stop" and completion.stop_string is None
    return stopped and not completion.logprobs


async def _echoed(
    persona: ServedModel,
    server: Server,
    asked: WireRequest,
    tokens: Sequence[Any],
    top: int,
) -> dict[str, list[Any]]:
    """The log-probabilities of a prompt's tokens, and the `top` likeliest; the first has none."""
    engine, request = persona.engine, asked.requests[0]
    future: Any = None
    if len(tokens) > 1:
        begin = partial(
            engine.submit_scoring,
            [*tokens[:1]],
            [*tokens[1:]],
            request.formula,
            request.terms,
            timeout=request.timeout,
            cache_salt=request.cache_salt,
            top=top,
        )
        future = await server.runner.off_loop(begin)
    scores = None if future is None else await asyncio.wrap_future(future)
    return await server.runner.off_loop(lambda: _columns(engine, tokens, scores))


def _columns(engine: Engine, tokens: Sequence[int], scores: Any) -> dict[str, Any]:
    """Columns of equal length, of which the first entry has no number."""
    pieces = engine.pieces(tokens)
    scored: list[Any] = [None]
    tops: list[Any] = [None]
    if scores is not None:
        scored += map(finite_logprob, scores.logprobs)
        for top, number, token in zip(scores.top, scores.logprobs, tokens[1:], strict=True):
            found = [*top, (token, number)]
            data = [data for data, _ in engine.pieces([each for each, _ in found])]
            tops.append(likeliest([(t, d, n) for (t, n), d in zip(found, data, strict=True)]))
    return {
        "tokens": [token_name(data) for data, _ in pieces],
        "token_logprobs": scored,
        "top_logprobs": tops,
        "text_offset": [offset for _, offset in pieces],
    }
