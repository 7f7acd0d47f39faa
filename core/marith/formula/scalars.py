"""Numbers from callers: Python's, or scalars of numpy or torch."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:
    """A scalar of numpy or torch as Python's number; any other value unchanged."""
    return value.item() if getattr(value, "shape", None) == () else value
