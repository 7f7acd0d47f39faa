"""How strongly do texts show an attribute? The probability that a classifier gives to a label."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from marith.engine.engine import loading
from marith.formula.tree.terms import Classifier
from marith.scoring.terms.classifier_scorer import ClassifierScorer
from marith.scoring.weights import loader
from marith.scoring.weights.placing import Placement


def attribute(
    texts: Sequence[str], model: str, label: str | int, device: str | None = None
) -> list[float]:
    """Return the probability in [0, 1] that a classifier gives to `label`, for each text.

    `model` is an embedded name, a directory or a hub id. Raises ModelError or RequestError.
    """
    return _scorer(model, device).probabilities(Classifier(model, label=label), texts)


@cache
def _scorer(model: str, device: str | None) -> ClassifierScorer:
    with loading:
        checkpoint = loader.classifier(model, Placement(device=device))
        return ClassifierScorer(checkpoint, checkpoint.vocabulary)
