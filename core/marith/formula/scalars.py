"""Numbers as callers give them: Python's own, or one element of numpy or torch."""

from __future__ import annotations

import math
from typing import Any

from marith.errors import MarithError, RequestError, shown


def plain(value: Any) -> Any:
    """A scalar of numpy or torch as Python's own number; anything else as it is."""
    return value.item() if getattr(value, "shape", None) == () else value


def finite(value: Any) -> float | None:
    """A finite number as a float; None for anything else, True and False among it."""
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    try:
        number = float(number) if isinstance(number, int) else number
    except OverflowError:  # an integer that no float holds
        return None
    return number if math.isfinite(number) else None


def whole(
    name: str,
    value: Any,
    least: int,
    most: int | None = None,
    error: type[MarithError] = RequestError,
) -> int:
    """A whole number of a range as an int; raises `error`, a sentence about `name`, for others."""
    number = plain(value)
    right = isinstance(number, int) and not isinstance(number, bool)
    if not (right and least <= number and (most is None or number <= most)):
        range_ = f"from {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} is a whole number {range_}, not {shown(value)}")
    return int(number)
