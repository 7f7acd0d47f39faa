"""Who says how strong an attribute is: pocket's own judges, the paper's, or others by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean
from typing import Any

from marith.engine.engine import Engine
from marith.errors import RequestError
from marith.evals.experiment.measuring import Ask, Better, Measure
from marith.evals.measures import VADER, Attribute, Lexicon
from marith.pocket.grammar import chats
from marith.pocket.grammar.voices import VOICES

TONES = ("positive", "negative")
TOPICS = "cardiffnlp/tweet-topic-21-multi"
_WORD = re.compile(r"[a-z']+")
_SLOT = re.compile(r"\{\w+\}")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_SPOKEN = ("helpful", "plain", "formal", "happy", "simple", "sports")


def named(name: str, text: str, better: Better = "higher") -> Measure:
    """The judge MODEL:LABEL, a classifier's label, or vader:positive and vader:negative.

    Raises RequestError for what is none.
    """
    model, _, label = text.rpartition(":")
    if model == VADER and label in TONES:
        return Lexicon(label, better)
    if not model or not label or model == VADER:
        problem = f"an attribute is MODEL:LABEL, or {VADER}:positive or {VADER}:negative"
        raise RequestError(f"{problem}, not {text!r}")
    return Attribute(name, model, int(label) if label.isdigit() else label, better)


@dataclass(frozen=True, slots=True)
class Wording:
    """The share of sentences with a word that only one of pocket's voices says, in [0, 1]."""

    voice: str
    better: Better = "higher"
    of_engine: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        """The voice's."""
        return self.voice

    def described(self) -> Mapping[str, Any]:
        """The voice and its words."""
        return {"words of": self.voice, "words": sorted(own_words(self.voice))}

    def check(self) -> None:
        """Nothing can be wrong with it."""

    def open(self, engine: Engine | None) -> Ask:
        """A text without a sentence has none."""
        words = own_words(self.voice)
        return lambda texts: [_share(text.text, words) for text in texts]


@dataclass(frozen=True, slots=True)
class Simplicity:
    """1 − the mean length of a text's words over 10: the paper's measure of simple language."""

    name: str = "simple"
    better: Better = "higher"
    of_engine: bool = field(default=False, init=False)

    def described(self) -> Mapping[str, Any]:
        """What is computed."""
        return {"computed": "1 - mean word length / 10"}

    def check(self) -> None:
        """Nothing can be wrong with it."""

    def open(self, engine: Engine | None) -> Ask:
        """A text without words has none."""
        return lambda texts: [simplicity(text.text) for text in texts]


def simplicity(text: str) -> float | None:
    """1 − x / 10, x being the mean length of words, as white space parts them."""
    words = text.split()
    return 1 - fmean(map(len, words)) / 10 if words else None


@cache
def own_words(voice: str) -> frozenset[str]:
    """The words that pocket's grammar gives to this voice, and to no other and to no topic."""
    others = frozenset[str]().union(*(_spoken(name) for name in _SPOKEN if name != voice))
    return _spoken(voice) - others - _said_of_topics()


def _share(text: str, words: frozenset[str]) -> float | None:
    sentences = [_WORD.findall(one.lower()) for one in _SENTENCE.split(text.strip())]
    told = [sentence for sentence in sentences if sentence]
    return fmean(not words.isdisjoint(sentence) for sentence in told) if told else None


def _spoken(voice: str) -> frozenset[str]:
    own = VOICES[voice]
    lines = (*own.openers, *own.frames, *own.joins, *own.closers, *own.swap.values())
    return _words(" ".join(lines))


def _said_of_topics() -> frozenset[str]:
    facts = [said for topic in chats.TOPICS for said in (topic.name, *topic.facts)]
    for intent in chats.INTENTS.values():
        facts += [*intent.ask, *intent.lead, *intent.then, *intent.text]
    return _words(" ".join(facts))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(_SLOT.sub("", text.lower())))


POCKET: Mapping[str, Measure] = {
    "happy": Wording("happy"),
    "simple": Simplicity(),
    "sports": Wording("sports"),
    "formal": Attribute("formal", "pocket-formality", "formal", "higher"),
    "educational": Attribute("educational", "pocket-education", "educational", "higher"),
}
# The paper's, section "Prompting Details Attributes".
OPEN: Mapping[str, Measure] = {
    "happy": Attribute(
        "happy", "cardiffnlp/twitter-roberta-base-sentiment-latest", "positive", "higher"
    ),
    "simple": Simplicity(),
    "sports": Attribute("sports", TOPICS, "sports", "higher"),
    "formal": Attribute("formal", "s-nlp/roberta-base-formality-ranker", "formal", "higher"),
    "educational": Attribute("educational", TOPICS, "learning_&_educational", "higher"),
}
