"""The metric of each attribute: pocket's own classifiers, the paper's, or others by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from marith.engine.engine import Engine
from marith.evals.metrics.metric import Better, Metric, ValuesOfTexts
from marith.evals.metrics.simplicity import Simplicity
from marith.evals.metrics.text_classifier import Attribute
from marith.evals.pocket_texts import phrases_by_prompt

TOPICS = "cardiffnlp/tweet-topic-21-multi"
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class SystemPromptStyle(Metric):
    """The share of sentences that only one system prompt of pocket's corpus has, in [0, 1]."""

    name: str  # of the system prompt
    better: Better = "higher"

    def described(self) -> Mapping[str, Any]:
        """The system prompt and its sentences."""
        return {"manner of": self.name, "ways": sorted(phrases_by_prompt()[self.name])}

    def open(self, engine: Engine | None) -> ValuesOfTexts:
        """A text without a sentence has none."""
        phrases = [
            re.escape(phrase).replace(r"\*", ".+")
            for phrase in sorted(phrases_by_prompt()[self.name])
        ]
        pattern = re.compile("|".join(phrases))
        return lambda texts: [_share(text.text, pattern) for text in texts]


def _share(text: str, pattern: re.Pattern[str]) -> float | None:
    sentences = [sentence for sentence in _SENTENCE.split(text.strip().lower()) if sentence]
    return fmean(bool(pattern.fullmatch(each)) for each in sentences) if sentences else None


POCKET: Mapping[str, Metric] = {
    "happy": SystemPromptStyle("happy"),
    "simple": SystemPromptStyle("simple"),
    "sports": SystemPromptStyle("sports"),
    "formal": Attribute("formal", "pocket-formality", "formal", "higher"),
    "educational": Attribute("educational", "pocket-education", "educational", "higher"),
}
# The paper's, section "Prompting Details Attributes".
OPEN: Mapping[str, Metric] = {
    "happy": Attribute(
        "happy", "cardiffnlp/twitter-roberta-base-sentiment-latest", "positive", "higher"
    ),
    "simple": Simplicity(),
    "sports": Attribute("sports", TOPICS, "sports", "higher"),
    "formal": Attribute("formal", "s-nlp/roberta-base-formality-ranker", "formal", "higher"),
    "educational": Attribute("educational", TOPICS, "learning_&_educational", "higher"),
}
