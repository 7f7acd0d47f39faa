"""How well does a formula do, and how fast? Each evaluation has settings and a `run`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EVALUATIONS = {
    "examples": "paper.examples",
    "sentiment": "paper.sentiment",
    "text_evaluation": "text_evaluation",
    "toxicity": "paper.toxicity",
}
_OF_MEASURES = {  # what a measure of one's own needs
    "Metric": "metrics.metric",
    "Text": "experiment.texts",
    "TextMeasure": "metrics.own_measure",
}


def __getattr__(name: str) -> Any:
    """Evaluations, and what measures of one's own need, by their names; imported on first use."""
    if name in _EVALUATIONS:
        return import_module(f"{__name__}.{_EVALUATIONS[name]}")
    if name in _OF_MEASURES:
        return getattr(import_module(f"{__name__}.{_OF_MEASURES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
