"""Checks of options: those that a request makes of the same values, and those of a placement."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from os import PathLike
from typing import Any

from pydantic import BaseModel

from marith.errors import RequestError, shown
from marith.formula.text.packages import listed
from marith.request.ban import LETTERS as BANNED_LETTERS
from marith.request.checks import (
    Check,
    backend_name,
    check_names,
    device_name,
    dtype_name,
    filled,
    flag,
    memory_limits,
    number,
    optional,
    seconds,
    texts,
    whole_from,
)
from marith.request.limits import Limits
from marith.request.request import inspected, row_functions, template_options
from marith.request.sampling import Sampling, token_biases
from marith.request.stop import LETTERS as STOP_LETTERS
from marith.request.stop import token_numbers


def _listed(check: Check) -> Check:
    """The same check for one text or several, as a list."""
    return lambda name, value: [*check(name, value)]


PLACED = (
    "device", "dtype", "max_lanes", "max_queue", "cache_bytes", "loaded_bytes",
    "context_length", "revision", "backend", "max_memory",
)  # fmt: skip

CHECKS: Mapping[str, Check] = {
    **{each.name: each.metadata["check"] for kind in (Sampling, Limits) for each in fields(kind)},
    "logit_bias": lambda name, value: dict(token_biases(name, value)),
    "max_tokens": optional(whole_from(1)),
    "stop_token_ids": _listed(token_numbers),
    "min_tokens": whole_from(0),
    "ignore_eos": flag,
    "stop": _listed(
        texts("stop is", "a stop string has at least one letter", "the stop strings", STOP_LETTERS)
    ),
    "ban": _listed(
        texts("ban is", "a banned word has at least one letter", "the banned words", BANNED_LETTERS)
    ),
    "device": device_name,
    "dtype": dtype_name,
    "backend": backend_name,
    "max_memory": memory_limits,
    "context_length": optional(whole_from(2)),
    "timeout": seconds,
    "max_retries": whole_from(0),
    "chat_template_kwargs": template_options,
    "constraints": row_functions,
    "cache_salt": optional(filled),
    "inspect": inspected,
    "steer_tools": flag,
    "faithful": number("a number from 0 to 100", lambda strength: 0 <= strength <= 100),
    "trusted": flag,
    "frozen": flag,
    "allowed": lambda _, value: listed(value),
}


# Names that an option has elsewhere, and its own.
ALIASES: Mapping[str, str] = {
    "engine": "loaded_engine",
    "max_completion_tokens": "max_tokens",
    "model_name": "model",
}
ONCE = ("file", "engine", "loaded_engine")  # given when options are made, and not for a call
# None says that these are not given, as in a call of an engine; for others None is a value.
_NOT_GIVEN = frozenset(
    (
        "ban",
        "cache_salt",
        "chat_template_kwargs",
        "constraints",
        "frequency_penalty",
        "ignore_eos",
        "inspect",
        "logit_bias",
        "min_p",
        "min_tokens",
        "presence_penalty",
        "repetition_penalty",
        "stop",
        "stop_token_ids",
        "temperature",
        "terms",
        "top_p",
    )
)


def by_name(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options under their own names, a path as text, without those that are not given.

    Raises RequestError for an option that is given under two names with different values.
    """
    options: dict[str, Any] = {}
    for name, value in given.items():
        option = ALIASES.get(name, name)
        if option in options and options[option] != value:
            names = (other for other in given if ALIASES.get(other, other) == option)
            values = " and ".join(f"{other}={shown(given[other])}" for other in names)
            raise RequestError(f"{option} is given twice: {values}")
        if value is not None or option not in _NOT_GIVEN:
            options[option] = value
    model = options.get("model")
    if isinstance(model, str):
        options["model"] = str.__str__(model)  # of an enumeration of texts its value
    elif isinstance(model, PathLike):
        options["model"] = os.fspath(model)
    elif type(model).__module__ != "builtins":  # an object, such as a loaded model
        problem = f"model is a name or a path, not {type(model).__name__}"
        raise RequestError(f"{problem}; {_LOADED}")
    return options


_LOADED = "what is loaded is given as engine=marith.Engine.load(model, tokenizer=…)"
# Options of other libraries, and what to write here.
_INSTEAD: Mapping[str, str] = {
    "engine": "it is given when options are made",
    "n": "a call returns one answer; for more call again with seed=1, 2, … or use Engine.generate",
    "tokenizer": _LOADED,
    "threads": "set OMP_NUM_THREADS in the environment before Python starts",
}


def check_fields(given: Mapping[str, Any], kind: type[BaseModel]) -> None:
    """Raise RequestError for a name that is no field of `kind`."""
    aliases = [*ALIASES, *filter(None, (field.alias for field in kind.model_fields.values()))]
    _check_names(given, [*dict.fromkeys([*kind.model_fields, *aliases])], kind.__name__)


def check_call(options: Mapping[str, Any], names: Sequence[str], kind: str) -> None:
    """Raise RequestError for an option of a call that is not in `names`, and for `file`."""
    if "file" in options:
        problem = "a file is read when options are made, and not given for a call"
        raise RequestError(f"{problem}: {shown(options['file'])}")
    _check_names(options, [name for name in names if name not in ONCE], kind)


def _check_names(given: Mapping[str, Any], names: Sequence[str], kind: str) -> None:
    for name in given:
        if name in _INSTEAD and name not in names:
            raise RequestError(f"{kind} takes no option {name!r}: {_INSTEAD[name]}")
    check_names(given, names, kind)


def variable(option: str) -> str | None:
    """The value of an option in the environment."""
    return os.environ.get(f"MARITH_{option.upper()}") or None
