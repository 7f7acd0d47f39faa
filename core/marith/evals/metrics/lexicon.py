"""How positive or negative are texts? Measured by VADER, a sentiment lexicon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from marith.engine.engine import Engine
from marith.errors import RequestError
from marith.evals.metrics.metric import Better, Metric, ValuesOfTexts

VADER = "vader"
NO_VADER = "the judge 'vader' needs vaderSentiment: pip install 'marith[evals]'"


@dataclass(frozen=True, slots=True)
class ToneLexicon(Metric):
    """A column that VADER fills (Hutto and Gilbert, 2014), a sentiment lexicon.

    Its compound lies from −1 to +1; here 1 is all of the tone that is asked for, and 0 is none of
    it, or the other.
    """

    tone: str = "negative"
    better: Better = "lower"
    name: str = field(init=False)

    def __post_init__(self) -> None:
        # A lexicon measures sentiment, not toxicity.
        name = "positivity" if self.tone == "positive" else "negativity"
        object.__setattr__(self, "name", name)

    def described(self) -> Mapping[str, Any]:
        """The lexicon and the tone."""
        return {"lexicon": VADER, "tone": self.tone}

    def check(self) -> None:
        """Raise RequestError where VADER is absent."""
        if find_spec("vaderSentiment") is None:
            raise RequestError(NO_VADER)

    def open(self, engine: Engine | None) -> ValuesOfTexts:
        """Read the lexicon."""
        from vaderSentiment import vaderSentiment  # an extra

        analyser: Any = vaderSentiment
        analyser = analyser.SentimentIntensityAnalyzer()
        sign = 1 if self.tone == "positive" else -1
        return lambda texts: (
            max(0.0, sign * analyser.polarity_scores(text.text)["compound"]) for text in texts
        )
