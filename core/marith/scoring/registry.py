"""The scorer of each term, over one base model's vocabulary."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeAlias
from weakref import WeakValueDictionary

import torch

from marith.errors import FormulaError, ModelError, shown
from marith.formula.tree.terms import (
    Calling,
    Classifier,
    Judgement,
    Likelihood,
    NGram,
    Position,
    Prompted,
    Reasoning,
    Term,
    Uniform,
)
from marith.lru import WeightedLRU
from marith.request.limits import CACHE_BYTES, LOADED_BYTES
from marith.request.placement_names import Over
from marith.scoring.cache_limit import CacheLimit
from marith.scoring.choose_runner import runner_of
from marith.scoring.model_warnings import ModelWarnings
from marith.scoring.prompting.shared_tokens import SharedTokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import Scorer
from marith.scoring.terms.classifier_scorer import ClassifierScorer
from marith.scoring.terms.ngram_scorer import NGramScorer
from marith.scoring.terms.over_bytes.byte_scorer import ByteScorer
from marith.scoring.terms.over_bytes.byte_vocabulary import ByteVocabulary
from marith.scoring.terms.prompted_scorer import PromptedScorer
from marith.scoring.terms.text_marks import TextMarks
from marith.scoring.terms.trivial import PositionScorer, UniformScorer
from marith.scoring.weights import loader
from marith.scoring.weights.checkpoint import Checkpoint
from marith.scoring.weights.locate import GGUF, FileTimes, file_times, gguf_file, locate
from marith.scoring.weights.placing import Placement, composing_device

_Key: TypeAlias = "tuple[type[Term], str | None, FileTimes, str | None, str | None]"
ModelScorer: TypeAlias = "PromptedScorer | ClassifierScorer"


class Registry:
    """The scorers of one engine, for all checkpoints that terms name.

    With `over="bytes"`, the tokens of the engine are bytes, and language models may have any
    vocabularies. The base model always stays loaded. Other checkpoints, adapters and n-grams stay
    while they are in use. After that, the most recently used stay while they take at most
    `loaded_bytes` together. Files that have changed are loaded again for the next request that
    begins. Cached prefixes of finished texts stay while the caches of all checkpoints, including
    texts in use, take at most `cache_bytes`. One call of a model reads at most `max_batched_tokens`
    tokens of prompts.

    Changes state. One thread at a time may ask for a scorer that is not loaded, and one thread runs
    all loaded scorers.
    """

    def __init__(
        self,
        base: Checkpoint,
        cache_bytes: int = CACHE_BYTES,
        loaded_bytes: int = LOADED_BYTES,
        max_batched_tokens: int | None = None,
        over: Over = "tokens",
    ) -> None:
        # This check comes first, because `base` may not be a checkpoint.
        device_of(base)
        self._recent = WeightedLRU(loaded_bytes)
        self._max_batched_tokens = max_batched_tokens
        self.device = composing_device(base.device)
        self.over_bytes = over == "bytes"
        own = base.vocabulary
        self.vocabulary = ByteVocabulary(own) if self.over_bytes else own
        self.base = self._scorer_of(base, cache_bytes)
        self.cache_limit = CacheLimit(cache_bytes)
        self.base.runner.join(self.cache_limit)
        # Other checkpoints are loaded to the device of the base model.
        self.placement = Placement(str(base.device), base.dtype)
        self.warnings = ModelWarnings(base)
        self._models: WeakValueDictionary[_Key, ModelScorer] = WeakValueDictionary()
        self._models[_key_of(Prompted())] = self.base
        self._ngrams = NGramScorer(self.vocabulary, self.device, self._recent)
        self._others: dict[type[Term], Scorer] = {
            NGram: self._ngrams,
            Uniform: UniformScorer(self.vocabulary, self.device),
            Position: PositionScorer(self.device),
            **dict.fromkeys((Reasoning, Calling), TextMarks(self.vocabulary, self.device)),
        }

    def find(self, term: Term) -> tuple[Scorer, object]:
        """Return the scorer of a term, and the data that it loaded for the term.

        Both stay loaded while they are held. Raises KeyError if one of them is not loaded, or if
        its files have changed since.
        """
        if (other := self._others.get(type(term))) is not None:
            return other, self._ngrams.find(term) if isinstance(term, NGram) else None
        key = _key_of(term)
        scorer = self._models[key]
        own = scorer.find(term) if isinstance(scorer, PromptedScorer) else None
        self._keep(key, scorer)
        return scorer, own

    def load(self, term: Term) -> tuple[Scorer, object]:
        """Return the scorer of a term, and the data that it loads. Raises as `scorer_of` does."""
        scorer = self.scorer_of(term)
        return scorer, scorer.load(term)

    def scorer_of(self, term: Term) -> Scorer:
        """Return the scorer of a term, and load its checkpoint if needed.

        Raises ModelError if the checkpoint cannot be loaded, and FormulaError if its vocabulary
        differs from the base model's.
        """
        if type(term) in self._others:
            return self._others[type(term)]
        key = _key_of(term)
        scorer = self._models.get(key)
        if scorer is None:
            scorer = self._new_scorer(term)
            # The runner joins after it was tried out, because from now on the engine runs it.
            scorer.runner.join(self.cache_limit)
            self._models[key] = scorer
        self._keep(key, scorer)
        return scorer

    def _keep(self, key: _Key, scorer: ModelScorer) -> None:
        if scorer is not self.base:
            kind, name, _, device, dtype = key
            self._recent.use(scorer, scorer.nbytes, (kind, name, device, dtype))

    def scorers(self) -> list[Scorer]:
        """Return the scorer of every loaded checkpoint, once."""
        return list(dict.fromkeys(self._models.values()))

    def bytes_left(self) -> int:
        """Return the bytes that are available to a request that runs alone."""
        return self.cache_limit.room_alone(str(self.base.checkpoint.device))

    def checkpoints(self) -> tuple[str, ...]:
        """Return the names of the loaded checkpoints, the base model first. Safe in any thread."""
        # A list of references does not change if another thread loads a model meanwhile.
        scorers = [reference() for reference in self._models.valuerefs()]
        return tuple(dict.fromkeys(one.checkpoint.name for one in scorers if one is not None))

    def _new_scorer(self, term: Term) -> ModelScorer:
        match term:
            case Prompted(model=str(name)) | Likelihood(Prompted(model=str(name))):
                return self._language_model(term, name, self._placement_of(term, name))
            case Classifier(model=name) | Judgement(model=name):
                return self._classifier(loader.classifier(name, self.placement))
        raise TypeError(f"no scorer evaluates a {type(term).__name__}")

    def _placement_of(self, term: Term, name: str) -> Placement:
        """Return the placement of the base model, with the changes that the term asks for."""
        of = term.of if isinstance(term, Likelihood) else term
        assert isinstance(of, Prompted)
        if self.base.checkpoint.backend is not None and name.lower().endswith(GGUF):
            device = of.device or self.base.checkpoint.backend_device
            return Placement(device, of.dtype, backend=self.base.checkpoint.backend)
        placement = self.placement
        if of.device is not None:
            # The number type of the base model may not suit another device.
            placement = replace(placement, device=of.device, dtype=None)
        return placement if of.dtype is None else replace(placement, dtype=of.dtype)

    def _language_model(self, term: Term, name: str, placement: Placement) -> ModelScorer:
        # llama.cpp would load the file of the base model a second time.
        file = gguf_file(locate(name)) if placement.backend is not None else None
        if file is not None and str(file) == self.base.checkpoint.model.path:
            return self.base
        checkpoint = loader.language_model(name, placement, partial(self._shared, term, name))
        # The same weights may be loaded already, under another name.
        for scorer in self._models.values():
            if isinstance(scorer, PromptedScorer) and scorer.checkpoint.model is checkpoint.model:
                return scorer
        shared = self._shared(term, name, checkpoint.vocabulary)
        if shared is not None and shared.different:
            sentence = shared.sentence(name, self.base.checkpoint.name)
            self.warnings.once(f"vocabulary of {name}", sentence)
        return self._scorer_of(checkpoint, self.cache_limit.most_bytes, shared)

    def _scorer_of(
        self, checkpoint: Checkpoint, cache_bytes: int, shared: SharedTokens | None = None
    ) -> PromptedScorer:
        runner = runner_of(checkpoint, cache_bytes, self._max_batched_tokens)
        answers = self._device_of_answers(checkpoint)
        if self.over_bytes:
            return ByteScorer(checkpoint, runner, self._recent, answers)
        return PromptedScorer(checkpoint, runner, self._recent, answers, shared)

    def _shared(self, term: Term, name: str, vocabulary: Vocabulary) -> SharedTokens | None:
        """Return the tokens shared with the base model; None if the vocabularies are equal.

        Over bytes, any two vocabularies are combined, and the result is None. Raises FormulaError
        if the vocabularies differ too much.
        """
        if self.over_bytes:
            return None
        shared = SharedTokens.of(self.vocabulary, vocabulary)
        if shared is not None and shared.too_few:
            base = self.base.checkpoint.name
            raise FormulaError(
                f"{name!r} ({vocabulary.size} tokens) and {base!r} ({self.vocabulary.size} tokens) "
                f"have different vocabularies, so {term} cannot be combined with the other terms: "
                f"{shared.first_difference(name, base)}; use a model of the same family, which has "
                "the same vocabulary but for a few special tokens, or load the engine with "
                "over='bytes'; a classifier may have any vocabulary"
            )
        return shared

    def _classifier(self, checkpoint: Checkpoint) -> ModelScorer:
        for scorer in self._models.values():
            if isinstance(scorer, ClassifierScorer) and scorer.checkpoint is checkpoint:
                return scorer
        limit, answers = self.cache_limit.most_bytes, self._device_of_answers(checkpoint)
        return ClassifierScorer(
            checkpoint, self.vocabulary, limit, answers, self._max_batched_tokens
        )

    def _device_of_answers(self, checkpoint: Checkpoint) -> torch.device | None:
        """Return the device to which answers are copied; None if they are on it already."""
        return None if checkpoint.device == self.device else self.device


def _key_of(term: Term) -> _Key:
    """Return the key of the weights that a term uses. The key changes when their files change."""
    match term:
        case Likelihood(of):
            return _key_of(of)
        case Prompted(model=name, device=device, dtype=dtype):
            return Prompted, name, file_times(name), device, dtype
        case Classifier(model=name) | Judgement(model=name):
            return Classifier, name, file_times(name), None, None
    return type(term), None, (), None, None


def device_of(base: Checkpoint) -> str:
    """Return the device of a base model. Raises ModelError if `base` is not a checkpoint."""
    if not isinstance(base, Checkpoint):
        raise ModelError(f"Engine(…) needs a loaded model; write Engine.load({shown(base)})")
    return str(base.device)


def require_lanes(base: Checkpoint, lanes: int) -> None:
    """Raise ModelError if the backend reads fewer than `lanes` texts at a time."""
    if base.most_lanes is not None and lanes > base.most_lanes:
        raise ModelError(
            f"backend={base.backend!r} reads at most {base.most_lanes} texts at once, and "
            f"max_lanes is {lanes}; write max_lanes={base.most_lanes} or less"
        )
