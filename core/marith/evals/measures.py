"""Numbers about texts: how strongly they show an attribute, and how likely the bare model is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from marith.engine.engine import Engine, loading
from marith.errors import RequestError
from marith.evals.experiment.measuring import Ask, Better
from marith.evals.experiment.texts import Text, at_row
from marith.formula.meaning.binding import BARE, Terms
from marith.formula.tree.terms import Classifier
from marith.request.prompt import Message
from marith.scoring.checkpoints import loader
from marith.scoring.checkpoints.loader import Placement
from marith.scoring.classifier.classifier_scorer import ClassifierScorer

VADER = "vader"
_LARGEST = 700  # nats, of which the exponential is still a float
NO_VADER = "the judge 'vader' needs vaderSentiment: pip install 'marith[evals]'"


def attribute(texts: Sequence[str], model: str, label: str | int) -> list[float]:
    """The probability in [0, 1] that a classifier gives to `label`, for each text.

    `model` is an embedded name, a directory or a hub id. Raises ModelError or RequestError.
    """
    return _scorer(model).probabilities(Classifier(model, label=label), texts)


def perplexity(
    engine: Engine,
    prompt: str | Sequence[Message],
    tokens: Sequence[int],
    terms: Terms | None = None,
) -> float:
    """The exponential of the mean negative log-probability under `M` of exactly these tokens.

    Nothing is tokenised again and no token is skipped. NaN for an empty text.
    """
    found = _exponential(engine.score(prompt, tokens, BARE, terms))
    return math.nan if found is None else found


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column that a classifier fills: the probability of a label, in [0, 1]."""

    name: str
    model: str
    label: str | int
    better: Better = ""
    of_engine: bool = field(default=False, init=False)

    def described(self) -> Mapping[str, Any]:
        """The classifier and its label."""
        return {"model": self.model, "label": self.label}

    def check(self) -> None:
        """Raise ModelError for a classifier that cannot be had, RequestError for its label."""
        attribute((), self.model, self.label)

    def open(self, engine: Engine | None) -> Ask:
        """Load the classifier; it reads the text alone, not the prompt."""
        scorer, term = _scorer(self.model), Classifier(self.model, label=self.label)
        return lambda texts: scorer.probabilities(term, [text.text for text in texts])


@dataclass(frozen=True, slots=True)
class Perplexity:
    """A column of perplexities of exactly the sampled tokens under `M`, as `terms` have it.

    With `formulas` each text's is under the one that they have for its line.
    """

    terms: Mapping[str, str]
    formulas: Mapping[str, str] = field(default_factory=dict)
    name: str = "perplexity"
    better: Better = "lower"
    of_engine: bool = field(default=True, init=False)

    def described(self) -> Mapping[str, Any]:
        """What it is taken under; formulas and terms are settings already."""
        return {"under": "each formula" if self.formulas else BARE}

    def check(self) -> None:
        """Nothing can be wrong with it that is not wrong with the formulas."""

    def open(self, engine: Engine | None) -> Ask:
        """Texts asked about together share passes. An empty one has no number.

        Infinite is that of a text with a token that the formula rules out.
        """
        assert engine is not None

        def ask(texts: Sequence[Text]) -> list[float | None]:
            asked = []
            for text in texts:
                formula = self.formulas.get(text.line, BARE)
                with at_row(text.row):
                    asked.append(
                        engine.submit_scoring(text.prompt, text.tokens, formula, self.terms)
                    )
            return [_exponential(one.result().logprobs) for one in asked]

        return ask


@dataclass(frozen=True, slots=True)
class Lexicon:
    """A column that VADER fills (Hutto and Gilbert, 2014), a lexicon of feelings.

    Its compound lies from −1 to +1; here 1 is all of the tone that is asked for, and 0 is none of
    it, or the other.
    """

    tone: str = "negative"
    better: Better = "lower"
    of_engine: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        """What a lexicon finds is a tone, no toxicity."""
        return "positivity" if self.tone == "positive" else "negativity"

    def described(self) -> Mapping[str, Any]:
        """The lexicon and the tone."""
        return {"lexicon": VADER, "tone": self.tone}

    def check(self) -> None:
        """Raise RequestError where VADER is absent."""
        if find_spec("vaderSentiment") is None:
            raise RequestError(NO_VADER)

    def open(self, engine: Engine | None) -> Ask:
        """Read the lexicon."""
        from vaderSentiment import vaderSentiment  # an extra

        judge: Any = vaderSentiment
        judge = judge.SentimentIntensityAnalyzer()
        sign = 1 if self.tone == "positive" else -1
        return lambda texts: (
            max(0.0, sign * judge.polarity_scores(text.text)["compound"]) for text in texts
        )


def _scorer(model: str) -> ClassifierScorer:
    with loading:
        checkpoint = loader.classifier(model, Placement())
        return ClassifierScorer(checkpoint, checkpoint.vocabulary)


def _exponential(logprobs: Sequence[float]) -> float | None:
    """A perplexity; None of no tokens."""
    if not logprobs:
        return None
    nats = -sum(logprobs) / len(logprobs)
    return math.exp(nats) if nats < _LARGEST else math.inf
