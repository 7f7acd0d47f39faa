"""The metric of each attribute: pocket's own classifiers, the paper's, or others by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from marith.engine.engine import Engine
from marith.errors import RequestError
from marith.evals.metrics.lexicon import VADER, ToneLexicon
from marith.evals.metrics.metric import Better, Metric, ValuesOfTexts
from marith.evals.metrics.text_classifier import Attribute
from marith.evals.pocket_texts import phrases_by_prompt

TONES = ("positive", "negative")
LENGTH = "length"
TOPICS = "cardiffnlp/tweet-topic-21-multi"
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def parse_metric(name: str, text: str, better: Better = "higher") -> Metric:
    """The judge MODEL:LABEL, a classifier's label; or vader:positive, vader:negative, length.

    A label is a class by name, or by index where no class has that name. Raises RequestError for
    what is none.
    """
    model, _, label = text.rpartition(":")
    if model == VADER and label in TONES:
        return ToneLexicon(label, better)
    if text == LENGTH:
        return Simplicity(better=better)
    if not model or not label or model == VADER:
        problem = f"a judge is MODEL:LABEL, {VADER}:positive, {VADER}:negative or {LENGTH}"
        raise RequestError(f"{problem}, not {text!r}")
    return Attribute(name, model, label, better)


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
