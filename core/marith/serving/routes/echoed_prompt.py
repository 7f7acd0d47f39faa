"""The prompt of `/v1/completions`, with which each choice begins if the request has `echo`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, Self

from starlette.requests import Request as WebRequest

from marith import Completion, Engine
from marith.openai_format import finite_logprob
from marith.serving.served_models import ServedModel
from marith.serving.server import Server
from marith.serving.until_gone import until_gone
from marith.serving.wire.wire_answers import ending, legacy_logprobs, likeliest, token_name
from marith.serving.wire.wire_requests import WireRequest


@dataclass(frozen=True, slots=True)
class EchoedPrompt:
    """A prompt, as the text of each choice repeats it; empty if the request has no `echo`.

    `count` is the number of its tokens. `columns` has the log-probabilities of its tokens, or is
    None if they are not wanted. An end token follows in `columns` if an answer begins with it.
    """

    text: str = ""
    count: int = 0
    columns: Mapping[str, list[Any]] | None = None

    @classmethod
    async def of(
        cls,
        server: Server,
        web: WebRequest,
        model: ServedModel,
        asked: WireRequest,
        completions: Sequence[Completion],
        top: int | None,
    ) -> Self:
        """Return the prompt of some completions, with the `top` likeliest tokens at each place."""
        engine, tokens = model.engine, [*asked.requests[0].prompt]
        text = await server.workers.off_loop(partial(engine.decode, tokens))
        if top is None:
            return cls(text, len(tokens))
        end = engine.end_tokens[:1] if any(map(_ended_at_once, completions)) else []
        scoring = _scored(server, engine, asked, [*tokens, *end], top)
        return cls(text, len(tokens), await until_gone(web, scoring))

    def alone(self, index: int) -> dict[str, Any]:
        """Return a choice that has only the prompt, for `max_tokens` 0."""
        choice = {"index": index, "text": self.text, "logprobs": self.columns}
        return {**choice, "finish_reason": "length"}

    def before(self, completion: Completion, index: int, scored: bool) -> dict[str, Any]:
        """Return the choice of a completion. If `scored`, it has log-probabilities."""
        logprobs = None
        if scored:
            letters, before = len(completion.text), len(self.text)
            logprobs = legacy_logprobs(completion.logprobs or (), letters, before)
        if logprobs is not None and self.columns is not None:
            count = None if _ended_at_once(completion) else self.count
            logprobs = {name: [*self.columns[name][:count], *logprobs[name]] for name in logprobs}
        choice = {"index": index, "text": self.text + completion.text, "logprobs": logprobs}
        return {**choice, **ending(completion)}


def _ended_at_once(completion: Completion) -> bool:
    """Return True if the end token came first.

    The end token is then listed after the prompt, because clients that asked for an echo expect
    one token there.
    """
    stopped = completion.finish_reason == "stop" and completion.stop_string is None
    return stopped and not completion.logprobs


async def _scored(
    server: Server, engine: Engine, asked: WireRequest, tokens: Sequence[int], top: int
) -> dict[str, list[Any]]:
    """Return the log-probabilities of a prompt's tokens and of the `top` likeliest tokens.

    The first token has none, and neither have the tokens that complete its character.
    """
    request, first = asked.requests[0], _first_character(engine, tokens)
    scores: Any = None
    if len(tokens) > first:
        scores = await server.workers.result_of(
            lambda: engine.submit_scoring(
                [*tokens[:first]],
                [*tokens[first:]],
                request.formula,
                request.terms,
                timeout=request.timeout,
                cache_salt=request.cache_salt,
                top=top,
            )
        )
    return await server.workers.off_loop(lambda: _columns(engine, tokens, scores, first))


def _first_character(engine: Engine, tokens: Sequence[int]) -> int:
    """Return how many tokens the first token and the bytes that complete its character are."""
    # In UTF-8, a byte 10xxxxxx continues a character.
    following = (data[:1] for data, _ in engine.pieces(tokens[1:]))
    return 1 + sum(1 for _ in takewhile(lambda byte: b"\x80" <= byte < b"\xc0", following))


def _columns(engine: Engine, tokens: Sequence[int], scores: Any, first: int) -> dict[str, Any]:
    """Return columns of equal length. The `first` entries of each column of numbers are None."""
    pieces = engine.pieces(tokens)
    scored: list[Any] = [None] * first
    tops: list[Any] = [None] * first
    if scores is not None:
        scored += map(finite_logprob, scores.logprobs)
        for top, number, token in zip(scores.top, scores.logprobs, tokens[first:], strict=True):
            found = [*top, (token, number)]
            data = [data for data, _ in engine.pieces([each for each, _ in found])]
            tops.append(likeliest([(t, d, n) for (t, n), d in zip(found, data, strict=True)]))
    return {
        "tokens": [token_name(data) for data, _ in pieces],
        "token_logprobs": scored,
        "top_logprobs": tops,
        "text_offset": [offset for _, offset in pieces],
    }
