"""What a chat template may use up: steps, letters, and no value beyond a size."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from marith.errors import RequestError

MOST_STEPS = 1_000_000  # turns of loops and calls of functions; a large text takes more of them
MOST_LETTERS = 16_000_000  # of a text that is rendered, and of any value meanwhile
MOST_BITS = 10_000  # of a number
MOST_COLUMNS = 1_000  # that a text is padded to
_LETTERS_A_STEP = 256
# A width of four digits, or one beside the text: `%5000d`, `%*d`, `{:>5000}`, `{:{}}`.
_WIDE = re.compile(r"%[-+ #0-9.]*(?:[0-9]{4}|\*)|\{[^{}]{0,99}:[^{}]{0,99}(?:[0-9]{4}|\{)")
_PADDING = (
    "center", "ljust", "rjust", "zfill", "expandtabs", "indent", "batch", "slice", "tojson",
    "generate_lorem_ipsum",
)  # fmt: skip
_GROWING = {*_PADDING, "*", "**", "%", "replace", "join", "format"}

LEFT: ContextVar[list[int]] = ContextVar("left")  # steps and letters, of the template that runs


def sized(value: Any) -> Any:
    """A value that is not too large, paid for."""
    size = len(value) if isinstance(value, str | list | tuple | dict) else 0
    check_size(size)
    _check_number(value)
    spend(1 + size // _LETTERS_A_STEP, 0)
    return value


def check_growth(name: str, values: Sequence[Any]) -> None:
    """Refuse what would make a value too large, before it is made."""
    if name not in _GROWING:
        return
    texts = [each for each in values if isinstance(each, str)]
    sizes = [len(each) for each in values if isinstance(each, str | list | tuple)]
    numbers = [abs(each) for each in values if isinstance(each, int)]
    match name:
        case "**" if len(numbers) == 2:
            _check_number(1 << min(MOST_BITS, numbers[0].bit_length() * numbers[1]))
        case "*" if sizes and numbers:
            check_size(max(sizes) * max(numbers))
        case "replace" if len(texts) > 2:
            check_size(texts[0].count(texts[1]) * len(texts[2]))
        case "join":
            check_size(sum(map(_joined, values)) + math.prod(sizes))
        case "%" | "format" if texts:
            _check_width(MOST_COLUMNS + 1 if _WIDE.search(texts[0]) else 0)
        case _ if name in _PADDING:
            _check_width(max(numbers, default=0))
            check_size(max(sizes, default=0) * max(numbers, default=0))


def check_tree(value: Any) -> None:
    """Refuse lists in lists that are small while they are shared, and huge when written."""
    waiting, seen = [value], 0
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple | dict):
            seen += len(each)
            check_size(seen * _LETTERS_A_STEP)
            waiting.extend(each.values() if isinstance(each, dict) else each)


def _joined(value: Any) -> int:
    return sum(len(each) for each in value if isinstance(each, str)) if _is_list(value) else 0


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _check_width(width: int) -> None:
    if width > MOST_COLUMNS:
        raise RequestError(f"the chat template writes text in more than {MOST_COLUMNS} columns")


def _check_number(value: Any) -> None:
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise RequestError(f"the chat template computes a number of more than {MOST_BITS} bits")


def check_size(size: int) -> None:
    """Raises RequestError for a value, or a text, of so many letters."""
    if size > max(MOST_LETTERS, LEFT.get()[1]):
        raise RequestError(f"the chat template makes more than {MOST_LETTERS} letters")


def spend(steps: int, letters: int) -> None:
    """Take from what is left. Raises RequestError where it is not enough."""
    left = LEFT.get()
    left[0] -= steps
    left[1] -= letters
    if left[0] < 0:
        raise RequestError(f"the chat template takes more than {MOST_STEPS} steps")
    if left[1] < 0:
        raise RequestError(f"the chat template makes more than {MOST_LETTERS} letters")
