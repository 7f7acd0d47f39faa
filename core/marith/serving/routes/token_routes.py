"""`/tokenize`, `/detokenize`, `/tokenizer_info` and `/v1/score`."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response

from marith import Engine
from marith.openai_format import finite_logprob
from marith.serving.guard import KEY
from marith.serving.server import Server
from marith.serving.until_gone import until_gone
from marith.serving.wire.wire_answers import warnings_note
from marith.serving.wire.wire_fields import (
    DetokenizeFields,
    ScoreFields,
    TokenizeFields,
    require_one_prompt,
)
from marith.serving.wire.wire_requests import options_of, require_messages_fit, warnings_of


async def tokenize(server: Server, web: WebRequest) -> Response:
    """Return the tokens of a text, or the number of tokens of messages.

    For messages only the number is returned, because each term reads them with its own prompt.
    """
    with server.place_for(web):
        fields, model = await server.fields(TokenizeFields, web)
        engine, warnings = model.engine, warnings_of(fields)
        require_one_prompt(fields.prompt, fields.messages)

        def counted() -> dict[str, Any]:
            if fields.messages is not None:
                require_messages_fit(fields.messages, server.settings.limits)
                return {"count": engine.count_tokens(fields.messages)}
            text, start = str(fields.prompt), fields.add_special_tokens
            model.require_text_fits(text, "prompt", server.settings.limits)
            named = _named_tokens(engine).get(text)
            tokens = engine.encode(text, start=start) if named is None else [named]
            return {"tokens": tokens, "count": len(tokens)}

        found = await server.workers.off_loop(counted)
    known = {"max_model_len": engine.context_length, **warnings_note(warnings)}
    return JSONResponse({**found, **known})


async def detokenize(server: Server, web: WebRequest) -> Response:
    """Return the text of tokens."""
    with server.place_for(web):
        fields, model = await server.fields(DetokenizeFields, web)
        warnings = warnings_of(fields)
        model.require_known_tokens(fields.tokens, "tokens")
        text = await server.workers.off_loop(lambda: model.engine.decode(fields.tokens))
    return JSONResponse({"prompt": text, **warnings_note(warnings)})


async def tokenizer_info(server: Server, web: WebRequest) -> Response:
    """Return the special tokens and sizes of the query's model, for evaluation harnesses.

    A harness converts `bos_token` and `eos_token` to token ids by `/tokenize`. It begins texts
    without a context with `bos_token`, as the engine does.
    """
    engine = server.models.find(web.query_params.get("model", "")).engine
    start, end = await server.workers.off_loop(lambda: _start_and_end(engine))
    return JSONResponse(
        {
            "bos_token": None if start is None else engine.spell([start]),
            "bos_token_id": start,
            "eos_token": None if end is None else engine.spell([end]),
            "eos_token_id": end,
            "vocab_size": engine.vocabulary_size,
            "max_model_len": engine.context_length,
        }
    )


def _start_and_end(engine: Engine) -> tuple[int | None, int | None]:
    """Return the token that begins an empty text, and the first end token, or None."""
    starts, ends = engine.encode("", start=True), engine.end_tokens
    return starts[0] if starts else None, ends[0] if ends else None


def _named_tokens(engine: Engine) -> dict[str, int]:
    """Return the tokens that `/tokenizer_info` names, by their names.

    A text that is only such a name becomes the token. Within a longer text the name is plain text.
    """
    return {engine.spell([token]): token for token in _start_and_end(engine) if token is not None}


async def score(server: Server, web: WebRequest) -> Response:
    """Return the log-probability of each token of a continuation under a model's formula.

    A `prompt` is plain text or tokens, without a chat template; `messages` are a chat.
    """
    with server.place_for(web):
        fields, model = await server.fields(ScoreFields, web)
        warnings = warnings_of(fields)
        require_one_prompt(fields.prompt, fields.messages)
        prompt: Any = fields.prompt if fields.prompt is not None else fields.messages
        engine, continuation = model.engine, fields.continuation

        def begin() -> tuple[list[int], Any]:
            require_messages_fit(fields.messages or (), server.settings.limits)
            for name, text in (("prompt", fields.prompt), ("continuation", continuation)):
                model.require_text_fits(text or "", name, server.settings.limits)
            options = options_of(fields, model, server.settings)
            tokens = engine.encode(continuation) if isinstance(continuation, str) else continuation
            read = engine.encode(prompt, start=True) if isinstance(prompt, str) else prompt
            future = engine.submit_scoring(
                read, tokens, options.formula, options.terms,
                timeout=server.settings.limits.seconds, cache_salt=fields.salt(web.scope.get(KEY)),
            )  # fmt: skip
            return tokens, future

        tokens, future = await server.workers.off_loop(begin)
        scores = await until_gone(web, asyncio.wrap_future(future))
        logprobs = [*map(finite_logprob, scores.logprobs)]
        server.metrics.read(model.name, len(tokens))
    return JSONResponse(
        {
            "object": "score",
            "model": model.name,
            "tokens": tokens,
            "logprobs": logprobs,
            "is_likeliest": scores.likeliest,
            "sum": sum(logprobs),
            **warnings_note(warnings),
        }
    )
