"""The book of recipes: every method by its name, as formulas call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from marith.formula.text.calls import BUILT_IN, checked, register
from marith.formula.tree.nodes import Formula

Method = TypeVar("Method", bound=Callable[..., Formula])

RECIPES: dict[str, Callable[..., Formula]] = {}


def recipe(method: Method) -> Method:
    """A method of the literature: callable from Python, and by its name in formula text.

    It takes what its signature says, and raises FormulaError for anything else. Untrusted text may
    call it.
    """
    name, asked = method.__name__, checked(method.__name__, method)
    register(name, asked)
    BUILT_IN.add(name)
    RECIPES[name] = asked
    return asked
