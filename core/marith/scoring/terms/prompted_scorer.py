"""The scorer of prompted language models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from marith.errors import ContextOverflow, ModelError
from marith.formula.meaning.binding import BARE, BARE_MODEL
from marith.formula.tree.terms import Likelihood, Prompted, Term
from marith.lru import WeightedLRU
from marith.request.limits import LOADED_BYTES
from marith.request.prompt import Prompt
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.passes import Runner
from marith.scoring.passes.questions import Answer, Reading, RequestLane, Span, note_cached
from marith.scoring.prompting.shared_tokens import SharedTokens
from marith.scoring.prompting.templates import require_text, to_tokens
from marith.scoring.scorer import moved_to
from marith.scoring.terms.base_tokens import BaseTokens
from marith.scoring.terms.text_likelihood import Histories
from marith.scoring.weights.checkpoint import Checkpoint
from marith.scoring.weights.control_vectors import ControlVector
from marith.scoring.weights.locate import FileTimes, file_times
from marith.scoring.weights.lora_files import Adapter
from marith.tensor_rows import Row, gather, has_nan, rows_of

# The name of a LoRA or a control vector, and the times at which its files were written.
_File: TypeAlias = "tuple[str, FileTimes]"
# What a term changes in its model: a LoRA, vectors with their strengths, and where they are added.
_Key: TypeAlias = "tuple[_File | None, tuple[tuple[_File, float], ...], Literal['all', 'answer']]"


@dataclass(slots=True, eq=False, kw_only=True)
class _PromptedLane(RequestLane):
    """The lane of a language model. `text` is its prompt, hashed once, as `memory` counts it."""

    text: LaneText


class PromptedScorer:
    """The scorer of the prompted terms of one checkpoint, which share passes where they can."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        runner: Runner,
        recent: WeightedLRU | None = None,
        answers: torch.device | None = None,
        shared: SharedTokens | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        # This is None if the vocabulary is the base model's.
        self._base_tokens = None if shared is None else BaseTokens(shared, checkpoint.device)
        self.runner = runner
        self.vocabulary = checkpoint.vocabulary
        self.context_length = checkpoint.context_length
        # This is None if answers stay on the device that computes them.
        self._output_device = answers
        self._recent = recent or WeightedLRU(LOADED_BYTES)
        self._adapters: WeakValueDictionary[_Key, Adapter] = WeakValueDictionary()
        self._vectors: WeakValueDictionary[_File, ControlVector] = WeakValueDictionary()
        self._histories = Histories()
        # The list of weights is made only once, because that takes 1 ms for a large model.
        self._weights = checkpoint.weights
        self._changes = _changes(self._weights)
        self.nbytes = checkpoint.nbytes

    def read(self, term: Prompted | Likelihood, prompt: Prompt) -> tuple[int, ...]:
        """Return the prompt as tokens.

        Raises ContextOverflow if the prompt leaves no room for one more token, and ModelError if
        the model's weights were modified after loading.
        """
        if _changes(self._weights) != self._changes:
            raise ModelError(
                f"the weights of {self.checkpoint.name!r} were modified after loading; "
                "load a new engine"
            )
        if isinstance(term, Likelihood):
            assert isinstance(term.of, Prompted)
            return self.read(term.of, prompt)
        require_text(term, prompt, self.vocabulary)
        tokens = to_tokens(term, prompt, self.vocabulary, self.context_length)
        if self.shared is not None and prompt.tokens:
            tokens = self.shared.read(tokens)
        self.vocabulary.require_known(tokens, "the prompt")
        if len(tokens) >= self.context_length:
            raise ContextOverflow(
                f"the prompt has {len(tokens)} tokens or more as {_named(term)} reads it; "
                f"the context of {self.checkpoint.name!r} holds {self.context_length}"
            )
        return tuple(tokens)

    @property
    def shared(self) -> SharedTokens | None:
        """The tokens that the model shares with the base model; None for equal vocabularies."""
        return None if self._base_tokens is None else self._base_tokens.shared

    @property
    def lacking(self) -> tuple[int, ...] | None:
        """The tokens of the engine that the model lacks; None for equal vocabularies."""
        return None if self.shared is None else self.shared.lacking

    @property
    def base_ends(self) -> tuple[int, ...]:
        """The tokens that end a text of the base model, if the vocabularies differ."""
        return () if self.shared is None else self.shared.ends

    @property
    def tokens_read(self) -> int:
        """The number of tokens that the model has read in all passes."""
        return self.runner.passes.tokens_read

    def tokens_left(self, reading: Reading) -> int:
        """Return the number of tokens that the context holds after a prompt."""
        return self.context_length - len(reading)

    def open(
        self,
        terms: Sequence[Prompted | Likelihood],
        reading: Reading,
        salt: str | None,
        loaded: Adapter | None,
    ) -> RequestLane:
        """Return the lane of a request's text. `loaded` is the adapter of its terms, if any."""
        layers = (_exit_layer(term) for term in terms)
        exits = tuple(sorted({layer for layer in layers if layer is not None}))
        assert not isinstance(reading, str)
        # Two texts may share a prefix only if vectors begin at the same token of both.
        start = 0 if loaded is None else loaded.shifted_from(len(reading))
        key = loaded and loaded.key, start, salt
        return _PromptedLane(reading, key, loaded, exits, text=LaneText.of(key, reading))

    def lane_text(self, lane: RequestLane, more: int) -> LaneText:
        """Return the text of a lane with `more` tokens after the prompt, as `memory` counts it."""
        assert isinstance(lane, _PromptedLane)
        return replace(lane.text, more=min(more, self.tokens_left(lane.prompt)))

    def prompt_text(self, lane: RequestLane) -> str:
        """Return the text of the prompt as the term reads it, with special tokens by name."""
        return self.vocabulary.spell(lane.prompt)

    def uncached(self, lane: RequestLane) -> int:
        """Return how many of the engine's tokens of the prompt were not cached."""
        return max(0, len(lane.prompt) - (lane.cached or 0))

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of keys, values and states of all these texts."""
        return self.runner.memory(texts)

    def find(self, term: Term) -> Adapter | None:
        """Return the term's adapter, or None if the term changes nothing in the model.

        Raises KeyError if `load` must be called first: if the adapter is not loaded, if its files
        have changed since, or if no early exit was loaded yet. The first early exit runs the model,
        which a caller's thread should not do. Raises RequestError as `load` does.
        """
        if (layer := _exit_layer(term)) is not None:
            if not self.runner.passes.exits_checked:
                raise KeyError(term)
            self.runner.passes.exits.check(layer)
        key = _changes_of(term)
        return None if key is None else self._kept(key, self._adapters[key])

    def load(self, term: Prompted | Likelihood) -> Adapter | None:
        """Load and return the term's adapter, or None if the term changes nothing in the model.

        Raises ModelError if the adapter cannot be read, or if this model has no early exits and the
        term has one. Raises RequestError for an early exit after a layer that does not exist.
        """
        if (layer := _exit_layer(term)) is not None:
            self.runner.passes.exits.check(layer)
        key = _changes_of(term)
        return None if key is None else self._adapter(key)

    def _adapter(self, key: _Key) -> Adapter | None:
        """Return an adapter, which is read if it is not in memory; None if it changes nothing."""
        adapter = self._adapters.get(key)
        if adapter is None:
            adapter = self._adapters[key] = self._read(key)
        return self._kept(key, adapter)

    def _read(self, key: _Key) -> Adapter:
        lora, vectors, positions = key
        if lora is not None and not vectors:
            return self.runner.passes.read_adapter(lora[0])
        base = None if lora is None else self._adapter((lora, (), "all"))
        parts = [(self._vector(file), strength) for file, strength in vectors]
        return self.runner.passes.steered(base, parts, positions)

    def _vector(self, file: _File) -> ControlVector:
        vector = self._vectors.get(file)
        if vector is None:
            vector = self._vectors[file] = self.runner.passes.read_vector(file[0])
        self._recent.use(vector, vector.nbytes, (id(self), "vector", file[0]))
        return vector

    def _kept(self, key: _Key, adapter: Adapter) -> Adapter | None:
        """Note that an adapter is used, and return it, or its LoRA if all strengths are 0."""
        lora, vectors, positions = key
        # An adapter takes the place of one that older versions of the same files made.
        names = lora and lora[0], tuple((file[0], strength) for file, strength in vectors)
        self._recent.use(adapter, adapter.nbytes, (id(self), names, positions))
        return adapter.base if vectors and not adapter.shifts else adapter

    def score(self, spans: Sequence[Span]) -> list[Answer | None]:
        """Return log-probabilities [count, vocab] of each span, in as few passes as possible.

        Spans of one lane share one row of a pass: they ask for the model and its early exits. For a
        likelihood, return [count, 1]. An answer is None while its text is still being read.
        """
        asked: dict[RequestLane, Span] = {}
        several = False
        for span in spans:
            question = self._unknown(span) if isinstance(span.term, Likelihood) else span
            # The question about the most positions also answers the other spans of its lane.
            before = asked.get(span.lane)
            if question is not None and (before is None or before.count < question.count):
                asked[span.lane] = question
            several = several or question is not span or before is not None or bool(span.lane.exits)
        found = self._ask([*asked.values()])
        for lane, answer in zip(asked, found, strict=True):
            if lane.cached is None:
                note_cached(lane, answer)
        scored = [*found]
        if several:
            answers = dict(zip(asked, found, strict=True))
            scored = [self._part(one, answers.get(one.lane), one.lane in asked) for one in spans]
        return scored if self._output_device is None else moved_to(scored, self._output_device)

    def _ask(self, questions: Sequence[Span]) -> Sequence[Answer | None]:
        """Return the answers of the runner, over the base model's tokens."""
        if self._base_tokens is None:
            return self.runner.ask(questions)
        read = self._base_tokens.read
        own = [replace(one, continuation=read(one.lane, one.continuation)) for one in questions]
        answers = self.runner.ask(own)
        self._base_tokens.convert(answers)
        return answers

    def _unknown(self, span: Span) -> Span | None:
        """Return the span of a likelihood's tokens that are not scored yet; None if all are."""
        count = self._histories.unknown(span.lane, span.continuation)
        return Span(span.term, span.lane, span.continuation[:-1], count) if count else None

    def _part(self, span: Span, answer: Answer | None, asked: bool) -> Answer | None:
        """Return the part of a lane's answer that a span asks for."""
        if answer is None and asked:
            return None
        if isinstance(span.term, Likelihood):
            return self._likelihood(span, answer)
        assert answer is not None
        return Answer(_rows(answer, span.term)[-span.count :], answer.passes)

    def _likelihood(self, span: Span, answer: Answer | None) -> Answer:
        """Return log-likelihoods [count, 1]. `answer` is None if all tokens were scored before."""
        passes = frozenset[int]()
        if answer is not None:
            rows = _rows(answer, span.term)
            logprobs = gather(rows)
            if self._base_tokens is not None:
                logprobs = self._base_tokens.said(logprobs)
            self._histories.take(span.lane, span.continuation, logprobs)
            passes = answer.passes
        likelihoods = self._histories.logprobs(span.lane, span.count)
        device = self._output_device or self.checkpoint.device
        return Answer(rows_of(likelihoods.to(device)), passes)

    def require_numbers(self, rows: Sequence[Row]) -> None:
        """Raise ModelError if a row is NaN, and drop all keys, values and states."""
        if has_nan(gather(rows)):
            # NaN keys would reach the next text that takes this lane.
            self.forget()
            raise ModelError(self.runner.passes.why_nan())

    def forget(self) -> None:
        """Drop all keys, values and states. The next question reads its text again."""
        self.runner.forget()

    def release(self, lane: RequestLane) -> None:
        """Release a lane. Its keys and values stay cached until another lane needs the room."""
        self.runner.release(lane)


def _changes(tensors: Iterable[Tensor]) -> int:
    """Return the number of in-place writes to the tensors, as far as torch counts them."""
    # Inference tensors have no version.
    return sum(tensor._version for tensor in tensors if not tensor.is_inference())


def _named(term: Term) -> str:
    return BARE if term == BARE_MODEL else str(term)[:80]


def _changes_of(term: Term) -> _Key | None:
    """Return the key of the term's adapter, or None if the term names neither LoRA nor vectors."""
    if isinstance(term, Likelihood):
        term = term.of
    if not isinstance(term, Prompted) or not (term.adapter or term.vectors):
        return None
    lora = None if term.adapter is None else (term.adapter, file_times(term.adapter))
    vectors = tuple(((name, file_times(name)), strength) for name, strength in term.vectors)
    return lora, vectors, term.positions if vectors else "all"


def _exit_layer(term: Term) -> int | None:
    if isinstance(term, Likelihood):
        term = term.of
    return term.exit_layer if isinstance(term, Prompted) else None


def _rows(answer: Answer, term: Term) -> Sequence[Row]:
    """Return the rows of the model, or of the term's early exit."""
    layer = _exit_layer(term)
    return answer.rows if layer is None else answer.exits[layer]
