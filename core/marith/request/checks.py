"""Check the values of requests. Each kind of check is written once, here."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from typing import Any, TypeAlias

from marith.errors import RequestError, shown
from marith.formula.tree.factors import plain

# The most levels that data may have. Code that renders templates or writes JSON recurses once for
# each level.
LEVELS = 100
PARTS = 100_000

# A check gets the name of a field and a value, and returns the value to store.
Check: TypeAlias = Callable[[str, Any], Any]


def checked_by(check: Check, option: str = "", untrusted: bool = False) -> Mapping[str, Any]:
    """Return the metadata with which `check_fields` checks a field of a dataclass.

    A field is written `field(metadata=checked_by(flag))`. `option` is the field's name in calls and
    in `Options`, if that name is different. If `untrusted`, callers that the application does not
    trust may set the field too.
    """
    return {"check": check, "option": option, "untrusted": untrusted}


def fields_by_option(*kinds: type[Any]) -> dict[str, Field[Any]]:
    """Return the checked fields of dataclasses by their names in calls and in `Options`."""
    held = (field for kind in kinds for field in fields(kind) if "check" in field.metadata)
    return {field.metadata["option"] or field.name: field for field in held}


def check_fields(value: Any) -> None:
    """Run the checks of a frozen dataclass's fields. A field with its default is not checked."""
    for field in fields(value):
        if check := field.metadata.get("check"):
            current = getattr(value, field.name)
            if current is not field.default:
                object.__setattr__(value, field.name, check(field.name, current))


def whole(name: str, value: Any, minimum: int, maximum: int | None = None) -> int:
    """Return `value` as an int if it is a whole number from `minimum` to `maximum`.

    Raises RequestError for any other value. `name` is what the message calls the value.
    """
    number = plain(value)
    is_integer = isinstance(number, int) and not isinstance(number, bool)
    if not (is_integer and minimum <= number and (maximum is None or number <= maximum)):
        range_ = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise RequestError(f"{name} must be a whole number {range_}, not {shown(value)}")
    return int(number)


def finite(value: Any) -> float | None:
    """Return a finite number as a float; None for any other value, and for True and False."""
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    try:
        number = float(number) if isinstance(number, int) else number
    except OverflowError:
        # The integer is too large for a float.
        return None
    return number if math.isfinite(number) else None


def whole_from(minimum: int, maximum: int | None = None) -> Check:
    """Return a check for a whole number from `minimum` to `maximum`."""
    return lambda name, value: whole(name, value, minimum, maximum)


def number(description: str, holds: Callable[[float], bool]) -> Check:
    """Return a check for a finite number that `holds` accepts. `description` is for the error."""

    def check(name: str, value: Any) -> float:
        number = finite(value)
        if number is None or not holds(number):
            raise RequestError(f"{name} must be {description}, not {shown(value)}")
        return number

    return check


def flag(name: str, value: Any) -> bool:
    """Check that a value is True or False."""
    if not isinstance(value, bool):
        raise RequestError(f"{name} must be True or False, not {shown(value)}")
    return value


def filled(name: str, value: Any) -> str:
    """Check that a value is a non-empty text."""
    if not isinstance(value, str) or not value:
        raise RequestError(f"{name} must be a non-empty text, not {shown(value)}")
    return value


def of_kind(kind: type[Any], example: str) -> Check:
    """Return a check for an instance of a class. `example` is code, which the error shows."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            problem = f"{name} must be a {kind.__name__}, not {shown(value)}"
            raise RequestError(f"{problem}; write, for example, {example}")
        return value

    return check


def optional(check: Check) -> Check:
    """Return a check that accepts None, and runs `check` on any other value."""
    return lambda name, value: None if value is None else check(name, value)


def texts(max_letters: int) -> Check:
    """Return a check for non-empty texts with at most `max_letters` characters in total."""

    def check(name: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, (str, Sequence)):
            raise RequestError(f"{name} must be a list of texts, not {shown(value)}")
        checked = (value,) if isinstance(value, str) else tuple(value)
        for text in checked:
            if not isinstance(text, str) or not text:
                raise RequestError(
                    f"each item of {name} must be a non-empty text, not {shown(text)}"
                )
        letters = sum(map(len, checked))
        if letters > max_letters:
            raise RequestError(f"{name} has {letters:,} characters; at most {max_letters:,}")
        return checked

    return check


def seconds(name: str, value: Any) -> float | None:
    """Check that a value is a number of seconds above 0, or None for no limit."""
    if value is None:
        return None
    number = finite(value)
    if not (number and number > 0):
        raise RequestError(f"{name} must be a finite number of seconds above 0, not {shown(value)}")
    return number


def require_shallow(value: Any, name: str) -> None:
    """Raise RequestError for data with more than `LEVELS` levels or `PARTS` parts."""
    waiting, parts = [(value, 0)], 0
    while waiting:
        part, level = waiting.pop()
        parts += 1
        if level > LEVELS or parts > PARTS:
            problem = f"{name} must have at most {LEVELS} levels and {PARTS:,} parts"
            raise RequestError(f"{problem}: {shown(value)}")
        if isinstance(part, Mapping):
            waiting += [(inner, level + 1) for inner in part.values()]
        elif isinstance(part, (list, tuple)):
            waiting += [(inner, level + 1) for inner in part]


def require_json(value: Any, name: str) -> None:
    """Raise RequestError for a value that cannot be written as JSON."""
    require_shallow(value, name)
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{name} cannot be written as JSON ({error}): {shown(value)}") from None


def distinct_texts(name: str, value: Any) -> tuple[str, ...]:
    """Check that a value is a list of at least two texts, all different and none empty."""
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))
    if not is_list or len(value) < 2 or not all(isinstance(text, str) and text for text in value):
        raise RequestError(
            f"{name} must be a list of at least two non-empty texts, not {shown(value)}"
        )
    if len(set(value)) < len(value):
        twice = next(text for text in value if value.count(text) > 1)
        raise RequestError(f"{name} contain {shown(twice)} more than once")
    return tuple(value)
