"""One text of the pocket corpus: a chat or plain text, with its labels for classifiers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HELD_OUT_ONE_IN = 20


@dataclass(frozen=True, slots=True)
class Document:
    """One text drawn from the grammar.

    A chat has `messages` (and `tools`) in OpenAI's format; a plain text has `prompt` and
    `completion`. `key` names the fillings of the slots: all documents of one key are on the same
    side of the held-out split. `labels` maps the name of a classifier to the class of the reply.
    """

    kind: str
    key: str
    messages: tuple[Mapping[str, Any], ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    prompt: str = ""
    completion: str = ""
    labels: Mapping[str, int] = field(default_factory=dict)

    @property
    def held_out(self) -> bool:
        """True if training leaves out this filling."""
        return zlib.crc32(self.key.encode()) % HELD_OUT_ONE_IN == 0

    @property
    def reply(self) -> str:
        """The text that a classifier judges: the completion, or the last assistant message."""
        return self.completion or str(self.messages[-1]["content"])
