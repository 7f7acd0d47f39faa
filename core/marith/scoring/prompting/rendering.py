"""Render chat templates with transformers, in its sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# A template has at most this number of characters.
MOST_TEMPLATE = 100_000


class Refused(Exception):
    """The reason why a template does not render the messages."""


def render(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
    opens: bool = True,
) -> str:
    """Return the text of messages. With `opens`, the beginning of the model's turn follows them.

    Raises Refused for messages that the template does not accept, and for a template of more than
    100,000 characters.
    """
    offered = [dict(tool) for tool in tools] or None
    try:
        template = tokenizer.get_chat_template(None, tools=offered)
        if len(template) > MOST_TEMPLATE:
            raise ValueError(f"it has {len(template):,} characters, more than {MOST_TEMPLATE:,}")
        text = tokenizer.apply_chat_template(
            [*messages],
            tools=offered,
            chat_template=template,
            add_generation_prompt=opens,
            tokenize=False,
            **(options or {}),
        )
    # A template may raise any exception.
    except Exception as error:
        raise Refused(str(error) or type(error).__name__) from error
    return str(text)
