"""Turn the harness's contexts (raw text, windows of a text, or a chat) into requests.

A request with raw text fits the model's context.
"""

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

# A context that is a chat begins with this text. Its messages follow as JSON.
_CHAT = "marith chat: "


def chat_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return messages as one text, because the harness stores contexts as texts."""
    return _CHAT + json.dumps(list(messages), ensure_ascii=False)


class Contexts:
    """Turns contexts of the harness into requests.

    The `prefix` of a request holds the given tokens that follow its prompt. `max_length` is the
    number of tokens of raw text that fit into the model's context after the longest system prompt.
    `cut` counts the contexts that were too long.
    """

    def __init__(self, options: Options) -> None:
        self._chat: Formula = parse(options.faithful_formula, options.terms)
        self._raw: Formula = without_template(self._chat)
        self.engine = options.engine()
        self.cut = 0
        systems = (term.system for term in terms_of(self._raw) if isinstance(term, Prompted))
        longest = max((len(self.engine.encode(f"{text}\n")) for text in systems if text), default=0)
        whole: Any = options.known_context(self.engine.context_length)
        # Two tokens are reserved: one that starts the text, and one that is predicted.
        self.max_length: int = whole - longest - 2
        if self.max_length < 2:
            problem = f"the longest system prompt has {longest} tokens, the context only {whole}"
            raise RequestError(f"{problem}: shorten it, or use a longer context")

    def pair(self, context: str, continuation: str) -> tuple[Request, int]:
        """Return a request with the continuation in its prefix, and a number of tokens.

        This number of tokens at the start of the prefix is not scored.

        The tokens are split as in the harness's own models: white space at the end of the context
        belongs to the continuation, and both are encoded together.
        """
        messages, begun = _read_chat(context)
        if messages:
            # The given beginning of the answer is a part of the prefix, and is not scored.
            tokens = self.engine.encode(begun + continuation)
            return Request(messages, self._chat, prefix=tokens), len(self.engine.encode(begun))
        text = context.rstrip()
        before = self.engine.encode(text)
        tokens = self.engine.encode(context + continuation)[len(before) :]
        # The last token of a continuation is predicted but never read, so one more token fits.
        text = self._fitting(text, before, self.max_length + 1 - len(tokens))
        return Request(text, self._raw, prefix=tokens), 0

    def windows(self, text: str) -> list[Request]:
        """Return requests for the harness's rolling windows, which score each token once."""
        tokens = self.engine.encode(text)
        # -1 stands for the start of the text, and is not a token of the model.
        windows = get_rolling_token_windows(tokens, -1, self.max_length, context_len=1)
        requests = []
        for before, done in map(make_disjoint_window, windows):
            prompt = self._end([token for token in before if token != -1])
            requests.append(Request(prompt, self._raw, prefix=done))
        return requests

    def opening(self, context: str, room: int) -> Request:
        """Return a request that continues a context with up to `room` tokens.

        Raises RequestError if `room` leaves no tokens for the context.
        """
        if room >= self.max_length:
            problem = f"max_gen_toks is {room}, but the context holds {self.max_length} tokens"
            raise RequestError(f"{problem} with the prompt: write a smaller max_gen_toks")
        messages, begun = _read_chat(context)
        if messages:
            return Request(messages, self._chat, prefix=begun)
        text = self._fitting(context, self.engine.encode(context), self.max_length - room)
        return Request(text, self._raw)

    def _fitting(self, text: str, tokens: list[int], limit: int) -> str:
        """Return `text`, without its beginning if it has more than `limit` tokens."""
        if len(tokens) <= limit:
            return text
        self.cut += 1
        # `limit` is negative if the continuation alone is too long. The start is counted from the
        # front, because `tokens[-limit:]` would be all tokens if `limit` is 0.
        return self._end(tokens[len(tokens) - max(0, limit) :])

    def _end(self, tokens: list[int]) -> str:
        """Return the longest text whose tokens are the last ones of `tokens`."""
        # A text that begins inside a word or a character may be encoded as other tokens.
        for start in range(len(tokens)):
            text = self.engine.decode(tokens[start:])
            if self.engine.encode(text) == tokens[start:]:
                return text
        return ""


def shorter(request: Request) -> Request | None:
    """Return a chat without its oldest message that is not a system message.

    Return None for raw text, and for a chat that has only one such message.
    """
    chat: Any = [] if isinstance(request.prompt, str) else request.prompt
    turns = [i for i, message in enumerate(chat) if message["role"] != "system"]
    if len(turns) < 2:
        return None
    return replace(request, prompt=[*chat[: turns[0]], *chat[turns[0] + 1 :]])


def _read_chat(context: str) -> tuple[list[Mapping[str, Any]], str]:
    """Return the messages of a context, and the given beginning of the answer.

    Raw text has no messages.
    """
    if not context.startswith(_CHAT):
        return [], ""
    # The given beginning of the answer is the last message, if it is the assistant's, followed by
    # any text after the messages.
    messages, end = json.JSONDecoder().raw_decode(context, len(_CHAT))
    begun = messages.pop()["content"] if messages[-1]["role"] == "assistant" else ""
    return messages, begun + context[end:]
