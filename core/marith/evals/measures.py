"""Numbers about texts: how strongly they show an attribute, and how likely the bare model is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from marith.engine.engine import Engine, loading
from marith.formula.binding import Terms
from marith.formula.terms import Classifier
from marith.scoring import shelf
from marith.scoring.classifier import ClassifierScorer
from marith.scoring.scorer import Message
from marith.scoring.shelf import Placement


def attribute(texts: Sequence[str], model: str, label: str | int) -> list[float]:
    """The probability in [0, 1] that a classifier gives to `label`, for each text.

    `model` is an embedded name, a directory or a hub id. Raises ModelError or RequestError.
    """
    with loading:
        checkpoint = shelf.classifier(model, Placement())
        scorer = ClassifierScorer(checkpoint, checkpoint.vocabulary)
    return scorer.probabilities(Classifier(model, label=label), texts)


def perplexity(
    engine: Engine,
    prompt: str | Sequence[Message],
    tokens: Sequence[int],
    terms: Terms | None = None,
) -> float:
    """The exponential of the mean negative log-probability under `M` of exactly these tokens.

    Nothing is tokenised again and no token is skipped. NaN for an empty text.
    """
    if not tokens:
        return math.nan
    logprobs = engine.score(prompt, tokens, "M", terms)
    return math.exp(-sum(logprobs) / len(logprobs))
