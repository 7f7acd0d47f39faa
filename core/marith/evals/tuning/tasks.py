"""Where a formula is tuned: how prompts are framed, what names mean, and prompts of pocket's."""

from __future__ import annotations

from dataclasses import dataclass

from marith.evals import pocket_texts
from marith.evals.experiment.evaluation_settings import MESSAGE, PLAIN
from marith.evals.paper import sentiment, toxicity
from marith.evals.system_prompts import NON_TOXIC, SYSTEM_PROMPTS, TOXIC
from marith.formula.text.term_data import Terms
from marith.formula.tree.terms import Classifier, Prompted
from marith.request.stop import Stop


@dataclass(frozen=True, slots=True)
class TuningTask:
    """`frame` is the text around a prompt; `classifiers` are there for pocket alone.

    Without data, prompts are pocket's texts of the kind `prompts`.
    """

    frame: str
    stop: Stop
    terms: Terms
    classifiers: Terms
    prompts: str


TASKS = {
    "chat": TuningTask(
        MESSAGE,
        Stop(64),
        SYSTEM_PROMPTS,
        {"educational": Classifier("pocket-education", label="educational")},
        pocket_texts.QUESTIONS,
    ),
    "toxicity": TuningTask(
        toxicity.CONVERSATION,
        Stop(toxicity.MAX_TOKENS, toxicity.STOPS),
        {
            "M": PLAIN,
            "toxic": Prompted(TOXIC, template="plain"),
            "nontoxic": Prompted(NON_TOXIC, template="plain"),
        },
        {"C": Classifier("pocket-toxicity", label="civil")},
        pocket_texts.HOSTILE_MESSAGES,
    ),
    "sentiment": TuningTask(
        MESSAGE,
        Stop(sentiment.MAX_TOKENS, sentiment.STOPS),
        sentiment.TERMS,
        {"C": Classifier("pocket-sentiment", label="positive")},
        pocket_texts.BEGINNINGS,
    ),
}
