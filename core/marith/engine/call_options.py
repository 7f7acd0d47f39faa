"""What a caller may write as the options of one call."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Literal

from marith.engine.plan import Plan
from marith.errors import RequestError, shown


def read_speculation(value: Any) -> Plan | Literal["auto"] | None:
    """A plan, which may be its JSON or a mapping; "auto"; or None, which may be "none".

    Raises RequestError for anything else.
    """
    match value:
        case None | "none":
            return None
        case "auto":
            return "auto"
        case Plan():
            return value
        case str() if value.lstrip().startswith("{"):
            return Plan.from_json(value)
        case Mapping():
            try:
                return Plan.from_json(json.dumps(dict(value)))
            except TypeError:
                pass
    raise RequestError(f"speculation is 'auto', None, 'none' or a Plan, not {shown(value)}")


def read_stop(stop: Any) -> list[str]:
    """Strings that end a text: none, one, or a list. Raises RequestError for anything else."""
    listed = [stop] if isinstance(stop, str) else [] if stop is None else stop
    if not isinstance(listed, (list, tuple)) or not all(isinstance(s, str) for s in listed):
        raise RequestError(f"stop is a list of texts, not {shown(stop)}")
    return [*listed]


def check_names(given: Mapping[str, Any], known: Collection[str], kind: str) -> None:
    """Raise RequestError for a name that no option has, and for `file`, which no call brings."""
    for name in given:
        if name not in known:
            raise RequestError(f"{kind} takes no option {name!r}, but {', '.join(known)}")
    if "file" in given:
        problem = "a file is read when options are made, and not given for a call"
        raise RequestError(f"{problem}: {shown(given['file'])}")
