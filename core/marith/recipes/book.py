"""The book of recipes: every method by its name, as formulas call it, and what it computes."""

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
_BARE = ("model", "default")  # parameters that are the model itself, where there is nothing else
_SEVERAL = {"members": (BARE, "other"), "rewards": ("reward",)}


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


@dataclass(frozen=True, slots=True)
class DescribedRecipe:
    """A recipe: `call` is formula text, in which the names of the parameters stand for terms.

    `summary` is its equation in a sentence, `source` its paper and how it differs from it; ""
    where it has no paper.
    """

    name: str
    call: str
    summary: str
    source: str


@cache
def described_recipes() -> tuple[DescribedRecipe, ...]:
    """Every recipe of marith in the order of `marith recipes`."""
    return tuple(_described(name, recipe) for name, recipe in RECIPES.items())


def own_methods() -> dict[str, Callable[..., Node] | FormulaError]:
    """Return by name what formulas can call and marith does not have: what `define` named.

    The functions that installed packages offer are imported; for one that cannot be imported the
    dictionary has the error.
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
    """What is given for each parameter: a name for a formula, and numbers as by default."""
    named = False  # whether what follows is given by its name
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
