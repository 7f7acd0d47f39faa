"""The ticket of a request whose text is inspected once it has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from marith.engine.threads.deadline import NEVER, Deadline
from marith.engine.ticket import Ticket
from marith.request.completion import Chunk, Completion
from marith.request.inspected.inspection import Inspection

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
