"""Limit how long OpenMP's threads spin while they wait for one another.

GNU's runtime spins 300,000 times by default. This takes several milliseconds, during which a
waiting thread occupies its core, and no other thread or process can use it. The runtime reads the
environment once, when torch loads it; llama.cpp loads a runtime of its own.
"""

from __future__ import annotations

import os
import sys

CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
# About a millisecond, longer than almost every pause between two matrix products of a step.
SPINS = 20_000

_chosen = any(name in os.environ for name in CHOICES)
# True if torch was imported while the environment did not say how threads wait.
TORCH_SPINS_LONG = "torch" in sys.modules and not _chosen


def limit_spinning() -> None:
    """Set GOMP_SPINCOUNT to SPINS, unless the environment already says how threads wait."""
    if not _chosen:
        os.environ["GOMP_SPINCOUNT"] = str(SPINS)
