"""Convert a request's prompt to tokens, as a term reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any
from uuid import uuid4

from marith.errors import RequestError, shown, suggestion
from marith.formula.patterns import remove_matches
from marith.formula.tree.terms import Prompted
from marith.request.prompt import SYSTEM_ROLES as _SYSTEM
from marith.request.prompt import Message, Prompt
from marith.scoring.prompting.rendering import Refused, render
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.prompting.tool_format import (
    HERMES,
    ToolFormat,
    json_text,
    numbered,
    spelt_out,
    with_tools_listed,
)

# These fields of a message are texts.
_TEXTS = frozenset(("content", "reasoning_content"))
ROLES = ("user", "assistant", "system", "developer", "tool", "function")


class Escaping:
    """The texts that spell special tokens. Marks replace them while a template is rendered.

    A mark is `edge`, the number of the text, and `edge` again. `edge` is random, so no text can
    contain a mark.
    """

    def __init__(self, special: tuple[str, ...]) -> None:
        self.special = special
        self.texts: list[str] = []
        self.edge = f"@{uuid4().hex}@"

    def escape(self, value: Any, in_json: bool = False) -> Any:
        """Return `value`, with a mark in place of each text that spells a special token.

        `in_json` is True for tools and for the arguments of a call, which templates write as JSON.
        """
        match value:
            case str() if any(text in value for text in self.special):
                self.texts.append(json_text(value) if in_json else value)
                return f"{self.edge}{len(self.texts) - 1}{self.edge}"
            case Mapping():
                return {
                    self.escape(key, in_json) if isinstance(key, str) else key: self.escape(
                        item, in_json or _is_tree(key, item)
                    )
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self.escape(item, in_json) for item in value]
        return value


def _is_tree(key: str, item: Any) -> bool:
    """Return True for a call's arguments that are not written as JSON yet."""
    return key == "arguments" and isinstance(item, Mapping)


def messages_as_read(term: Prompted, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages as the term reads them: without hidden text, with its system prompt.

    A term whose text is the whole prompt reads no messages.
    """
    seen = [dict(message) for message in messages]
    if term.hide is not None:
        for message in seen:
            for name in _TEXTS.intersection(message):
                message[name] = remove_matches(term.hide, message[name])
    count = 0
    while count < len(seen) and seen[count]["role"] in _SYSTEM:
        count += 1
    parts = [message["content"] for message in seen[:count]]
    match term.mode:
        case "append":
            parts = [*parts, term.system]
        case "prepend":
            parts = [term.system, *parts]
        case "replace":
            parts = [term.system]
        case "whole":
            raise AssertionError(f"{term} reads no messages")
    system = "\n\n".join(part for part in parts if part)
    head = [{"role": "system", "content": system}] if system else []
    return head + seen[count:]


def to_tokens(
    term: Prompted, prompt: Prompt, vocabulary: Vocabulary, limit: int | None = None
) -> list[int]:
    """Return the tokens of the prompt as the term reads it. The list is never empty.

    If there are more than `limit` tokens, the list may hold only the first of them, but still more
    than `limit`.
    """
    tokens = prompt.read.get((term, vocabulary))
    if tokens is None:
        tokens = _tokens(term, prompt, vocabulary, limit)
        # A list that ends early is not kept, because another caller may have another limit.
        if limit is None or len(tokens) <= limit:
            prompt.read[term, vocabulary] = tokens
    return tokens


def _tokens(term: Prompted, prompt: Prompt, vocabulary: Vocabulary, limit: int | None) -> list[int]:
    if term.mode == "whole":
        return _plain_tokens(term.system, vocabulary, limit)
    if prompt.tokens:
        return _numbered_tokens(term, prompt.tokens, vocabulary)
    _check_roles(prompt.messages, vocabulary)
    seen = messages_as_read(term, prompt.messages)
    chat = _is_chat(term, vocabulary)
    if chat and not vocabulary.has_chat_template:
        raise RequestError(f"this tokenizer has no chat template, which {str(term)!r} needs")
    if chat:
        options = {**prompt.options, **dict(term.options)}
        return _chat_tokens(Prompt(tuple(seen), prompt.tools, options), vocabulary, limit)
    if prompt.tools:
        seen = with_tools_listed(seen, prompt.tools, HERMES)
    return _plain_tokens(to_plain_text(spelt_out(seen, HERMES, answers=True)), vocabulary, limit)


def _plain_tokens(text: str, vocabulary: Vocabulary, limit: int | None) -> list[int]:
    """Return the tokens of a text without a chat template, or the start token of an empty text."""
    tokens = vocabulary.encode(text, start=True, limit=limit)
    if not tokens and vocabulary.start_id is not None:
        tokens = [vocabulary.start_id]
    if not tokens:
        raise RequestError("the prompt is empty, and this tokenizer has no token to start from")
    return tokens


def _numbered_tokens(term: Prompted, tokens: Sequence[int], vocabulary: Vocabulary) -> list[int]:
    """Return the tokens of a prompt that is given as token ids, after the term's system prompt.

    The system prompt is encoded as a plain text, before which the tokenizer may write a start
    token. So a start token of the prompt is dropped.
    """
    if term.hide is not None or term.template == "chat":
        what = "hides text" if term.hide is not None else "needs a chat template"
        raise RequestError(
            f"the prompt is tokens, and {str(term)!r:.80} {what}; write the prompt as text"
        )
    if not term.system:
        return [*tokens]
    system = vocabulary.encode(f"{term.system}\n", start=True)
    return [*system, *tokens[int(tokens[0] == vocabulary.start_id) :]]


def require_text(term: Prompted, prompt: Prompt, vocabulary: Vocabulary) -> None:
    """Raise RequestError for a chat without any text. A plain text may be empty."""
    if prompt.tokens or term.mode == "whole":
        return
    messages = messages_as_read(term, prompt.messages)
    empty = not any(message["content"] or "tool_calls" in message for message in messages)
    if empty and _is_chat(term, vocabulary):
        raise RequestError(
            "the prompt is empty: write a message, or write template='plain' to generate a text "
            "without a prompt"
        )


def _is_chat(term: Prompted, vocabulary: Vocabulary) -> bool:
    return term.template == "chat" or (term.template is None and vocabulary.has_chat_template)


def to_plain_text(messages: Sequence[Message]) -> str:
    """Return system text, a newline, and the conversation.

    The roles are written if the conversation has more than one message.
    """
    system = [m["content"] for m in messages if m["role"] in _SYSTEM]
    rest = [m for m in messages if m["role"] not in _SYSTEM]
    if len(rest) > 1:
        turns = [f"{m['role'].capitalize()}: {m['content']}" for m in rest]
        body = "\n".join([*turns, "Assistant:"])
    else:
        body = "".join(m["content"] for m in rest)
    return "\n".join([*system, body])


def turn_marks(prompt: Prompt, vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the strings that begin another turn, if turns are plain text.

    An answer ends before such a string.
    """
    rest = [m["role"] for m in prompt.messages if m["role"] not in _SYSTEM]
    if vocabulary.has_chat_template or len(rest) < 2:
        return ()
    roles = dict.fromkeys(role for role in rest if role != "assistant")
    return tuple(f"\n{role.capitalize()}:" for role in roles)


def fold(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages for a template without a system role.

    System text becomes a user's text, and neighbouring messages of one role are joined.
    """
    as_user = [
        {**message, "role": "user"} if message["role"] in _SYSTEM else dict(message)
        for message in messages
    ]
    folded: list[dict[str, Any]] = []
    for _, run in groupby(as_user, key=lambda message: message["role"]):
        first, *more = run
        for message in more:
            for name in _TEXTS.intersection(message):
                first[name] = f"{first.get(name, '')}\n\n{message[name]}".strip()
            if message.get("tool_calls"):
                first["tool_calls"] = [*first.get("tool_calls", ()), *message["tool_calls"]]
        folded.append(first)
    return folded


def _chat_tokens(prompt: Prompt, vocabulary: Vocabulary, limit: int | None) -> list[int]:
    """Render the messages, then encode the text without added tokens.

    The template writes its own first token. Text that spells a special token is data: it is kept
    out of the template, and is encoded as plain characters.
    """
    if not prompt.messages:
        raise RequestError(
            "the prompt has no messages; write one, such as {'role': 'user', 'content': 'Hello'}"
        )
    if not vocabulary.finds_special([prompt.messages, prompt.tools]):
        return vocabulary.encode(_chat_text(prompt, vocabulary), literal=False, limit=limit)
    escaping = Escaping(vocabulary.special_texts)
    messages = tuple(escaping.escape(message) for message in prompt.messages)
    tools = tuple(escaping.escape(tool, in_json=True) for tool in prompt.tools)
    text = _chat_text(replace(prompt, messages=messages, tools=tools), vocabulary)
    tokens: list[int] = []
    for i, piece in enumerate(re.split(f"{escaping.edge}([0-9]+){escaping.edge}", text)):
        is_content = i % 2 == 1
        text = escaping.texts[int(piece)] if is_content else piece
        tokens += vocabulary.encode(text, literal=is_content, limit=limit)
        if limit is not None and len(tokens) > limit:
            break
    return tokens


def _chat_text(prompt: Prompt, vocabulary: Vocabulary) -> str:
    """Return the text that the template renders. Tools that it does not support become text.

    If the template refuses the messages or drops the system text, other layouts of the messages are
    tried: folded roles, calls with new ids, calls as text, and an empty turn of a user before an
    answer that comes first.
    """
    tool_format = vocabulary.tool_format
    messages = [dict(message) for message in prompt.messages]
    # OpenAI later gave the system role the name "developer".
    if "developer" not in _template(vocabulary):
        messages = [m | {"role": "system"} if m["role"] in _SYSTEM else m for m in messages]
    if prompt.tools and not tool_format.offers:
        messages = with_tools_listed(messages, prompt.tools, tool_format.calls)
        prompt = replace(prompt, tools=())
    system = {m["content"].strip() for m in messages if m["role"] in _SYSTEM}
    texts, refusal = [], ""
    for layout in _layouts(messages, tool_format):
        try:
            text = render(vocabulary.tokenizer, layout, prompt.tools, prompt.options)
        except Refused as error:
            refusal = str(error)
            continue
        # Some templates drop the system text without an error.
        if all(part in text for part in system):
            return text
        texts.append(text)
    if not texts:
        raise RequestError(f"the chat template refuses these messages: {refusal}")
    return max(texts, key=lambda text: sum(part in text for part in system))


def _layouts(
    messages: list[dict[str, Any]], tool_format: ToolFormat
) -> Iterator[list[dict[str, Any]]]:
    """Yield layouts of the messages that a template may accept, in order of preference."""
    calls = [message for message in messages if message.get("tool_calls")]
    written = messages
    if calls or any(message["role"] == "tool" for message in messages):
        # If the template would drop the text beside a call, the call becomes a part of the text.
        native = tool_format.native and (tool_format.says or not any(m["content"] for m in calls))
        written = spelt_out(
            messages, None if native else tool_format.calls, not tool_format.answers
        )
    yield written
    yield fold(written)
    for layout in (numbered(written), spelt_out(messages, tool_format.calls, answers=True)):
        yield layout
        yield fold(layout)
    # Some templates refuse messages that do not begin with a user.
    if messages[0]["role"] == "assistant":
        yield from _layouts([{"role": "user", "content": ""}, *messages], tool_format)


def _check_roles(messages: Sequence[Message], vocabulary: Vocabulary) -> None:
    """Raise RequestError for a role that neither marith nor the template knows."""
    template = _template(vocabulary)
    for message in messages:
        role = message["role"]
        if not (role in ROLES or (role and role in template)):
            hint = suggestion(role, ROLES, f"; the roles are {', '.join(ROLES)}", cutoff=0.5)
            raise RequestError(f"a message has the unknown role {shown(role)}{hint}")


def _template(vocabulary: Vocabulary) -> str:
    return str(getattr(vocabulary.tokenizer, "chat_template", None) or "")
