"""Functions for formula text that installed packages offer by the entry points `marith_methods`."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any

from marith.errors import FormulaError, shown
from marith.formula.text.calls import CALLS, define, near, opens_files

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "marith_methods"


@cache
def offered() -> dict[str, list[EntryPoint]]:
    """The entry points of all installed packages by name; no package is imported."""
    from importlib.metadata import entry_points  # slow to import, and most formulas need none

    by_name: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        by_name.setdefault(point.name, []).append(point)
    return by_name


def check_allowed(names: Collection[str], trusted: bool) -> None:
    """Check what an application lets untrusted text call, and import what packages offer of it.

    Raises FormulaError for a name that nothing defines, for a term that opens a model or a file,
    and for names beside trusted text.
    """
    if listed(names) and trusted:
        raise FormulaError("allowed is for text from others: write trusted=False beside it")
    for name in names:
        if opens_files(name):
            problem = f"allowed names {name!r}, which text from others never calls"
            raise FormulaError(f"{problem}; define it as one of the application's terms")
        if not load(name):
            problem = f"allowed names {shown(name)}, which nothing defines in a formula"
            raise FormulaError(f"{problem}{near(name, offered())}")


def listed(names: Any) -> list[Any]:
    """The names in `allowed`. Raises FormulaError for what is no list of them."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Collection):
        raise FormulaError(f"allowed is a list of names of functions, not {shown(names)}")
    for name in names:
        if not isinstance(name, str):
            raise FormulaError(f"allowed names {shown(name)}, which nothing defines in a formula")
    return [*names]


def load(name: str) -> bool:
    """Define the function that a package offers by a name; whether formulas may call the name.

    marith's own functions, and those that are defined already, keep their names. Raises
    FormulaError if several packages offer the name, or if the function cannot be imported.
    """
    if name in CALLS:
        return True
    points = offered().get(name, [])
    if len({point.value for point in points}) > 1:
        packages = ", ".join(sorted(point.dist.name if point.dist else "?" for point in points))
        raise FormulaError(f"several packages offer {name!r}: {packages}")
    if not points:
        return False
    try:
        build = points[0].load()
    except Exception as error:
        package = f" of {points[0].dist.name}" if points[0].dist else ""
        problem = f"{name!r}{package} cannot be imported from {points[0].value!r}"
        raise FormulaError(f"{problem}: {error}") from error
    define(name, build)
    return True
