"""Inspect a text that the engine has just made: its ticket holds the end back until then."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from marith.engine.engine import Engine
from marith.engine.job_queue import require_enough_lanes
from marith.engine.prepare import Prepared
from marith.engine.threads.deadline import NEVER, Deadline
from marith.engine.ticket import Ticket
from marith.inspection.inspected_formula import InspectedFormula, top_of
from marith.inspection.inspecting import Inspecting, TokenTexts
from marith.request.completion import Chunk, Completion
from marith.request.inspected.inspection import Inspection
from marith.request.request import Request
from marith.tensor_rows import Row

Begin: TypeAlias = "Callable[[InspectedTicket, Completion], None]"


class InspectedTicket(Ticket):
    """Holds the last chunk and the completion back until the inspection is there, or has failed.

    `begin` starts the inspection of a completion for this ticket. Its chunks until then are put at
    once; what the inspection costs is not in the completion's stats.
    """

    def __init__(self, begin: Begin, keeper: object = None, deadline: Deadline = NEVER) -> None:
        super().__init__(keeper, deadline)
        self._begin = begin
        self._last: Chunk | None = None
        self._completion_held: Completion | None = None

    def put(self, chunk: Chunk) -> None:
        """A chunk is ready; the last one waits for the inspection."""
        if chunk.finish_reason is None:
            super().put(chunk)
        else:
            self._last = chunk

    def end(self, end: Completion | BaseException) -> None:
        """The text is finished and is inspected now, or has failed."""
        if isinstance(end, Completion) and not self.ended:
            self._completion_held = end
            self._begin(self, end)
        else:
            super().end(end)

    def inspected(self, inspection: Inspection) -> None:
        """The engine's side: the inspection is there, and the request has come to its end."""
        assert self._last is not None, "a completion follows its last chunk"
        assert self._completion_held is not None, "an inspection follows its completion"
        super().put(replace(self._last, inspection=inspection))
        super().end(replace(self._completion_held, inspection=inspection))


class Following(Inspecting):
    """The inspection of a completion's tokens; its ticket gets it, and is held weakly."""

    ticket: weakref.ref[InspectedTicket]

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for the ticket any more."""
        ticket = self.ticket()
        return ticket is None or ticket.ended

    def check(self, rows: Sequence[Row]) -> None:
        """Inspect the next positions; after the last of them the ticket gets all."""
        super().check(rows)
        if self.done:
            self.deliver()

    def deliver(self) -> None:
        """Give the inspection to the ticket."""
        if ticket := self.ticket():
            ticket.inspected(self.result())

    def fail(self, error: BaseException) -> None:
        """The inspection has failed, and with it the request."""
        super().fail(error)
        if ticket := self.ticket():
            ticket.end(error)


class Follower:
    """Begins the inspection of a request's completion; made and checked before the text is.

    `prepared` is the request's, with the bare model beside and without drafts. Raises RequestError
    for a text that may have too many positions to be inspected.
    """

    def __init__(
        self,
        request: Request,
        prepared: Prepared,
        engine: Engine,
    ) -> None:
        require_enough_lanes(prepared, engine.limits)
        self._prepared, self._engine = prepared, engine
        self._texts = TokenTexts(engine.answers.lexicon)
        self._formula = InspectedFormula.of(request, prepared, top_of(request.inspect), True)
        self._formula.require_bounded(prepared.more - len(prepared.prefix))

    def begin(self, ticket: InspectedTicket, completion: Completion) -> None:
        """Inspect the tokens of a completion, by one more pass over them."""
        prefix = self._prepared.prefix
        continuation = [*prefix, *completion.tokens]
        text = self._engine.decode(completion.tokens)
        following = Following(
            replace(self._prepared, more=len(continuation)),
            continuation,
            self._formula,
            self._texts,
            text,
            start=len(prefix),
        )
        following.ticket = weakref.ref(ticket)
        if following.done:  # there is no token
            following.deliver()
        else:
            self._engine.run(following, follows=True)
