"""How strongly do texts show an attribute? The probability that a classifier gives to a label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marith.engine.engine import Engine, loading
from marith.evals.metrics.metric import Better, Metric, ValuesOfTexts
from marith.formula.tree.terms import Classifier
from marith.scoring.checkpoints import loader
from marith.scoring.checkpoints.placing import Placement
from marith.scoring.classifier.classifier_scorer import ClassifierScorer


def attribute(
    texts: Sequence[str], model: str, label: str | int, device: str | None = None
) -> list[float]:
    """The probability in [0, 1] that a classifier gives to `label`, for each text.

    `model` is an embedded name, a directory or a hub id. Raises ModelError or RequestError.
    """
    return _scorer(model, device).probabilities(Classifier(model, label=label), texts)


@dataclass(frozen=True, slots=True)
class Attribute(Metric):
    """A column that a classifier fills: the probability of a label, in [0, 1]."""

    name: str
    model: str
    label: str | int
    better: Better = ""
    device: str | None = None

    def described(self) -> Mapping[str, Any]:
        """The classifier and its label."""
        return {"model": self.model, "label": self.label}

    def check(self) -> None:
        """Raise ModelError for a classifier that cannot be had, RequestError for its label."""
        attribute((), self.model, self.label, self.device)

    def open(self, engine: Engine | None) -> ValuesOfTexts:
        """Load the classifier; it reads the text alone, not the prompt."""
        scorer, term = _scorer(self.model, self.device), Classifier(self.model, label=self.label)
        return lambda texts: scorer.probabilities(term, [text.text for text in texts])


def _scorer(model: str, device: str | None) -> ClassifierScorer:
    with loading:
        checkpoint = loader.classifier(model, Placement(device=device))
        return ClassifierScorer(checkpoint, checkpoint.vocabulary)
