"""The book of recipes: every method by its name, as formulas call it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from marith.errors import FormulaError, shown
from marith.formula.text.parsing import define
from marith.formula.tree.factors import Varying, is_number
from marith.formula.tree.nodes import Formula

Method = TypeVar("Method", bound=Callable[..., Formula])

RECIPES: dict[str, Callable[..., Formula]] = {}


def recipe(method: Method) -> Method:
    """A method of the literature: callable from Python, and by its name in formula text.

    It takes what its signature says, and raises FormulaError for anything else.
    """
    name, signature = method.__name__, inspect.signature(method)

    @wraps(method)
    def asked(*given: Any, **named: Any) -> Formula:
        try:
            bound = signature.bind(*given, **named)
        except TypeError as error:
            takes = ", ".join(map(_plain, signature.parameters.values()))
            raise FormulaError(f"{name}({takes}): {error}") from None
        for parameter, value in bound.arguments.items():
            _check(name, signature.parameters[parameter], value)
        return method(*given, **named)

    define(name, asked)
    RECIPES[name] = asked
    return cast(Method, asked)


def _is_factor(value: object) -> bool:
    return isinstance(value, Varying) or is_number(value)


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "Formula": ("a formula", lambda value: isinstance(value, Formula)),
    "Factor": ("a number or a function of the context", _is_factor),
    "float": ("a number", is_number),
    "int": ("a whole number", lambda value: isinstance(value, int) and is_number(value)),
    "Sequence[Factor]": (
        "a list of numbers",
        lambda value: isinstance(value, (list, tuple)) and all(map(_is_factor, value)),
    ),
    "None": ("None", lambda value: value is None),
}


def _check(name: str, parameter: inspect.Parameter, value: Any) -> None:
    """Raise FormulaError for a value that is none of the kinds its parameter is annotated with."""
    kinds = [_KINDS[kind] for kind in str(parameter.annotation).split(" | ")]
    several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    for argument in value if several else (value,):
        if not any(fits(argument) for _, fits in kinds):
            wanted = " or ".join(kind for kind, _ in kinds)
            raise FormulaError(f"{parameter.name} of {name} is {wanted}, not {shown(argument)}")


def _plain(parameter: inspect.Parameter) -> str:
    """A parameter as one writes it, without its annotation."""
    return str(parameter.replace(annotation=inspect.Parameter.empty))
