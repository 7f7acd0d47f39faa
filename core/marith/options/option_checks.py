"""Checks of options: options of requests and of placement, and options that are objects."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from os import PathLike
from types import MappingProxyType
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from marith.errors import FormulaError, MarithError, RequestError, option_hint, shown
from marith.formula.text.calls import listed
from marith.request.ban import Ban
from marith.request.checks import (
    Check,
    checked_by,
    fields_by_option,
    flag,
    number,
    optional,
    whole_from,
)
from marith.request.forms.tools import Tools
from marith.request.limits import Limits
from marith.request.other_names import PLACEMENT, advice_for, keywords
from marith.request.placement_names import (
    backend_name,
    device_name,
    dtype_name,
    memory_limits,
    over_name,
)
from marith.request.request import Request
from marith.request.sampling import Sampling, token_biases
from marith.request.stop import Stop

# Fields of `Request` that are options. Other fields belong to one request or combine options.
_OF_REQUESTS = (
    "timeout", "chat_template_kwargs", "constraints", "cache_salt", "steer_reasoning", "inspect",
    "trusted",
)  # fmt: skip

_DRAWN = fields_by_option(Sampling, Stop)
_FIELDS = {
    **{name: fields_by_option(Request)[name] for name in _OF_REQUESTS},
    **_DRAWN,
    **fields_by_option(Limits),
    "ban": fields_by_option(Ban)["ban"],
    "steer_tools": fields_by_option(Tools)["steer_tools"],
}
# The metadata of each option; see `checked_by`. It comes from the field of a request, or is written
# here for an option that only `Options` has.
METADATA: Mapping[str, Mapping[str, Any]] = {
    **{name: field.metadata for name, field in _FIELDS.items()},
    "device": checked_by(device_name),
    "dtype": checked_by(dtype_name),
    "backend": checked_by(backend_name),
    "max_memory": checked_by(memory_limits),
    "over": checked_by(over_name),
    "context_length": checked_by(optional(whole_from(2))),
    "max_retries": checked_by(whole_from(0)),
    "faithful": checked_by(
        number("a number from 0 to 100", lambda s: 0 <= s <= 100), untrusted=True
    ),
    "frozen": checked_by(flag),
    "allowed": checked_by(lambda _, value: listed(value)),
}
CHECKS: Mapping[str, Check] = {
    **{name: metadata["check"] for name, metadata in METADATA.items()},
    "logit_bias": lambda name, value: dict(token_biases(name, value)),
}
# This maps other names of options, some of them from other libraries, to the names of fields.
ALIASES: Mapping[str, str] = {
    "engine": "loaded_engine",
    "max_completion_tokens": "max_tokens",
    "model_name": "model",
}
# These options are set when an `Options` is made, and not in a call.
AT_CREATION = ("file", "engine", "loaded_engine")
# For these options None means "not set", as in a call of an engine; for others None is a value.
_NOT_GIVEN = {name for name, field in _DRAWN.items() if "None" not in field.type}
_NOT_GIVEN |= {"ban", "cache_salt", "chat_template_kwargs", "constraints", "inspect", "terms"}
_LOADED = "pass a loaded model as engine=marith.Engine.load(model, tokenizer=…)"
_SAMPLES = (
    "a call returns one answer; for more, call again with seed=1, 2, … or use Engine.generate"
)
# What to write instead of an option that other libraries or other calls of marith have.
_ADVICE: Mapping[str, str] = {
    "engine": "set it when the options are made",
    **dict.fromkeys(("n", "num_return_sequences"), _SAMPLES),
    **dict.fromkeys(("tokenizer", "tokenizer_name"), _LOADED),
    "template_options": "write chat_template_kwargs={…}",
}
NO_DATA = {
    "loaded_engine": "a loaded engine cannot be pickled or stored; give its model by name instead",
    "constraints": "functions in constraints cannot be stored; give them to the calls instead",
}
_names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def by_name(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return options under marith's names, without options that are not set.

    A path becomes text. Raises RequestError for an option that is set under two names with
    different values, and for a model that is an object.
    """
    options: dict[str, Any] = {}
    for name, value in named.items():
        option = ALIASES.get(name, name)
        if option in options and options[option] != value:
            names = (other for other in named if ALIASES.get(other, other) == option)
            values = " and ".join(f"{other}={shown(named[other])}" for other in names)
            raise RequestError(f"{option} is given twice: {values}")
        if value is not None or option not in _NOT_GIVEN:
            options[option] = value
    model = options.get("model")
    if isinstance(model, str):
        # A member of a text enumeration (`StrEnum`) becomes its value.
        options["model"] = str.__str__(model)
    elif isinstance(model, PathLike):
        options["model"] = os.fspath(model)
    elif type(model).__module__ != "builtins":
        # It is an object, such as a loaded model.
        problem = f"model is a name or a path, not {type(model).__name__}"
        raise RequestError(f"{problem}; {_LOADED}")
    return options


def check_fields(
    options: Mapping[str, Any],
    kind: type[BaseModel],
    own: Iterable[str],
    advice: Mapping[str, str],
) -> None:
    """Raise RequestError for a name that is not a field of `kind`. The message lists `own` fields.

    `advice` says, for each name that the calls of `kind` take but its fields do not include, what
    to write instead.
    """
    aliases = [*ALIASES, *filter(None, (field.alias for field in kind.model_fields.values()))]
    names = [*dict.fromkeys([*kind.model_fields, *aliases])]
    _check_names(options, names, kind.__name__, own, advice)


def check_call(options: Mapping[str, Any], names: Sequence[str], kind: str) -> None:
    """Raise RequestError for an option of a call that is not in `names`, and for `file`."""
    if "file" in options:
        problem = "a file is read when options are made, and not given for a call"
        raise RequestError(f"{problem}: {shown(options['file'])}")
    _check_names(options, names, kind)


def _check_names(
    options: Mapping[str, Any],
    names: Sequence[str],
    kind: str,
    listed: Iterable[str] = (),
    advice: Mapping[str, str] = MappingProxyType({}),
) -> None:
    for name in options:
        if name not in names:
            hint = hint_of(name, names, advice, listed)
            raise RequestError(f"{kind} takes no option {shown(name)}{hint}")


def hint_of(
    name: str,
    names: Collection[str],
    advice: Mapping[str, str] = MappingProxyType({}),
    listed: Iterable[str] = (),
) -> str:
    """Return the end of a sentence about an unknown option. See `option_hint`."""
    return option_hint(name, names, {**advice_for(keywords(names)), **_ADVICE, **advice}, listed)


def variable(option: str) -> str | None:
    """Return the value of an option in the environment, or None."""
    return os.environ.get(f"MARITH_{option.upper()}") or None


@contextmanager
def naming_variable(option: str, is_set: bool) -> Iterator[None]:
    """Name the environment variable in an error about its value, unless the option `is_set`."""
    try:
        yield
    except MarithError as error:
        if is_set or variable(option) is None:
            raise
        where = f"the environment variable MARITH_{option.upper()}"
        if isinstance(error, FormulaError):
            problem = f"{where}: {error.problem}"
            raise FormulaError(problem, error.text, error.start, error.end) from None
        raise RequestError(f"{where}: {error}") from None


def with_engine(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the `model` and the limits of their loaded engine.

    `defaults` are the defaults of the options in `PLACEMENT`. Raises RequestError for a value that
    is not an engine, and for an option that contradicts the engine.
    """
    engine, module = options["loaded_engine"], sys.modules.get("marith.engine.engine")
    if module is None or not isinstance(engine, module.Engine):
        advice = "such as marith.Engine.load(model, tokenizer=…)"
        raise RequestError(f"engine is a marith.Engine, {advice}, not {shown(engine)}")
    decided = {
        "model": engine.model_name,
        "file": None,
        **{name: defaults[name] for name in PLACEMENT},
        **asdict(engine.limits),
    }
    for name, value in decided.items():
        if options.get(name) not in (None, value):
            problem = f"{name} is {shown(options[name])}, but the loaded engine already has its own"
            raise RequestError(f"{problem} model and placement; leave {name} out")
    return {**options, **decided}


def unique_name(value: Any) -> str:
    """Return a name for an object. No other object of any process has the same name.

    An object keeps its name while it lives, but an object that is not hashable gets a new name each
    time.
    """
    kind = getattr(value, "__qualname__", type(value).__name__)
    try:
        return _names.setdefault(value, f"{kind}-{uuid4().hex}")
    except TypeError:
        # The object is not hashable.
        return f"{kind}-{uuid4().hex}"
