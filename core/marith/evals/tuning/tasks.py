"""Where a formula is tuned: how prompts are put, what names mean, and prompts of pocket's."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from marith.evals import sentiment, toxicity
from marith.evals.experiment.settings import PLAIN
from marith.formula.tree.terms import Classifier, Prompted
from marith.pocket.grammar import chats, conversations, reviews
from marith.pocket.grammar.voices import SYSTEM_PROMPTS
from marith.request.stop import Stop

MESSAGE = toxicity.MESSAGE


@dataclass(frozen=True, slots=True)
class Task:
    """`frame` is how a prompt is put; `classifiers` are there for pocket alone.

    `draw` makes a prompt of those that are called `own`.
    """

    frame: str
    stop: Stop
    terms: Mapping[str, str]
    classifiers: Mapping[str, str]
    draw: Callable[[random.Random], str]
    own: str


TASKS = {
    "chat": Task(
        MESSAGE,
        Stop(64),
        SYSTEM_PROMPTS,
        {"educational": str(Classifier("pocket-education", label="educational"))},
        chats.question,
        "questions",
    ),
    "toxicity": Task(
        toxicity.CONVERSATION,
        Stop(toxicity.MAX_TOKENS, toxicity.STOPS),
        {
            "M": PLAIN,
            "toxic": str(Prompted(conversations.TOXIC, template="plain")),
            "nontoxic": str(Prompted(conversations.NON_TOXIC, template="plain")),
        },
        {"C": str(Classifier("pocket-toxicity", label="civil"))},
        conversations.message,
        "hostile messages",
    ),
    "sentiment": Task(
        MESSAGE,
        Stop(sentiment.MAX_TOKENS, sentiment.STOPS),
        sentiment.TERMS,
        {"C": str(Classifier("pocket-sentiment", label="positive"))},
        reviews.opening,
        "beginnings of film reviews",
    ),
}
