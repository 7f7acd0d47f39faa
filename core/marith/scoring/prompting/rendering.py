"""Chat templates, rendered as transformers renders them, within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import Template

from marith.errors import RequestError
from marith.scoring.prompting.budget import LEFT, Budget
from marith.scoring.prompting.sandbox import Bounded

MOST_TEMPLATE = 100_000  # letters of a template
_PLAIN = {str, int, float, bool, type(None)}
_REASONING = ("reasoning_content", "thinking", "reasoning")  # one thing, by what templates call it


class Refused(Exception):
    """What a template says of messages that it does not render."""


def render(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, Any] | None = None,
    opens: bool = True,
) -> str:
    """The text of messages; where it `opens`, up to where the model's turn begins.

    Raises Refused for messages that the template does not take, RequestError for a template that
    does more than these messages need.
    """
    before = LEFT.set(Budget())
    try:
        plain = [_message(message) for message in messages]
        offered = _plain(list(tools)) or None
        named = _plain(dict(options or {}))
        LEFT.set(Budget(plain, offered, named))
        template = _compiled(tokenizer.get_chat_template(None, tools=list(tools) or None))
        return template.render(
            messages=plain,
            tools=offered,
            documents=None,
            add_generation_prompt=opens,
            **{**tokenizer.special_tokens_map, **named},
        )
    except (RecursionError, MemoryError, SyntaxError) as error:
        raise RequestError(f"the chat template does not end, or is none: {error}") from None
    except RequestError:
        raise
    except Exception as error:  # a template may raise whatever Python may
        raise Refused(str(error) or type(error).__name__) from error
    finally:
        LEFT.reset(before)


@lru_cache(maxsize=64)
def _compiled(text: str) -> Template:
    if len(text) > MOST_TEMPLATE:
        raise RequestError(f"a chat template of more than {MOST_TEMPLATE:,} letters is not read")
    return Bounded().from_string(text)


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as transformers shows it to templates: what is None is left out."""
    plain: dict[str, Any] = _plain({k: v for k, v in message.items() if v is not None})
    thought = next((plain[name] for name in _REASONING if plain.get(name) is not None), None)
    return (
        plain if thought is None else {"thinking": thought, **plain, "reasoning_content": thought}
    )


def _plain(value: Any) -> Any:
    """Data as JSON has it: a template calls no method of anything else. Leaves are most of it."""
    if type(value) in _PLAIN:
        return value
    match value:
        case dict() | Mapping():
            return {
                key if type(key) is str else _plain(key): (
                    each if type(each) in _PLAIN else _plain(each)
                )
                for key, each in value.items()
            }
        case list() | tuple():
            return [each if type(each) in _PLAIN else _plain(each) for each in value]
        case str():
            return str.__str__(value)
        case int() | float():
            return value + 0
    return f"<{type(value).__name__}>"
