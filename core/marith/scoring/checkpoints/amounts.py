"""Numbers of bytes as people read them."""

from __future__ import annotations


def amount(size: int | None) -> str:
    """A number of bytes in the unit that suits it; "-" where it is not known."""
    if size is None:
        return "-"
    number, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while number >= 999.5 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:.0f} {units[0]}" if number >= 10 else f"{number:.2g} {units[0]}"
