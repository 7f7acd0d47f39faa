"""Texts that spell special tokens, kept out of chat templates: they are data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from marith.scoring.prompting.tool_format import json_text


class Escaping:
    """Texts that spell special tokens, each replaced by a mark that no text can guess."""

    def __init__(self, special: tuple[str, ...]) -> None:
        self.special = special
        self.texts: list[str] = []
        self.name = uuid4().hex
        self.mark = re.compile(f"@{self.name}-(\\d+)@")

    def escape(self, value: Any, in_json: bool = False) -> Any:
        """`value` with marks for such texts; the arguments of a call are text `in_json`."""
        match value:
            case str() if any(text in value for text in self.special):
                self.texts.append(json_text(value) if in_json else value)
                return f"@{self.name}-{len(self.texts) - 1}@"
            case Mapping():
                return {
                    self.escape(key, in_json) if isinstance(key, str) else key: self.escape(
                        item, in_json or _is_tree(key, item)
                    )
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self.escape(item, in_json) for item in value]
        return value


def _is_tree(key: str, item: Any) -> bool:
    """Whether these are a call's arguments before they are written as JSON."""
    return key == "arguments" and isinstance(item, Mapping)
