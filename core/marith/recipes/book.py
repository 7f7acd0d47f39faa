"""The registry of recipes: published methods, by the names that formulas call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from marith.errors import FormulaError
from marith.formula.meaning.binding import BARE
from marith.formula.text.calls import BUILT_IN, CALLS, checked, load_function, offered, register
from marith.formula.tree.node import Node
from marith.formula.tree.nodes import Formula
from marith.formula.tree.printing import number_text

Method = TypeVar("Method", bound=Callable[..., Formula])

RECIPES: dict[str, Callable[..., Formula]] = {}
# In the call that describes a recipe, these parameters are the bare model, `M`.
_BARE = ("model", "default")
_SEVERAL = {"members": (BARE, "other"), "rewards": ("reward",)}


def recipe(method: Method) -> Method:
    """Register a published method, and return it with checks of its arguments.

    Formula text, trusted or not, may call the method by its name. Raises FormulaError for a name
    that already has a meaning. The returned method raises FormulaError for arguments that do not
    fit its signature.
    """
    name, asked = method.__name__, checked(method.__name__, method)
    register(name, asked)
    BUILT_IN.add(name)
    RECIPES[name] = asked
    return asked


@dataclass(frozen=True, slots=True)
class DescribedRecipe:
    """A recipe with its description.

    `call` is formula text in which the parameters are names of terms. `summary` is the equation.
    `source` has the parameters, the paper, and differences from the paper; it may be empty.
    """

    name: str
    call: str
    summary: str
    source: str


@cache
def described_recipes() -> tuple[DescribedRecipe, ...]:
    """Return every recipe of marith in the order of `marith recipes`."""
    return tuple(_described(name, recipe) for name, recipe in RECIPES.items())


def own_methods() -> dict[str, Callable[..., Node] | FormulaError]:
    """Return the functions that `define` registered or that installed packages offer, by name.

    The packages are imported. If a function cannot be imported, its value is the error.
    """
    own: dict[str, Callable[..., Node] | FormulaError] = {}
    for name in sorted({*CALLS, *offered()} - BUILT_IN):
        try:
            load_function(name)
            own[name] = CALLS[name]
        except FormulaError as error:
            own[name] = error
    return own


def _described(name: str, recipe: Callable[..., Formula]) -> DescribedRecipe:
    summary, _, rest = (inspect.getdoc(recipe) or "").partition("\n\n")
    call = f"{name}({', '.join(_arguments(recipe))})"
    return DescribedRecipe(name, call, " ".join(summary.split()), " ".join(rest.split()))


def _arguments(recipe: Callable[..., Formula]) -> Iterator[str]:
    """Yield an argument for each parameter: a name for a formula, and the default for a number."""
    # An argument after a list of formulas, or after a parameter that is left out, needs its name.
    named = False
    for each in inspect.signature(recipe).parameters.values():
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            yield from _SEVERAL.get(each.name, (each.name,))
            named = True
        elif each.default is inspect.Parameter.empty:
            yield BARE if each.name in _BARE else each.name
        elif each.default is None:
            named = True
        else:
            text = number_text(each.default)
            yield f"{each.name}={text}" if named else text
