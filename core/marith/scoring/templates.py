"""A request's messages, seen through a term's lens, as tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import uuid4

from jinja2 import TemplateError

from marith.errors import RequestError
from marith.formula.terms import Prompted
from marith.scoring.scorer import Message
from marith.scoring.vocabulary import Vocabulary

_SYSTEM = ("system", "developer")


def to_messages(prompt: str | Sequence[Message]) -> tuple[dict[str, Any], ...]:
    """A prompt as messages with text content. Raises RequestError for anything else."""
    if isinstance(prompt, str):
        return ({"role": "user", "content": prompt},)
    if not isinstance(prompt, Sequence) or not prompt:
        raise RequestError(f"a prompt is a text or a list of messages, not {prompt!r}")
    return tuple(_to_message(message) for message in prompt)


def see(term: Prompted, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages as the term reads them: hidden text removed, its system prompt joined."""
    seen = [dict(message) for message in messages]
    if term.hide is not None:
        for message in seen:
            message["content"] = re.sub(term.hide, "", message["content"])
    given = 0
    while given < len(seen) and seen[given]["role"] in _SYSTEM:
        given += 1
    parts = [message["content"] for message in seen[:given]]
    match term.mode:
        case "append":
            parts = [*parts, term.system]
        case "prepend":
            parts = [term.system, *parts]
        case "replace":
            parts = [term.system]
    system = "\n\n".join(part for part in parts if part)
    head = [{"role": "system", "content": system}] if system else []
    return head + seen[given:]


def to_tokens(term: Prompted, messages: Sequence[Message], vocabulary: Vocabulary) -> list[int]:
    """The term's reading of the messages, as tokens; never empty."""
    seen = see(term, messages)
    chat = term.template == "chat" or (term.template is None and vocabulary.has_chat_template)
    if chat and not vocabulary.has_chat_template:
        raise RequestError(f"this tokenizer has no chat template, which {str(term)!r} asks for")
    if chat:
        return _chat_tokens(seen, dict(term.options), vocabulary)
    tokens = vocabulary.encode(to_plain_text(seen), start=True)
    if not tokens and vocabulary.start_id is not None:
        tokens = [vocabulary.start_id]
    if not tokens:
        raise RequestError("the prompt is empty, and this tokenizer has no token to start from")
    return tokens


def to_plain_text(messages: Sequence[Message]) -> str:
    """System text, a newline, the conversation's text; its roles are named where it has several."""
    system = [m["content"] for m in messages if m["role"] in _SYSTEM]
    rest = [m for m in messages if m["role"] not in _SYSTEM]
    if len(rest) > 1:
        turns = [f"{m['role'].capitalize()}: {m['content']}" for m in rest]
        body = "\n".join([*turns, "Assistant:"])
    else:
        body = "".join(m["content"] for m in rest)
    return "\n".join([*system, body])


def fold(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """For templates without a system role: its text opens the next turn, equal roles are one."""
    as_user = [
        {**message, "role": "user"} if message["role"] in _SYSTEM else dict(message)
        for message in messages
    ]
    folded: list[dict[str, Any]] = []
    for _, run in groupby(as_user, key=lambda message: message["role"]):
        first, *more = run
        for message in more:
            first["content"] = f"{first['content']}\n\n{message['content']}".strip()
            if message.get("tool_calls"):
                first["tool_calls"] = [*first.get("tool_calls", ()), *message["tool_calls"]]
        folded.append(first)
    return folded


def _chat_tokens(
    messages: list[dict[str, Any]], options: dict[str, Any], vocabulary: Vocabulary
) -> list[int]:
    """Rendered, then encoded without added tokens: a template writes its own first token.

    Text that spells a special token is data: it is kept out of the template, and encoded as
    letters.
    """
    if not messages:
        raise RequestError("of these messages nothing is left to read")
    quotes = _Quotes(vocabulary.special_texts)
    messages = [quotes.quote(message) for message in messages]
    pieces = quotes.mark.split(_chat_text(messages, options, vocabulary.tokenizer))
    tokens: list[int] = []
    for i, piece in enumerate(pieces):
        is_content = i % 2 == 1
        text = quotes.texts[int(piece)] if is_content else piece
        tokens += vocabulary.encode(text, literal=is_content)
    return tokens


class _Quotes:
    """Texts that spell special tokens, each replaced by a mark that no text can guess."""

    def __init__(self, special: Sequence[str]) -> None:
        self.special = special
        self.texts: list[str] = []
        self.name = uuid4().hex
        self.mark = re.compile(f"@{self.name}-(\\d+)@")

    def quote(self, value: Any, escaped: bool = False) -> Any:
        """`value` with marks for such texts; a call's arguments are `escaped`, as in JSON."""
        match value:
            case str() if any(text in value for text in self.special):
                self.texts.append(json.dumps(value, ensure_ascii=False)[1:-1] if escaped else value)
                return f"@{self.name}-{len(self.texts) - 1}@"
            case Mapping():
                return {
                    self.quote(key, escaped): self.quote(item, escaped or _is_tree(key, item))
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self.quote(item, escaped) for item in value]
        return value


def _is_tree(key: str, item: Any) -> bool:
    """Whether these are a call's arguments before they are written as JSON."""
    return key == "arguments" and isinstance(item, Mapping)


def _chat_text(messages: list[dict[str, Any]], options: dict[str, Any], tokenizer: Any) -> str:
    """The template's text; folded where the template refuses, or loses, the system's text."""
    system = [m["content"].strip() for m in messages if m["role"] in _SYSTEM]
    try:
        text = _render(messages, options, tokenizer)
        if all(part in text for part in system):
            return text
    except (TemplateError, TypeError, ValueError, KeyError):
        pass
    try:
        return _render(fold(messages), options, tokenizer)
    except (TemplateError, TypeError, ValueError, KeyError) as error:
        raise RequestError(f"the chat template refuses these messages: {error}") from None


def _render(messages: list[dict[str, Any]], options: dict[str, Any], tokenizer: Any) -> str:
    return str(
        tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **options
        )
    )


def _to_message(message: Any) -> dict[str, Any]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise RequestError(f"a message has a role and a content, not {message!r}")
    return {**message, "content": _text_of(message.get("content"))}


def _text_of(content: Any) -> str:
    """A message's text; parts of other kinds are refused rather than lost."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        texts = []
        for part in content:
            text = part.get("text") if isinstance(part, Mapping) else part
            if not isinstance(text, str):
                raise RequestError(f"only text can be read, not {part!r}")
            texts.append(text)
        return "".join(texts)
    raise RequestError(f"a message's content is a text, not {content!r}")
