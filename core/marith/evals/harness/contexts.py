"""Turn the harness's contexts into requests that fit: text, windows of a text, or a chat."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from marith import (
    Formula,
    Options,
    Prompted,
    Request,
    RequestError,
    parse,
    terms_of,
    without_template,
)

_CHAT = "marith chat: "  # JSON follows


def chat_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return messages as text, since the harness keeps contexts as texts."""
    return _CHAT + json.dumps(list(messages), ensure_ascii=False)


class Contexts:
    """Turns contexts into requests; `cut` counts those that were too long.

    The `prefix` of a request is the tokens that are given after its prompt. `max_length` is how
    many tokens of a text are read at once: what the longest system prompt leaves of a context.
    """

    def __init__(self, options: Options) -> None:
        self._chat: Formula = parse(options.faithful_formula, options.terms)
        self._raw: Formula = without_template(self._chat)
        self.engine = options.engine()
        self.cut = 0
        systems = (term.system for term in terms_of(self._raw) if isinstance(term, Prompted))
        longest = max((len(self.engine.encode(f"{text}\n")) for text in systems if text), default=0)
        whole: Any = options.known_context(self.engine.context_length)
        self.max_length: int = whole - longest - 2  # one to start from, one to predict
        if self.max_length < 2:
            raise RequestError(f"the system prompts leave no room in a context of {whole} tokens")

    def pair(self, context: str, continuation: str) -> tuple[Request, int]:
        """Return a context with a continuation, and how many of the given tokens do not count.

        They are divided as the harness's own models do it: white space at the context's end
        belongs to the continuation, and both are encoded together.
        """
        messages, begun = _read_chat(context)
        if messages:
            tokens = self.engine.encode(begun + continuation)
            return Request(messages, self._chat, prefix=tokens), len(self.engine.encode(begun))
        text = context.rstrip()
        before = self.engine.encode(text)
        tokens = self.engine.encode(context + continuation)[len(before) :]
        text = self._fitting(text, before, self.max_length + 1 - len(tokens))
        return Request(text, self._raw, prefix=tokens), 0

    def windows(self, text: str) -> list[Request]:
        """Return a text in the harness's rolling windows, in which each token is given once."""
        tokens = self.engine.encode(text)
        windows = get_rolling_token_windows(tokens, -1, self.max_length, context_len=1)
        requests = []
        for before, done in map(make_disjoint_window, windows):
            prompt = self._end([token for token in before if token != -1])
            requests.append(Request(prompt, self._raw, prefix=done))
        return requests

    def opening(self, context: str, room: int) -> Request:
        """Return a context to answer in `room` tokens. Raises RequestError if that leaves none."""
        if room >= self.max_length:
            problem = f"max_gen_toks is {room}, and a context holds"
            raise RequestError(f"{problem} {self.max_length} tokens with it")
        messages, begun = _read_chat(context)
        if messages:
            return Request(messages, self._chat, prefix=begun)
        text = self._fitting(context, self.engine.encode(context), self.max_length - room)
        return Request(text, self._raw)

    def _fitting(self, text: str, tokens: list[int], limit: int) -> str:
        """Return a text, or the end of a text that has more than `limit` tokens."""
        if len(tokens) <= limit:
            return text
        self.cut += 1
        return self._end(tokens[len(tokens) - max(0, limit) :])

    def _end(self, tokens: list[int]) -> str:
        """Return the longest end of a text that is encoded as the last of these tokens."""
        for start in range(len(tokens)):
            text = self.engine.decode(tokens[start:])
            if self.engine.encode(text) == tokens[start:]:
                return text
        return ""


def shorter(request: Request) -> Request | None:
    """Return a chat without its oldest turn, system messages excepted; None if none can go."""
    chat: Any = [] if isinstance(request.prompt, str) else request.prompt
    turns = [i for i, message in enumerate(chat) if message["role"] != "system"]
    if len(turns) < 2:
        return None
    return replace(request, prompt=[*chat[: turns[0]], *chat[turns[0] + 1 :]])


def _read_chat(context: str) -> tuple[list[Mapping[str, Any]], str]:
    """Return the messages of a context, and how the answer begins; no messages for raw text."""
    if not context.startswith(_CHAT):
        return [], ""
    messages, end = json.JSONDecoder().raw_decode(context, len(_CHAT))
    begun = messages.pop()["content"] if messages[-1]["role"] == "assistant" else ""
    return messages, begun + context[end:]
