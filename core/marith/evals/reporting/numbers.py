"""Numbers as they are written in tables and sentences."""

from __future__ import annotations

import math

SIGNIFICANT = 4  # digits; a judge's last digits depend on the machine


def digits(value: float) -> str:
    """A number with the digits that count, at most four behind the point; "" for what is none."""
    if math.isnan(value):
        return ""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    behind = SIGNIFICANT - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, min(behind, SIGNIFICANT))}f}"


def fixed(value: float | None, behind: int = 2) -> str:
    """A number with so many digits behind the point; "" for what was not measured."""
    return "" if value is None else f"{value:.{behind}f}"


def counted(count: int, noun: str) -> str:
    """1 prompt, 2 prompts."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """40 → "40 seconds", 5,400 → "90 minutes", 9,000 → "2 hours"."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return counted(round(seconds), "second")
    return counted(minutes, "minute") if minutes < 120 else counted(round(minutes / 60), "hour")
