"""Converts completions and chunks to the objects that OpenAI's clients read."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from marith import CallChunk, Chunk, Completion, TokenLogprob, Usage
from marith.openai_format import (
    LengthWarning,
    composition_costs,
    finite_logprob,
    from_logprobs,
    from_usage,
    to_tool_call,
    total_usage,
)
from marith.serving.wire.wire_requests import WireRequest

# A value of OpenAI's field `object`. Written in one piece, it would look like an import.
INSPECTION = ".".join(("marith", "inspection"))
_IDS = {"chat.completion": "chatcmpl-", "text_completion": "cmpl-"}


def answer_head(kind: str, model: str, fingerprint: str) -> dict[str, Any]:
    """Return the fields that all events of one answer share, with a new id."""
    return {
        "id": f"{_IDS[kind]}{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": fingerprint,
    }


def usage(usages: Sequence[Usage], each: int = 1) -> dict[str, Any]:
    """Return the sum of the usage. A prompt counts once, although it has `each` answers."""
    total = total_usage(usages, each)
    return {
        **from_usage(total),
        "prompt_tokens_details": {"cached_tokens": total.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": total.reasoning_tokens},
    }


def chat_answer(
    head: Mapping[str, Any], asked: WireRequest, completions: Sequence[Completion]
) -> dict[str, Any]:
    """Return the answer to a chat that does not stream."""
    choices = [_chat_choice(i, one) for i, one in enumerate(completions)]
    taken = usage([one.usage for one in completions], len(completions))
    return {**head, "choices": choices, "usage": taken, **own(asked, completions)}


def _chat_choice(index: int, completion: Completion) -> dict[str, Any]:
    calls = [to_tool_call(call.id, call.name, call.arguments) for call in completion.calls]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if calls and not completion.text else completion.text,
        "refusal": None,
    }
    if completion.reasoning:
        message["reasoning_content"] = completion.reasoning
    if calls:
        message["tool_calls"] = calls
    logprobs = from_logprobs(completion.logprobs).get("logprobs")
    if completion.logprobs is not None:
        logprobs = {"content": [], **(logprobs or {}), "refusal": None}
    return {"index": index, "message": message, "logprobs": logprobs, **ending(completion)}


def ending(completion: Completion) -> dict[str, Any]:
    """Return the reason why a completion ended, as fields of its choice."""
    ended: dict[str, Any] = {"finish_reason": completion.finish_reason}
    return ended | ({"stop_reason": completion.stop_string} if completion.stop_string else {})


def own(asked: WireRequest, completions: Sequence[Completion]) -> dict[str, Any]:
    """Return marith's own fields: warnings, and the costs and inspections that were requested."""
    found: dict[str, Any] = warnings_note(_warnings(asked, completions)).get("marith", {})
    if asked.fields.marith.composition:
        found["composition"] = [composition_costs(one) for one in completions]
    if any(one.inspection for one in completions):
        found["inspection"] = [one.inspection and one.inspection.as_dict() for one in completions]
    return {"marith": found} if found else {}


def _warnings(asked: WireRequest, completions: Sequence[Completion]) -> list[str]:
    """Return the warnings about a body and its answers.

    The warning about the length has the number that the client wrote, and the smaller of two
    limits: the context's, or the server's. A client that wrote no number gets no such warning.
    """
    wrote, most = asked.fields.most_tokens, asked.requests[0].stop.max_tokens
    of_engine = [*dict.fromkeys(warning for one in completions for warning in one.warnings)]
    lengths = [warning for warning in of_engine if isinstance(warning, LengthWarning)]
    rest = [warning for warning in of_engine if not isinstance(warning, LengthWarning)]
    if wrote is None:
        return [*asked.warnings, *rest]
    said: list[str] = [LengthWarning.of(wrote, warning.room) for warning in lengths]
    if not said and most is not None and most < wrote:
        said = [f"an answer of this server has at most {most} tokens, not {wrote}"]
    return [*asked.warnings, *said, *rest]


def warnings_note(warnings: Sequence[str]) -> dict[str, Any]:
    """Return the warnings as a field of an answer, or no field if there are no warnings."""
    return {"marith": {"warnings": [*warnings]}} if warnings else {}


class ChatDeltas:
    """The deltas of one choice of a chat, in order. Only the first delta has the role."""

    def __init__(self, index: int, logprobs: bool) -> None:
        self.index, self.logprobs, self._begun = index, logprobs, False

    def first(self) -> dict[str, Any]:
        """Return the delta that has the role."""
        return self._choice({"role": "assistant", "content": ""}, None)

    def of(self, chunk: Chunk) -> Iterator[dict[str, Any]]:
        """Yield the choices of a chunk: reasoning, text, each call separately, and the end."""
        deltas: list[dict[str, Any]] = []
        if chunk.reasoning:
            deltas.append({"reasoning_content": chunk.reasoning})
        if chunk.text:
            deltas.append({"content": chunk.text})
        deltas += map(_call_delta, chunk.calls)
        if chunk.logprobs and self.logprobs and not deltas:
            deltas.append({"content": ""})
        for i, delta in enumerate(deltas):
            yield self._choice(delta, None if i else chunk.logprobs)
        if chunk.finish_reason is not None:
            yield {"index": self.index, "delta": {}, "finish_reason": chunk.finish_reason}

    def _choice(
        self, delta: Mapping[str, Any], logprobs: Sequence[TokenLogprob] | None
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": self.index, "delta": delta}
        if self.logprobs and logprobs:
            choice["logprobs"] = {**from_logprobs(logprobs)["logprobs"], "refusal": None}
        return {**choice, "finish_reason": None}


def _call_delta(call: CallChunk) -> dict[str, Any]:
    head = {} if call.id is None else {"id": call.id, "type": "function"}
    name = {} if call.name is None else {"name": call.name}
    function = {**name, "arguments": call.arguments}
    return {"tool_calls": [{"index": call.index, **head, "function": function}]}


class TextDeltas:
    """The pieces of one choice of a text. Keeps the number of characters so far."""

    def __init__(self, index: int, logprobs: bool) -> None:
        self.index, self.logprobs, self._letters = index, logprobs, 0

    def first(self) -> None:
        """Return None, because a text has no first event."""

    def of(self, chunk: Chunk) -> Iterator[dict[str, Any]]:
        """Yield the choice of a chunk."""
        self._letters += len(chunk.text)
        logprobs = legacy_logprobs(chunk.logprobs, self._letters) if self.logprobs else None
        yield {
            "index": self.index,
            "text": chunk.text,
            "logprobs": logprobs,
            "finish_reason": chunk.finish_reason,
        }


def legacy_logprobs(
    tokens: Sequence[TokenLogprob], letters: int, before: int = 0
) -> dict[str, Any]:
    """Return log-probabilities in the format of `/v1/completions`: lists of equal length.

    The answer has `letters` characters and follows the `before` characters of an echo. Tokens of a
    stop string are not in the text; their offset is the end of the text.
    """
    tops = [likeliest([(t.token, t.data, t.logprob) for t in (*each.top, each)]) for each in tokens]
    return {
        "tokens": [token_name(each.data) for each in tokens],
        "token_logprobs": [finite_logprob(each.logprob) for each in tokens],
        "top_logprobs": tops,
        "text_offset": [before + min(each.offset, letters) for each in tokens],
    }


def token_name(data: bytes) -> str:
    r"""Return the text of a token, or "bytes:\xe2\x80" for a part of a character.

    This is how OpenAI writes parts of characters.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def likeliest(found: Sequence[tuple[int, bytes, float]]) -> dict[str, float]:
    """Return log-probabilities by the names of tokens. The last token of `found` is the text's own.

    The text's own token always keeps its name. If another token has a name that is taken already,
    its name is its token id, as vLLM writes it.
    """
    own = token_name(found[-1][1])
    named: dict[str, float] = {}
    for token, data, logprob in found:
        name = token_name(data)
        if token != found[-1][0] and (name == own or name in named):
            name = f"token_id:{token}"
        named[name] = finite_logprob(logprob)
    return named
