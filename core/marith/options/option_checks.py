"""Checks of options: those that a request makes of the same values, and those of a placement."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from pydantic import BaseModel

from marith.errors import RequestError, shown
from marith.request.ban import LETTERS as BANNED_LETTERS
from marith.request.checks import (
    Check,
    check_names,
    flag,
    number,
    optional,
    seconds,
    texts,
    whole_from,
)
from marith.request.limits import Limits
from marith.request.request import template_options
from marith.request.sampling import Sampling
from marith.request.stop import LETTERS as STOP_LETTERS

_DEVICE = re.compile(r"[a-z_]+(:\d+)?")  # torch lets backends add names
_DTYPE = re.compile(
    r"(torch\.)?(float32|float|float64|double|float16|half|bfloat16|float8_\w+|float4_\w+)"
)


def _named(pattern: re.Pattern[str], description: str) -> Check:
    """A check for a name as torch has them, without torch, or None."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise RequestError(f"{name} is {description}, not {shown(value)}")
        return value

    return optional(check)


def _listed(check: Check) -> Check:
    """The same check for one text or several, as a list."""
    return lambda name, value: [*check(name, value)]


PLACED = (
    "device", "dtype", "max_lanes", "max_queue", "cache_bytes", "loaded_bytes",
    "context_length", "revision",
)  # fmt: skip

CHECKS: Mapping[str, Check] = {
    **{each.name: each.metadata["check"] for kind in (Sampling, Limits) for each in fields(kind)},
    "max_tokens": whole_from(1),
    "stop": _listed(
        texts("stop is", "a stop string has at least one letter", "the stop strings", STOP_LETTERS)
    ),
    "ban": _listed(
        texts("ban is", "a banned word has at least one letter", "the banned words", BANNED_LETTERS)
    ),
    "device": _named(_DEVICE, "a device of torch, such as 'cpu', 'cuda' or 'cuda:1'"),
    "dtype": _named(_DTYPE, "a floating-point type of torch, such as 'float32' or 'bfloat16'"),
    "context_length": optional(whole_from(2)),
    "timeout": seconds,
    "max_retries": whole_from(0),
    "chat_template_kwargs": template_options,
    "steer_tools": flag,
    "faithful": number("a number from 0 to 100", lambda strength: 0 <= strength <= 100),
    "trusted": flag,
    "frozen": flag,
}


def check_fields(given: Mapping[str, Any], kind: type[BaseModel]) -> None:
    """Raise RequestError for a name that is no field of `kind`."""
    aliases = filter(None, (field.alias for field in kind.model_fields.values()))
    check_names(given, [*kind.model_fields, *aliases], kind.__name__)


def check_call(options: Mapping[str, Any], names: Sequence[str], kind: str) -> None:
    """Raise RequestError for an option of a call that is not in `names`, and for `file`."""
    if "file" in options:
        problem = "a file is read when options are made, and not given for a call"
        raise RequestError(f"{problem}: {shown(options['file'])}")
    check_names(options, [name for name in names if name != "file"], kind)


def variable(option: str) -> str | None:
    """The value of an option in the environment."""
    return os.environ.get(f"MARITH_{option.upper()}") or None
