"""Which scorer speaks for which term, over one base model's vocabulary."""

from __future__ import annotations

from marith.errors import FormulaError
from marith.formula.terms import Classifier, NGram, Prompted, Term, Uniform
from marith.scoring import shelf
from marith.scoring.classifier import ClassifierScorer
from marith.scoring.ngram import NGramScorer, UniformScorer
from marith.scoring.prompted import PromptedScorer
from marith.scoring.scorer import Scorer
from marith.scoring.shelf import Checkpoint, Placement


class Panel:
    """The scorers of one engine. Grows as terms name further checkpoints, each loaded once.

    Changes state, and is asked by one thread at a time.
    """

    def __init__(self, base: Checkpoint) -> None:
        self.base = PromptedScorer(base)
        self.vocabulary = base.vocabulary
        self.device = base.model.device
        dtype = str(base.model.dtype)  # other checkpoints stand where the base stands
        self.placement = Placement(device=str(self.device), dtype=dtype)
        self._others: dict[str, Scorer] = {}

    def scorer_of(self, term: Term) -> Scorer:
        """The scorer that answers for a term; loads its checkpoint if need be.

        Raises ModelError for a checkpoint that cannot be had, FormulaError for one whose
        vocabulary differs from the base model's.
        """
        match term:
            case Prompted(model=None):
                return self.base
            case Prompted(model=str(name)):
                return self._others.get(f"model {name}") or self._add_model(term, name)
            case Classifier(model=name):
                return self._others.get(f"classifier {name}") or self._add_classifier(name)
            case NGram():
                return self._others.setdefault("ngram", NGramScorer(self.vocabulary, self.device))
            case Uniform():
                return self._others.setdefault(
                    "uniform", UniformScorer(self.vocabulary, self.device)
                )
        raise TypeError(f"nobody speaks for {type(term).__name__}")

    def scorers(self) -> list[Scorer]:
        """Every scorer in use."""
        return [self.base, *self._others.values()]

    def _add_model(self, term: Prompted, name: str) -> Scorer:
        checkpoint = shelf.language_model(name, self.placement)
        if checkpoint.vocabulary.fingerprint != self.vocabulary.fingerprint:
            raise FormulaError(
                f"the vocabulary of {name!r} ({checkpoint.vocabulary.size} tokens) is not that of "
                f"{self.base.checkpoint.name!r} ({self.vocabulary.size} tokens), so {term} cannot "
                "stand beside its terms"
            )
        if checkpoint.model is self.base.checkpoint.model:
            return self.base
        scorer = self._others[f"model {name}"] = PromptedScorer(checkpoint)
        return scorer

    def _add_classifier(self, name: str) -> Scorer:
        checkpoint = shelf.classifier(name, self.placement)
        scorer = self._others[f"classifier {name}"] = ClassifierScorer(checkpoint, self.vocabulary)
        return scorer
