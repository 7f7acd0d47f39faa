"""What callers bring as plain data, held to what templates and JSON can take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from marith.errors import RequestError, shown

LEVELS = 100  # what templates and JSON do with data takes stack for each level
PARTS = 100_000


def require_shallow(value: Any, what: str) -> None:
    """Raises RequestError for data that is nested deeper, or has more parts, than is read."""
    waiting, parts = [(value, 0)], 0
    while waiting:
        part, level = waiting.pop()
        parts += 1
        if level > LEVELS or parts > PARTS:
            problem = f"{what} has at most {LEVELS} levels and {PARTS:,} parts"
            raise RequestError(f"{problem}, and not those of {shown(value)}")
        if isinstance(part, Mapping):
            waiting += [(inner, level + 1) for inner in part.values()]
        elif isinstance(part, (list, tuple)):
            waiting += [(inner, level + 1) for inner in part]


def require_json(value: Any, what: str) -> None:
    """Raises RequestError for what JSON cannot write."""
    require_shallow(value, what)
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{what} is no JSON, {error}: {shown(value)}") from None
