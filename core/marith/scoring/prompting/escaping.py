"""Texts that spell special tokens, kept out of chat templates: they are data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from uuid import uuid4


class Quotes:
    """Texts that spell special tokens, each replaced by a mark that no text can guess."""

    def __init__(self, special: tuple[str, ...]) -> None:
        self.special = special
        self.texts: list[str] = []
        self.name = uuid4().hex
        self.mark = re.compile(f"@{self.name}-(\\d+)@")

    def quote(self, value: Any, escaped: bool = False) -> Any:
        """`value` with marks for such texts; a call's arguments are `escaped`, as in JSON."""
        return value if _has_none(value, self.special) else self._quote(value, escaped)

    def _quote(self, value: Any, escaped: bool) -> Any:
        match value:
            case str() if any(text in value for text in self.special):
                self.texts.append(_as_json(value) if escaped else value)
                return f"@{self.name}-{len(self.texts) - 1}@"
            case Mapping():
                return {
                    self._quote(key, escaped) if isinstance(key, str) else key: self._quote(
                        item, escaped or _is_tree(key, item)
                    )
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self._quote(item, escaped) for item in value]
        return value


def _has_none(value: Any, special: tuple[str, ...]) -> bool:
    """Whether data as JSON has none of the special texts: then no text in the data has one.

    JSON escapes each letter alone, so a text in a text is found in JSON as its own JSON.
    """
    try:
        written = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # no JSON: each of its texts is looked at
        return False
    return not any(text in written for text in _all_as_json(special))


@lru_cache(maxsize=16)
def _all_as_json(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_as_json, texts))


def _as_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _is_tree(key: str, item: Any) -> bool:
    """Whether these are a call's arguments before they are written as JSON."""
    return key == "arguments" and isinstance(item, Mapping)
