"""How simple are texts? The paper's measure, from the length of their words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from marith.engine.engine import Engine
from marith.evals.metrics.metric import Better, Metric, ValuesOfTexts


@dataclass(frozen=True, slots=True)
class Simplicity(Metric):
    """1 − the mean length of a text's words over 10: the paper's measure of simple language."""

    name: str = "simple"
    better: Better = "higher"

    def described(self) -> Mapping[str, Any]:
        """What is computed."""
        return {"computed": "1 - mean word length / 10"}

    def open(self, engine: Engine | None) -> ValuesOfTexts:
        """A text without words has none."""
        return lambda texts: [simplicity(text.text) for text in texts]


def simplicity(text: str) -> float | None:
    """1 − x / 10, x being the mean length of words, as white space parts them."""
    words = text.split()
    return 1 - fmean(map(len, words)) / 10 if words else None
