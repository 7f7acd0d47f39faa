"""Writes the choices of a chat or a text as events of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from marith import Chunk, Completion
from marith.serving.event_stream import event, json_line
from marith.serving.wire.refusals import refusal
from marith.serving.wire.wire_answers import (
    ChatDeltas,
    TextDeltas,
    own,
    usage,
)
from marith.serving.wire.wire_requests import WireRequest

DONE = b"data: [DONE]\n\n"
# This character stands for the text when an event is cut into the bytes around the text.
_MARK = "\0"


class ChoiceWriter:
    """Writes an answer that has one or more choices, each by its own item of `deltas`.

    The common beginning of all events is converted to JSON once. The last event has marith's own
    fields, because some fields are known only when all choices have ended. So the end of the choice
    that ends last is held back for `last`.
    """

    def __init__(
        self, head: Mapping[str, Any], asked: WireRequest, deltas: Sequence[ChatDeltas | TextDeltas]
    ) -> None:
        self._asked, self._deltas = asked, deltas
        self._with_usage = asked.fields.usage_in_stream
        self._open = len(deltas)
        self._last: list[Mapping[str, Any]] = []
        kind = {"object": "chat.completion.chunk"} if "chat" in head["object"] else {}
        self._begin = event({**head, **kind}).removesuffix(b"}\n\n")
        self._usage: Mapping[str, Any] = {"usage": None} if self._with_usage else {}
        self._around = [self._around_text(each) for each in deltas]

    def first(self) -> Iterator[bytes]:
        """Yield the events before the first token."""
        for choice in filter(None, (deltas.first() for deltas in self._deltas)):
            yield self._event([choice], self._usage)

    def of(self, index: int, chunk: Chunk) -> Iterator[bytes]:
        """Yield the events of a chunk of the choice with this index."""
        around = self._around[index]
        more = chunk.reasoning or chunk.calls or chunk.finish_reason is not None
        if around is not None and chunk.text and not more:
            yield json_line(chunk.text).join(around)
            return
        self._open -= chunk.finish_reason is not None
        for choice in self._deltas[index].of(chunk):
            is_end = choice["finish_reason"] is not None
            if is_end and not self._open and not self._with_usage:
                self._last = [choice]
            else:
                yield self._event([choice], self._usage)

    def last(self, completions: Sequence[Completion]) -> Iterator[bytes]:
        """Yield the events after the end of all choices."""
        note = own(self._asked, completions)
        if self._last:
            yield self._event(self._last, note)
        if self._with_usage:
            taken = usage(
                [completion.usage for completion in completions], len(self._asked.requests)
            )
            yield self._event([], {"usage": taken, **note})

    def closing(self, error: BaseException | None) -> bytes:
        """Return the end of the stream, after an error or without one."""
        return DONE if error is None else event(refusal(error).body) + DONE

    def _around_text(self, deltas: ChatDeltas | TextDeltas) -> list[bytes] | None:
        """Return the bytes before and after the text, for an event that has only text.

        Most events have only text. Return None if every event has more fields.
        """
        if deltas.logprobs:
            return None
        [choice] = deltas.of(Chunk(text=_MARK))
        around = self._event([choice], self._usage).split(json_line(_MARK))
        return around if len(around) == 2 else None

    def _event(self, choices: Sequence[Mapping[str, Any]], rest: Mapping[str, Any]) -> bytes:
        data = event({"choices": choices, **rest})
        return self._begin + b"," + data.removeprefix(b"data: {")
