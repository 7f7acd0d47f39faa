"""The book of recipes: every method by its name, as formulas call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from marith.formula.nodes import Formula
from marith.formula.parsing import define

Method = TypeVar("Method", bound=Callable[..., Formula])

RECIPES: dict[str, Callable[..., Formula]] = {}


def recipe(method: Method) -> Method:
    """A method of the literature: callable from Python, and by its name in formula text."""
    define(method.__name__, method)
    RECIPES[method.__name__] = method
    return method
