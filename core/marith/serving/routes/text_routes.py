"""`POST /v1/chat/completions` and `/v1/completions`: answers, whole or streamed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request as WebRequest
from starlette.responses import Response

from marith import Completion, ContextOverflow, Ticket
from marith.serving.event_stream import EventStream, ascii_json, is_of_the_client
from marith.serving.guard import ID, KEY
from marith.serving.routes.echoed_prompt import EchoedPrompt
from marith.serving.served_models import ServedModel
from marith.serving.server import Server, note
from marith.serving.server_metrics import Pace
from marith.serving.until_gone import LEFT, cancel, chunks, until_gone
from marith.serving.wire.choice_events import ChoiceWriter
from marith.serving.wire.refusals import Refusal, naming, refusal
from marith.serving.wire.wire_answers import (
    ChatDeltas,
    TextDeltas,
    answer_head,
    chat_answer,
    own,
    usage,
)
from marith.serving.wire.wire_fields import ChatFields, TextFields
from marith.serving.wire.wire_requests import WireRequest, chat_requests, text_requests

_log = logging.getLogger(__name__)
# Streams that fail with these statuses are not logged as faults: the answer was too slow, or the
# engine has ended. The engine itself logs its end unless it was closed.
TIMED_OUT, ENDED = 504, 503
MOST_PROMPTS = 64


@dataclass
class Answering:
    """One HTTP answer with its choices, whole or streamed, and the metrics that count it.

    There is a ticket for each choice of each prompt, and `each` choices for a prompt.
    """

    server: Server
    web: WebRequest
    model: ServedModel
    each: int
    tickets: Sequence[Ticket]
    began: float

    def __post_init__(self) -> None:
        name = self.model.name
        self._paces = [Pace(self.server.metrics, name, self.began) for _ in self.tickets]

    async def whole(self) -> list[Completion]:
        """Return all completions. Raises Refusal if the client leaves."""

        async def ended() -> list[Completion]:
            async with aclosing(chunks(self.tickets)) as arriving:
                async for index, chunk in arriving:
                    self._paces[index].chunk(chunk)
            return [ticket.result(0) for ticket in self.tickets]

        try:
            found = await until_gone(self.web, ended())
        except BaseException:
            self._abandon()
            raise
        self._count(found)
        return self._shown(found)

    def stream(self, writer: ChoiceWriter, place: ExitStack) -> EventStream:
        """Return the answer in events.

        When the events end, `place` is closed, so the key may run another request.
        """
        seconds = self.server.settings.limits.write_seconds
        source = self._events(writer)
        return EventStream(source, seconds, self._failed, writer.closing, place.close)

    async def json(self, build: Callable[[], Mapping[str, Any]]) -> Response:
        """Return an answer that does not stream. A thread builds it and writes the JSON."""
        data = await asyncio.to_thread(lambda: ascii_json(build()))
        return Response(data, media_type="application/json")

    async def _events(self, writer: ChoiceWriter) -> AsyncGenerator[bytes]:
        """Yield each event as it comes."""
        for data in writer.first():
            yield data
        async with aclosing(chunks(self.tickets)) as arriving:
            async for index, chunk in arriving:
                self._paces[index].chunk(chunk)
                for data in writer.of(index, chunk):
                    yield data
        found = [ticket.result(0) for ticket in self.tickets]
        self._count(found)
        found = self._shown(found)
        for data in await asyncio.to_thread(lambda: [*writer.last(found)]):
            yield data

    def _shown(self, found: Sequence[Completion]) -> list[Completion]:
        """Return the completions, without the texts of terms unless the server allows formulas."""
        if self.server.settings.allow_formulas:
            return [*found]
        names = self.model.options.names_of_terms
        return [completion.without_texts(names) for completion in found]

    def _count(self, found: Sequence[Completion]) -> None:
        name, metrics = self.model.name, self.server.metrics
        for completion in found:
            metrics.completed(name, completion, self.began)
        # The answers to one prompt share its tokens, which count once.
        for completion in found[:: self.each]:
            metrics.read(name, completion.usage.prompt_tokens, completion.usage.cached_tokens)
        counts = sum(one.usage.completion_tokens for one in found)
        note(self.web, model=name, completion_tokens=counts, answers=len(found))
        if self.server.settings.log_texts:
            note(self.web, texts=[one.text for one in found])

    def _abandon(self) -> None:
        cancel(self.tickets)
        for pace in self._paces:
            pace.abandoned()

    def _failed(self, error: BaseException) -> None:
        """Count and log a stream that ended with an error, or whose client left."""
        self._abandon()
        status = LEFT if is_of_the_client(error) else refusal(error).status
        if status >= 500 and status not in (TIMED_OUT, ENDED):
            _log.error("the stream of %s failed", self.web.scope[ID], exc_info=error)
        note(self.web, ended=f"{type(error).__name__}", model=self.model.name)
        self.server.metrics.failed.labels(str(status)).inc()


async def chat(server: Server, web: WebRequest) -> Response:
    """Answer a chat, whole or in events."""
    began = time.monotonic()
    with ExitStack() as place:
        place.enter_context(server.place_for(web))
        fields, model = await server.fields(ChatFields, web)
        place.enter_context(server.more_places(web, fields.n))
        key = web.scope.get(KEY)
        asked = await server.workers.off_loop(
            lambda: chat_requests(fields, model, server.settings, key)
        )
        tickets = await server.workers.begin(model.engine, asked.requests)
        head = answer_head("chat.completion", model.name, model.fingerprint)
        answer = Answering(server, web, model, len(asked.requests), tickets, began)
        if fields.stream:
            deltas = [ChatDeltas(i, bool(fields.logprobs)) for i in range(len(tickets))]
            return answer.stream(ChoiceWriter(head, asked, deltas), place.pop_all())
        found = await answer.whole()
        return await answer.json(lambda: chat_answer(head, asked, found))


async def text(server: Server, web: WebRequest) -> Response:
    """Continue one prompt or several.

    With `echo` and `logprobs` the answer has the log-probabilities of the prompt's tokens too.
    """
    began = time.monotonic()
    with ExitStack() as place:
        place.enter_context(server.place_for(web))
        fields, model = await server.fields(TextFields, web)
        if len(fields.prompts) > MOST_PROMPTS or not fields.prompts:
            raise Refusal(f"a request must have 1 to {MOST_PROMPTS} prompts", param="prompt")
        place.enter_context(server.more_places(web, fields.n, len(fields.prompts)))
        if fields.echo and fields.stream:
            raise Refusal("echo cannot be combined with stream", param="echo")
        read = partial(text_requests, fields, model, server.settings, web.scope.get(KEY))
        asked = await server.workers.off_loop(lambda: [*map(read, fields.prompts)])
        # With `max_tokens` 0 the prompt is only echoed.
        nothing = fields.max_tokens == 0
        requests = [] if nothing else [request for each in asked for request in each.requests]
        with naming("prompt", ContextOverflow):
            tickets = await server.workers.begin(model.engine, requests)
        head = answer_head("text_completion", model.name, model.fingerprint)
        each = len(asked[0].requests)
        answer = Answering(server, web, model, each, tickets, began)
        if fields.stream:
            scored = fields.logprobs is not None
            deltas = [TextDeltas(i, scored) for i in range(len(tickets))]
            return answer.stream(ChoiceWriter(head, asked[0], deltas), place.pop_all())
        found = [] if nothing else await answer.whole()
        choices = await _choices(fields, model, server, web, asked, found)
        taken = usage([one.usage for one in found], each)
        if nothing:
            taken["prompt_tokens"] = sum(len(one.requests[0].prompt) for one in asked)
            taken["total_tokens"] = taken["prompt_tokens"]
        whole = {**head, "choices": choices, "usage": taken}
        return await answer.json(lambda: {**whole, **own(asked[0], found)})


async def _choices(
    fields: TextFields,
    model: ServedModel,
    server: Server,
    web: WebRequest,
    asked: Sequence[WireRequest],
    found: Sequence[Completion],
) -> list[dict[str, Any]]:
    """Return the choices of all prompts, in the order of the prompts."""
    choices: list[dict[str, Any]] = []
    top = fields.logprobs
    for at, one in enumerate(asked):
        each, prompt = len(one.requests), EchoedPrompt()
        completions = found[at * each : (at + 1) * each]
        if fields.echo:
            prompt = await EchoedPrompt.of(server, web, model, one, completions, top)
        if not found:
            choices.append(prompt.alone(at))
        for completion in completions:
            choices.append(prompt.before(completion, len(choices), top is not None))
    return choices
