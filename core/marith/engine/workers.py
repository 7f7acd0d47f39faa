"""What a process does for its threads: OpenMP's workers sent home, garbage not sought in vain.

Every thread that computes keeps a team of its own. As soon as all teams together have more
members than the machine has cores, GNU's runtime no longer lets them spin between two products:
they sleep, and waking them at each layer made a step on two cores half as long again. So the
thread that asks lets go of its team, and the engine's thread does when nobody asks. The next
product brings the team back.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from functools import cache
from typing import Literal

_SOFT = 1  # omp_pause_soft (OpenMP 5.0, section 3.2.44): what the program sees stays as it is


def dismiss() -> None:
    """Let the calling thread's workers go; without effect where the runtime does not know how."""
    pause = _pause()
    if pause is not None:
        pause(_SOFT)


@cache
def settle(before: Literal["weights", "texts"]) -> None:  # noqa: ARG001 (once for each)
    """Once a process each: garbage is no longer sought among the objects that are here now.

    Those of the libraries, and of the first model, are there to stay, and a full search among them
    holds every thread up for some tenths of a second, an event loop too. Weights are in no circle
    of references: they go when their engine does. No more often than that, for what an application
    holds by then is spared too.
    """
    gc.collect()
    gc.freeze()


@cache
def _pause() -> Callable[[int], int] | None:
    """The runtime's own function, if the process has loaded one that has it."""
    try:
        return ctypes.CDLL(None).omp_pause_resource_all
    except (AttributeError, OSError, TypeError):
        return None
