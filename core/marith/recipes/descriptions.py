"""Each recipe in plain sight: how a formula calls it, what it computes, and whose it is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from marith.formula.meaning.binding import BARE
from marith.formula.tree.nodes import Formula
from marith.formula.tree.printing import number_text
from marith.recipes.book import RECIPES

_BARE = ("model", "default")  # parameters that are the model itself, where there is nothing else
_SEVERAL = {"members": (BARE, "other"), "rewards": ("reward",)}


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
