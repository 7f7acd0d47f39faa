"""How well does a formula do, and how fast? Each evaluation has settings and a `run`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_PAPER = ("examples", "sentiment", "toxicity")


def __getattr__(name: str) -> ModuleType:
    """The paper's evaluations by their names, imported on first use."""
    if name not in _PAPER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.paper.{name}")
