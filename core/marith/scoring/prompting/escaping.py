"""Texts that spell special tokens, kept out of chat templates: they are data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from marith.scoring.prompting.tool_format import quoted


class Quotes:
    """Texts that spell special tokens, each replaced by a mark that no text can guess."""

    def __init__(self, special: tuple[str, ...]) -> None:
        self.special = special
        self.texts: list[str] = []
        self.name = uuid4().hex
        self.mark = re.compile(f"@{self.name}-(\\d+)@")

    def quote(self, value: Any, escaped: bool = False) -> Any:
        """`value` with marks for such texts; a call's arguments are `escaped`, as in JSON."""
        match value:
            case str() if any(text in value for text in self.special):
                self.texts.append(quoted(value) if escaped else value)
                return f"@{self.name}-{len(self.texts) - 1}@"
            case Mapping():
                return {
                    self.quote(key, escaped) if isinstance(key, str) else key: self.quote(
                        item, escaped or _is_tree(key, item)
                    )
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self.quote(item, escaped) for item in value]
        return value


def _is_tree(key: str, item: Any) -> bool:
    """Whether these are a call's arguments before they are written as JSON."""
    return key == "arguments" and isinstance(item, Mapping)
