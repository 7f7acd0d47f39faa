"""One text of the pocket corpus: chat or plain, with its labels for classifiers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HELD_OUT_ONE_IN = 20


@dataclass(frozen=True, slots=True)
class Document:
    """One text drawn from the grammar.

    A chat has `messages` (and `tools`) in the OpenAI shape; a plain text has `prompt` and
    `completion`. `key` names the slot fillings: all documents of one key lie on the same side
    of the held-out split. `labels` maps a classifier's name to the class of the reply.
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
        """True if this filling is kept from training."""
        return zlib.crc32(self.key.encode()) % HELD_OUT_ONE_IN == 0

    @property
    def reply(self) -> str:
        """The text that a classifier judges: the completion, or the last assistant message."""
        return self.completion or str(self.messages[-1]["content"])
