"""Whose texts may use what was read of a request's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from marith.errors import RequestError, shown
from marith.request.checks import by, filled, flag, hold, optional


@dataclass(frozen=True, slots=True)
class CacheSalt:
    """A salt, and who asks: `cache_salt="a"` is `CacheSalt("a")`.

    What was read for a request serves requests of the same `text` alone; None is that of requests
    without a salt. Requests of several `tenant`s share the lanes of an engine by what they were
    served; by default each salt is a tenant. With `share_system`, system prompts of at least 64
    tokens serve all requests that have `share_system`, whatever their salt: it is for formulas and
    terms of which no tenant wrote anything. Raises RequestError.
    """

    text: str | None = field(default=None, metadata=by(optional(filled)))
    tenant: str | None = field(default=None, metadata=by(optional(filled)))
    share_system: bool = field(default=False, metadata=by(flag))

    def __post_init__(self) -> None:
        hold(self)


AnySalt: TypeAlias = "str | CacheSalt | None"
NO_SALT = CacheSalt()


def beside(salt: AnySalt, call: Mapping[str, Any]) -> AnySalt:
    """A salt for a call of a stranger's: where it brings a formula or terms, nothing is shared."""
    if isinstance(salt, CacheSalt) and ("formula" in call or "terms" in call):
        return replace(salt, share_system=False)
    return salt


def cache_salt(name: str, value: Any) -> Any:
    """A check of what may be written as a salt; a mapping of its parts is one as data."""
    if isinstance(value, Mapping) and value.keys() <= CacheSalt.__annotations__.keys():
        return CacheSalt(**value)
    if value is None or isinstance(value, CacheSalt) or (isinstance(value, str) and value):
        return value
    raise RequestError(f"{name} is a text that is not empty, or a CacheSalt, not {shown(value)}")
