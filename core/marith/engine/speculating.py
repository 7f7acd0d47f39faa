"""What a caller may write where speculation is chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from marith.engine.plan import Plan
from marith.errors import RequestError


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
    raise RequestError(f"speculation is 'auto', None, 'none' or a Plan, not {value!r}")
