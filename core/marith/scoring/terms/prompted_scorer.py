"""Prompted language models as scorers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeAlias
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from marith.errors import ContextOverflow, ModelError, RequestError
from marith.formula.meaning.binding import BARE, BARE_MODEL
from marith.formula.tree.terms import Likelihood, Prompted, Term
from marith.recent import Recent
from marith.request.limits import LOADED_BYTES
from marith.request.prompt import Prompt
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.lora import Adapter
from marith.scoring.passes.passes import Answer, Asked, Runner
from marith.scoring.prompting.templates import require_text, to_tokens
from marith.scoring.scorer import Demand, Reading, Scored, Span, moved_to
from marith.scoring.terms.text_likelihood import Histories
from marith.scoring.weights.checkpoint import Checkpoint
from marith.scoring.weights.locate import FileTimes, file_times
from marith.tensor_rows import Row, gather

_Key: TypeAlias = "tuple[str, FileTimes]"  # an adapter's name, and when its files were written


class PromptedScorer:
    """Scores the prompted terms of one checkpoint: one pass for one set of weights."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        runner: Runner,
        recent: Recent | None = None,
        answers: torch.device | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.runner = runner
        self.vocabulary = checkpoint.vocabulary
        self.context_length = checkpoint.context_length
        self._output_device = answers  # if it is not the computing device
        self._recent = recent or Recent(LOADED_BYTES)
        self._adapters: WeakValueDictionary[_Key, Adapter] = WeakValueDictionary()
        self._histories = Histories()
        self._weights = checkpoint.weights  # 1 ms for a large model, so only once
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
        if max(tokens) >= self.vocabulary.size:
            raise RequestError(
                f"the prompt has token {max(tokens)}, which is not in the vocabulary"
            )
        if len(tokens) >= self.context_length:
            raise ContextOverflow(
                f"the prompt has {len(tokens)} tokens or more as {_named(term)} reads it; "
                f"the context of {self.checkpoint.name!r} holds {self.context_length}"
            )
        return tuple(tokens)

    @property
    def tokens_read(self) -> int:
        """The number of tokens that the model has read in all passes."""
        return self.runner.passes.tokens_read

    def tokens_left(self, reading: Reading) -> int:
        """Return the number of tokens that the context holds after a prompt."""
        return self.context_length - len(reading)

    def lane_text(self, demand: Demand) -> LaneText:
        """Return the text of a lane as `memory` counts it."""
        reading = demand.reading
        assert not isinstance(reading, str)
        more = min(demand.more, self.tokens_left(reading))
        return LaneText((_adapter(demand.term), demand.salt), reading, more)

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return the most bytes of keys, values and states that these texts take together."""
        return self.runner.memory(texts)

    def loaded_adapter(self, term: Term) -> Adapter | None:
        """Return the term's adapter, or None if the term names no adapter.

        Raises KeyError if the adapter is not loaded, or if its files were written again since.
        Raises KeyError for the first term with an early exit too: the model must be tried first,
        which a caller's thread should not do. Raises RequestError as `loaded` does.
        """
        if (layer := _exit_layer(term)) is not None:
            if not self.runner.passes.exits_checked:
                raise KeyError(term)
            self.runner.passes.exits.check(layer)
        name = _adapter(term)
        return None if name is None else self._kept(name, self._adapters[name, file_times(name)])

    def loaded(self, term: Prompted | Likelihood) -> Adapter | None:
        """Load and return the term's adapter, or None if the term names no adapter.

        Raises ModelError if the adapter cannot be read, or if this model has no early exits and the
        term has one. Raises RequestError for an early exit after a layer that does not exist.
        """
        if (layer := _exit_layer(term)) is not None:
            self.runner.passes.exits.check(layer)
        name = _adapter(term)
        if name is None:
            return None
        key = name, file_times(name)
        adapter = self._adapters.get(key)
        if adapter is None:
            adapter = self._adapters[key] = self.runner.passes.read_adapter(name)
        return self._kept(name, adapter)

    def _kept(self, name: str, adapter: Adapter) -> Adapter:
        self._recent.use(adapter, adapter.nbytes, (id(self), name))
        return adapter

    def count(self, term: Prompted, prompt: Prompt) -> int:
        """Return the number of tokens of the prompt as the term reads it, even if too many."""
        return len(to_tokens(term, prompt, self.vocabulary))

    def score(self, spans: Sequence[Span]) -> list[Scored | None]:
        """Return log-probabilities [count, vocab] of each span, in as few passes as possible.

        Spans of one lane, which are the model and its early exits, share one row of a pass. A
        likelihood is [count, 1]. An answer is None while its text is still being read.
        """
        asked: dict[Hashable, Asked] = {}
        for span in spans:
            if (question := self._question(span)) is not None:
                before = asked.get(span.lane)
                asked[span.lane] = question if before is None else before.merged_with(question)
        answers = dict(zip(asked, self.runner.ask([*asked.values()]), strict=True))
        scored = [self._scored(span, answers.get(span.lane), span.lane in asked) for span in spans]
        return scored if self._output_device is None else moved_to(scored, self._output_device)

    def _question(self, span: Span) -> Asked | None:
        """Return the question of a span to the runner; None if its likelihood is known already."""
        reading, continuation, count = span.reading, span.continuation, span.count
        assert not isinstance(reading, str), "a language model reads tokens"
        term = span.term
        if isinstance(term, Likelihood):
            count = self._histories.unknown(span.lane, continuation)
            if not count:
                return None
            term, continuation = term.of, continuation[:-1]
        assert isinstance(term, Prompted)
        adapter = None
        if term.adapter is not None:
            adapter = span.loaded if isinstance(span.loaded, Adapter) else self.loaded(term)
        exits = () if term.exit_layer is None else (term.exit_layer,)
        return Asked(span.lane, reading, count, adapter, exits, continuation, salt=span.salt)

    def _scored(self, span: Span, answer: Answer | None, asked: bool) -> Scored | None:
        """Return a span's rows. `cached` counts tokens of the prompt, not of the continuation."""
        if answer is None and asked:
            return None
        if isinstance(span.term, Likelihood):
            return self._likelihood(span, span.term, answer)
        assert answer is not None
        assert isinstance(span.term, Prompted)
        rows = _rows(answer, span.term)[-span.count :]
        return Scored(rows, answer.passes, min(answer.cached, len(span.reading)))

    def _likelihood(self, span: Span, term: Likelihood, answer: Answer | None) -> Scored:
        """Return log-likelihoods [count, 1]. Without an answer, all of them are known."""
        passes, cached = frozenset[int](), len(span.reading)
        if answer is not None:
            assert isinstance(term.of, Prompted)
            logprobs = gather(_rows(answer, term.of))
            self._histories.take(span.lane, span.continuation, logprobs)
            passes, cached = answer.passes, min(answer.cached, cached)
        logprobs = self._histories.logprobs(span.lane, span.count)
        device = self._output_device or self.checkpoint.device
        return Scored.of(logprobs.to(device), passes, cached)

    def release(self, lane: Hashable) -> None:
        """Release a lane. Its keys and values stay cached until another lane needs the room."""
        self._histories.release(lane)
        self.runner.release(lane)


def _changes(tensors: Iterable[Tensor]) -> int:
    """Return the number of in-place writes to the tensors, as far as torch counts them."""
    return sum(tensor._version for tensor in tensors if not tensor.is_inference())


def _named(term: Term) -> str:
    return BARE if term == BARE_MODEL else str(term)[:80]


def _adapter(term: Term) -> str | None:
    if isinstance(term, Likelihood):
        term = term.of
    return term.adapter if isinstance(term, Prompted) else None


def _exit_layer(term: Term) -> int | None:
    if isinstance(term, Likelihood):
        term = term.of
    return term.exit_layer if isinstance(term, Prompted) else None


def _rows(answer: Answer, term: Prompted) -> Sequence[Row]:
    """Return the rows of the model, or of the term's early exit."""
    return answer.rows if term.exit_layer is None else answer.exits[term.exit_layer]
