"""Which scorer speaks for which term, over one base model's vocabulary."""

from __future__ import annotations

from typing import TypeAlias

from marith.errors import FormulaError
from marith.formula.terms import (
    Classifier,
    Judgement,
    Likelihood,
    NGram,
    Position,
    Prompted,
    Term,
    Uniform,
)
from marith.scoring import shelf
from marith.scoring.classifier import ClassifierScorer
from marith.scoring.ngram import NGramScorer, UniformScorer
from marith.scoring.position import PositionScorer
from marith.scoring.prompted import PromptedScorer
from marith.scoring.runner import CACHE_BYTES
from marith.scoring.scorer import Scorer
from marith.scoring.shelf import Checkpoint, Placement

_Seat: TypeAlias = "tuple[type[Term], str | None]"


class Panel:
    """The scorers of one engine. Grows as terms name further checkpoints, each loaded once.

    Changes state: a scorer that it does not have yet is asked for by one thread at a time.
    """

    def __init__(self, base: Checkpoint, cache_bytes: int = CACHE_BYTES) -> None:
        self.base = PromptedScorer(base, cache_bytes)
        self.cache_bytes = cache_bytes
        self.vocabulary = base.vocabulary
        self.device = base.model.device
        dtype = str(base.model.dtype)  # other checkpoints stand where the base stands
        self.placement = Placement(device=str(self.device), dtype=dtype)
        self._seats: dict[_Seat, Scorer] = {_seat(Prompted()): self.base}

    def has(self, term: Term) -> bool:
        """Whether the term's scorer is here already."""
        return _seat(term) in self._seats

    def scorer_of(self, term: Term) -> Scorer:
        """The scorer that answers for a term; loads its checkpoint if need be.

        Raises ModelError for a checkpoint that cannot be had, FormulaError for one whose
        vocabulary differs from the base model's.
        """
        seat = _seat(term)
        if seat not in self._seats:
            self._seats[seat] = self._seated(term)
        return self._seats[seat]

    def scorers(self) -> list[Scorer]:
        """Every scorer in use, once."""
        return list(dict.fromkeys(self._seats.values()))

    def _seated(self, term: Term) -> Scorer:
        match term:
            case Prompted(model=str(name)):
                return self._speaker(term, name)
            case Likelihood(of):
                return self.scorer_of(of)
            case Classifier(model=name) | Judgement(model=name):
                return self._judge(shelf.classifier(name, self.placement))
            case NGram():
                return NGramScorer(self.vocabulary, self.device)
            case Uniform():
                return UniformScorer(self.vocabulary, self.device)
            case Position():
                return PositionScorer(self.device)
        raise TypeError(f"nobody speaks for {type(term).__name__}")

    def _speaker(self, term: Prompted, name: str) -> Scorer:
        checkpoint = shelf.language_model(name, self.placement)
        if checkpoint.vocabulary.fingerprint != self.vocabulary.fingerprint:
            raise FormulaError(
                f"the vocabulary of {name!r} ({checkpoint.vocabulary.size} tokens) is not that of "
                f"{self.base.checkpoint.name!r} ({self.vocabulary.size} tokens), so {term} cannot "
                "stand beside its terms"
            )
        for scorer in self._seats.values():  # the same weights under another name
            if isinstance(scorer, PromptedScorer) and scorer.checkpoint.model is checkpoint.model:
                return scorer
        return PromptedScorer(checkpoint, self.cache_bytes)

    def _judge(self, checkpoint: Checkpoint) -> Scorer:
        for scorer in self._seats.values():
            if isinstance(scorer, ClassifierScorer) and scorer.checkpoint is checkpoint:
                return scorer
        return ClassifierScorer(checkpoint, self.vocabulary, self.cache_bytes)


def _seat(term: Term) -> _Seat:
    """One seat for each set of weights, and one for each kind of counting."""
    match term:
        case Likelihood(of):
            return _seat(of)
        case Prompted(model=name):
            return Prompted, name
        case Classifier(model=name) | Judgement(model=name):
            return Classifier, name
    return type(term), None
