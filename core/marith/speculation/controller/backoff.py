"""For how many rounds a text is skipped, after one in which nothing was drafted for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from marith.speculation.window import DraftWindow

SHORT, LONG = 3, 64  # rounds in a row that a text is skipped at most: always, and under load
SHARE = 0.01  # of the time of rounds, which choosing takes at most while nothing is drafted


@dataclass(slots=True)
class _Skipped:
    rounds: int = 0
    left: int = 0


class Backoff:
    """Skips a text for twice as many rounds each time, and one more.

    At most for `SHORT` rounds while choosing is quick beside a round, as it is for one text of a
    large model. For many texts of a small one choosing takes a good part of the time: then for as
    many rounds as make it `SHARE` of that. State: the rounds of each text, and what choosing takes.
    """

    def __init__(self) -> None:
        self._skipped: WeakKeyDictionary[DraftWindow, _Skipped] = WeakKeyDictionary()
        self._seconds = 0.0  # that choosing takes for one text, a moving average
        self._longest = SHORT

    def due(self, window: DraftWindow) -> bool:
        """Whether this round is chosen for the text."""
        skipped = self._skipped.get(window)
        if skipped is None:
            return True
        skipped.left -= 1
        return skipped.left < 0

    def note(self, window: DraftWindow, drafted: bool) -> None:
        """What was chosen for it."""
        skipped = self._skipped.setdefault(window, _Skipped())
        skipped.rounds = 0 if drafted else min(2 * skipped.rounds + 1, self._longest)
        skipped.left = skipped.rounds

    def learn(self, seconds: float, chosen: int, texts: int, round_seconds: float) -> None:
        """Choosing for so many of all `texts` took `seconds`, and the round takes others."""
        each = seconds / chosen
        self._seconds = each if not self._seconds else 0.9 * self._seconds + 0.1 * each
        rounds = math.ceil(self._seconds * texts / max(SHARE * round_seconds, 1e-9)) - 1
        self._longest = max(SHORT, min(rounds, LONG))
