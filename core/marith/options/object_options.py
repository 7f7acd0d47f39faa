"""Options that are objects and no plain data: a loaded engine, and functions that change rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from operator import attrgetter
from types import FunctionType, MethodType
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from marith.errors import RequestError, shown
from marith.options.option_checks import PLACED

NO_DATA = {
    "loaded_engine": "a loaded engine cannot be pickled or stored; give its model by name instead",
    "constraints": "functions in constraints cannot be stored; give them to the calls instead",
}
_names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def with_engine(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Options with a loaded engine: `model` is its name, and its limits are the engine's own.

    `defaults` are those of the options in `PLACED`; where the engine is placed is not asked. Raises
    RequestError for what is no engine, and for an option beside it that the engine decides
    otherwise.
    """
    engine, module = given["loaded_engine"], sys.modules.get("marith.engine.engine")
    if module is None or not isinstance(engine, module.Engine):
        advice = "such as marith.Engine.load(model, tokenizer=…)"
        raise RequestError(f"engine is a marith.Engine, {advice}, not {shown(engine)}")
    decided = {
        "model": engine.model_name,
        "file": None,
        **{name: defaults[name] for name in PLACED},
        **asdict(engine.limits),
    }
    for name, value in decided.items():
        if given.get(name) not in (None, value):
            problem = f"{name} is {shown(given[name])}, but a loaded engine is given"
            raise RequestError(f"{problem}, which has its own model and placement; leave it out")
    return {**given, **decided}


def is_found_by_name(function: Any) -> bool:
    """Whether a function, or the class of a callable object, is what its module has by its name.

    Others, such as a lambda, cannot be pickled.
    """
    match function:
        case partial():
            return is_found_by_name(function.func)
        case MethodType():
            return is_found_by_name(function.__self__)
        case FunctionType() | type():
            named = function
        case _:
            named = type(function)
    if named.__module__ == "builtins":
        return True
    try:
        return attrgetter(named.__qualname__)(sys.modules.get(named.__module__)) is named
    except AttributeError:
        return False


def unique_name(value: Any) -> str:
    """A name that no other object of any process has; the same for as long as the object lives."""
    kind = getattr(value, "__qualname__", type(value).__name__)
    try:
        return _names.setdefault(value, f"{kind}-{uuid4().hex}")
    except TypeError:  # it cannot be looked up: no two names of it are the same
        return f"{kind}-{uuid4().hex}"
