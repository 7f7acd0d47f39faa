"""Checks of options: those that a request makes of the same values, and those of a placement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from marith.errors import RequestError, shown
from marith.request.ban import LETTERS as BANNED_LETTERS
from marith.request.checks import Check, flag, number, optional, seconds, texts, whole_from
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
