"""Run named checks, and print for each whether it holds."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence

# A check returns what it has measured, in a few words.
Check = Callable[[], str]


def run_all(checks: Sequence[Check]) -> int:
    """Run all checks, print a line for each, and return the number of failures."""
    failed = 0
    for check in checks:
        began = time.monotonic()
        try:
            measured = check()
        except Exception:
            failed += 1
            traceback.print_exc()
            measured, verdict = "", "failed"
        else:
            verdict = "ok"
        line = f"{verdict:<8}{check.__name__.replace('_', ' ')}: {measured}"
        print(f"{line} ({time.monotonic() - began:.0f} s)", flush=True)
    return failed


def until(holds: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until a condition is true. Raises AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"in {seconds:.0f} s there was not: {what}"
        time.sleep(0.05)
