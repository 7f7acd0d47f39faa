"""What is kept of texts for other values of their formulas' numbers, in bounded memory."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from marith import WhatIf
from marith.serving.served_models import ServedModel
from marith.serving.server_settings import Bounds
from marith.serving.wire.refusals import Refusal

MOST_TEXTS = 64  # of one key: each holds its prompt too


@dataclass(frozen=True, slots=True)
class KeptText:
    """The log-probabilities of every term for a text after a `prefix` that was not drawn."""

    what_if: WhatIf
    persona: ServedModel
    prefix: Sequence[int]


class KeptTexts:
    """What is kept for each key; what was used least recently goes first. For the event loop."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._kept: OrderedDict[tuple[str | None, str], KeptText] = OrderedDict()

    def keep(self, key: str | None, kept: KeptText) -> str:
        """Keep a text for a key; returns the id by which that key finds it."""
        made = secrets.token_urlsafe(16)
        self._kept[key, made] = kept
        names = [name for name in self._kept if name[0] == key]
        for former in names[:-MOST_TEXTS]:
            del self._kept[former]
        self._shrink(names[-MOST_TEXTS:], self._bounds.kept_bytes_of_key)
        self._shrink([*self._kept], self._bounds.kept_bytes)
        return made

    def find(self, key: str | None, name: str) -> KeptText:
        """What a key has kept. Raises Refusal for what is another's, or is gone."""
        kept = self._kept.get((key, name))
        if kept is None:
            problem = "what was kept of this text is gone; send the text again"
            raise Refusal(problem, 404, "kept_gone", "kept")
        self._kept.move_to_end((key, name))
        return kept

    @property
    def byte_count(self) -> int:
        """How many bytes of log-probabilities are kept."""
        return sum(kept.what_if.byte_count for kept in self._kept.values())

    def _shrink(self, names: Sequence[tuple[str | None, str]], most: int) -> None:
        """Give up the first of these until the others take at most so many bytes."""
        taken = sum(self._kept[name].what_if.byte_count for name in names)
        for name in names:
            if taken <= most:
                return
            taken -= self._kept.pop(name).what_if.byte_count
