"""How long does a run take? Said before a long one; a terminal may refuse a very long one."""

from __future__ import annotations

import sys
from collections import deque
from time import monotonic

from rich.console import Console
from rich.prompt import Confirm

from marith.errors import RequestError
from marith.evals.reporting.numbers import counted

LONG = 60.0  # seconds from which the time is said
VERY_LONG = 30 * 60.0  # seconds from which a terminal is asked
CHANGED = 1.5  # how many times longer or shorter the rest takes when that is said again


def announce(seconds: float, texts: str, ask: bool) -> None:
    """Print how long `texts` ("90 texts") take; with `ask` a terminal agrees to a very long run.

    Raises RequestError where it does not.
    """
    if seconds < LONG:
        return
    console = Console(stderr=True)
    estimate = f"{texts} more take about {duration(seconds)}"
    console.print(estimate, highlight=False, markup=False)
    if seconds < VERY_LONG or not (ask and sys.stdin.isatty() and console.is_terminal):
        return
    if not Confirm.ask("Go on?", console=console, default=True):
        raise RequestError(f"stopped: {estimate}; --n, --samples and --max-tokens make it shorter")


class RemainingTime:
    """How long `count` texts still take by the latest `window` of them. Keeps state.

    `seconds` is what was said of all at the beginning.
    """

    def __init__(self, seconds: float, count: int, window: int) -> None:
        self._count, self._end = count, monotonic() + seconds
        self._times = deque([monotonic()], window)

    def advance(self) -> float | None:
        """Note that a text is made; return the seconds that are left where others were said."""
        now = monotonic()
        self._times.append(now)
        self._count -= 1
        if len(self._times) < (self._times.maxlen or 0):
            return None
        left = (now - self._times[0]) / (len(self._times) - 1) * self._count
        said = max(self._end - now, 0.0)
        if left < LONG or said / CHANGED <= left <= said * CHANGED:
            return None
        self._end = now + left
        return left


def duration(seconds: float) -> str:
    """40 → "40 seconds", 5,400 → "90 minutes", 9,000 → "2 hours"."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return counted(round(seconds), "second")
    return counted(minutes, "minute") if minutes < 120 else counted(round(minutes / 60), "hour")
