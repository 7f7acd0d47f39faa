"""Numbers as callers give them: Python's own, or one element of numpy or torch."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:
    """A scalar of numpy or torch as Python's own number; anything else as it is."""
    return value.item() if getattr(value, "shape", None) == () else value
