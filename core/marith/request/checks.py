"""What callers bring, checked: plain data that JSON and templates can take, seconds."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from marith.errors import RequestError, shown
from marith.formula.scalars import finite

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


def check_timeout(timeout: Any) -> float | None:
    """The seconds that a caller waits, None for no end. Raises RequestError for anything else."""
    number = finite(timeout)
    if timeout is not None and not (number and number > 0):
        problem = "timeout is a finite number of seconds above 0"
        raise RequestError(f"{problem}, not {shown(timeout)}")
    return number


def check_names(given: Mapping[str, Any], known: Collection[str], kind: str) -> None:
    """Raise RequestError for a name that no option has, and for `file`, which no call brings."""
    for name in given:
        if name not in known:
            raise RequestError(f"{kind} takes no option {name!r}, but {', '.join(known)}")
    if "file" in given:
        problem = "a file is read when options are made, and not given for a call"
        raise RequestError(f"{problem}: {shown(given['file'])}")
