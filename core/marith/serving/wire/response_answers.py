"""Chunks → the items of a response, and the events of their changes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from marith import CallChunk, Chunk, Completion, TokenLogprob, Usage
from marith.openai_format import from_logprobs
from marith.serving.http.event_stream import event
from marith.serving.wire.refusals import refusal
from marith.serving.wire.response_fields import OF_TOOLS, ResponseFields
from marith.serving.wire.wire_answers import AnswerHead, own
from marith.serving.wire.wire_requests import WireRequest

Event: TypeAlias = "tuple[str, dict[str, Any]]"  # its type, and its fields
_IDS = {"reasoning": "rs", "message": "msg", "function_call": "fc"}
_TOO_MANY = 429


class OutputItems:
    """The items of one answer so far: reasoning, a message, calls. Keeps state.

    Each change of an item is an event. An item is open until the next one begins, or the answer
    ends. With `scores` a message has the log-probabilities of its tokens.
    """

    def __init__(self, scores: bool) -> None:
        self._scores = scores
        self._done: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None  # as it began
        self._texts: list[str] = []  # of the open item
        self._logprobs: list[dict[str, Any]] = []

    @property
    def items(self) -> list[dict[str, Any]]:
        """All items; one that is open is incomplete."""
        return [*self._done, *([self._whole("incomplete")] if self._open is not None else ())]

    def of(self, chunk: Chunk) -> Iterator[Event]:
        """The events of a chunk; the last one closes all items."""
        if chunk.reasoning:
            yield from self._begin("reasoning")
            yield self._delta("response.reasoning_text", chunk.reasoning)
        scored = self._scores and chunk.logprobs and self._kind == "message"
        if chunk.text or (scored and not chunk.calls):
            yield from self._begin("message")
            yield self._delta("response.output_text", chunk.text, chunk.logprobs)
        for call in chunk.calls:
            yield from self._call(call)
        if chunk.finish_reason is not None:
            if self._open is None and not self._done:
                yield from self._begin("message")
            yield from self._end("incomplete" if chunk.finish_reason == "length" else "completed")

    @property
    def _kind(self) -> str | None:
        return None if self._open is None else self._open["type"]

    def _call(self, call: CallChunk) -> Iterator[Event]:
        if call.id is not None:
            yield from self._begin("function_call", call_id=call.id, name=call.name, arguments="")
        if call.arguments:
            yield self._delta("response.function_call_arguments", call.arguments)

    def _begin(self, kind: str, **fields: Any) -> Iterator[Event]:
        """Open an item of a kind, unless one is; each call is an item of its own."""
        if self._kind == kind and kind != "function_call":
            return
        yield from self._end("completed")
        self._texts, self._logprobs = [], []
        item: dict[str, Any] = {"id": f"{_IDS[kind]}_{secrets.token_hex(12)}", "type": kind}
        if kind == "message":
            fields = {"role": "assistant", "content": []}
        elif kind == "reasoning":
            fields = {"summary": [], "content": []}
        self._open = {**item, **fields, "status": "in_progress"}
        yield "response.output_item.added", self._at({"item": self._open})
        if kind != "function_call":
            yield "response.content_part.added", self._at_part({"part": self._part("", [])})

    def _delta(self, name: str, text: str, tokens: Sequence[TokenLogprob] = ()) -> Event:
        self._texts.append(text)
        fields: dict[str, Any] = {"delta": text}
        if self._kind == "message":
            scored = from_logprobs(tokens) if self._scores else {}
            fields["logprobs"] = scored.get("logprobs", {}).get("content", [])
            self._logprobs += fields["logprobs"]
        return f"{name}.delta", self._of_item(fields)

    def _end(self, status: str) -> Iterator[Event]:
        """Close the item that is open."""
        if self._open is None:
            return
        item, text = self._whole(status), "".join(self._texts)
        if item["type"] == "function_call":
            done = {"name": item["name"], "arguments": text}
            yield "response.function_call_arguments.done", self._of_item(done)
        else:
            [part] = item["content"]
            fields = {"text": text} | ({"logprobs": part["logprobs"]} if "logprobs" in part else {})
            yield f"response.{part['type']}.done", self._of_item(fields)
            yield "response.content_part.done", self._at_part({"part": part})
        yield "response.output_item.done", self._at({"item": item})
        self._done.append(item)
        self._open = None

    def _whole(self, status: str) -> dict[str, Any]:
        """The open item with what it has so far."""
        assert self._open is not None
        text = "".join(self._texts)
        key = "arguments" if self._kind == "function_call" else "content"
        value = text if key == "arguments" else [self._part(text, [*self._logprobs])]
        return {**self._open, key: value, "status": status}

    def _part(self, text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
        if self._kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}

    def _at(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"output_index": len(self._done), **fields}

    def _at_part(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        assert self._open is not None
        return self._at({"item_id": self._open["id"], "content_index": 0, **fields})

    def _of_item(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of the open item, or of its one part."""
        assert self._open is not None
        if self._kind == "function_call":
            return self._at({"item_id": self._open["id"], **fields})
        return self._at_part(fields)


class ResponseObject:
    """The response object: what was asked, and the output so far."""

    def __init__(self, head: AnswerHead, fields: ResponseFields, asked: WireRequest) -> None:
        self._asked, drawn = asked, asked.requests[0].sampling
        self._begun: dict[str, Any] = {
            "id": head.id,
            "object": "response",
            "created_at": head.created,
            "completed_at": None,
            "status": "in_progress",
            "model": head.model,
            "output": [],
            "usage": None,
            "error": None,
            "incomplete_details": None,
            "instructions": fields.instructions,
            "max_output_tokens": fields.max_output_tokens,
            "metadata": fields.metadata or {},
            "parallel_tool_calls": fields.parallel_tool_calls is not False,
            "temperature": drawn.temperature,
            "top_p": drawn.top_p,
            "top_logprobs": fields.top_logprobs or 0,
            "text": {"format": fields.format},
            "tool_choice": fields.choice,
            "tools": [_tool(tool) for tool in fields.tools or ()],
            "truncation": "disabled",
            "background": False,
            "previous_response_id": None,
            "store": False,
        }

    def begun(self) -> dict[str, Any]:
        """Before any item."""
        return self._begun

    def ended(self, items: Sequence[Any], completion: Completion) -> dict[str, Any]:
        """Once the answer has ended."""
        is_cut = completion.finish_reason == "length"
        return {
            **self._begun,
            "status": "incomplete" if is_cut else "completed",
            "completed_at": None if is_cut else int(time.time()),
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": [*items],
            "usage": _usage(completion.usage),
            **own(self._asked, [completion]),
        }

    def failed(self, items: Sequence[Any], message: str, status: int) -> dict[str, Any]:
        """Once it has failed, by an error of this HTTP status."""
        code = "rate_limit_exceeded" if status == _TOO_MANY else "server_error"
        error = {"code": code, "message": message}
        return {**self._begun, "status": "failed", "output": [*items], "error": error}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", **{name: tool.get(name) for name in OF_TOOLS}}


def _usage(usage: Usage) -> dict[str, Any]:
    """What an answer took; what of a prompt was not cached is from now on."""
    cached = usage.cached_tokens
    written = usage.prompt_tokens - cached
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


class ResponseWriter:
    """Writes a response in events, as `AnswerWriter` says. Keeps state: their number."""

    def __init__(self, response: ResponseObject, items: OutputItems) -> None:
        self._response, self._items, self._count = response, items, 0

    def first(self) -> Iterator[bytes]:
        """Those before any token."""
        begun = {"response": self._response.begun()}
        yield self._event("response.created", begun) + self._event("response.in_progress", begun)

    def of(self, index: int, chunk: Chunk) -> Iterator[bytes]:
        """Those of a chunk, together."""
        yield b"".join(self._event(name, fields) for name, fields in self._items.of(chunk))

    def last(self, completions: Sequence[Completion]) -> Iterator[bytes]:
        """That of the whole answer."""
        ended = self._response.ended(self._items.items, completions[0])
        yield self._event(f"response.{ended['status']}", {"response": ended})

    def closing(self, error: BaseException | None) -> bytes:
        """What ends the stream after an error; otherwise nothing follows the whole answer.

        The error's fields stand in the event, as the reference has them, and again in an `error`,
        as OpenAI's servers send it: clients raise by that one.
        """
        if error is None:
            return b""
        refused = refusal(error)
        about = refused.body["error"]
        flat = {name: about[name] for name in ("code", "message", "param")}
        failed = self._response.failed(self._items.items, refused.message, refused.status)
        return self._event("error", {**flat, "error": about}) + self._event(
            "response.failed", {"response": failed}
        )

    def _event(self, name: str, fields: Mapping[str, Any]) -> bytes:
        numbered = {"type": name, "sequence_number": self._count, **fields}
        self._count += 1
        return event(numbered, name)
