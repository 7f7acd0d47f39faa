"""Prompted language models as a scorer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from marith.errors import ContextOverflow, ModelError, RequestError
from marith.formula.terms import Prompted, Term
from marith.scoring import adapters
from marith.scoring.adapters import Adapter
from marith.scoring.runner import CACHE_BYTES, Answer, Asked, ModelRunner
from marith.scoring.scorer import Prompt, Scored, Span
from marith.scoring.shelf import Checkpoint
from marith.scoring.templates import to_tokens
from marith.scoring.twin import changes, weights


class PromptedScorer:
    """Every prompted term of one checkpoint: one pass for one set of weights."""

    def __init__(self, checkpoint: Checkpoint, cache_bytes: int = CACHE_BYTES) -> None:
        self.checkpoint = checkpoint
        self.vocabulary = checkpoint.vocabulary
        self.context_length = checkpoint.context_length
        self._adapters: dict[str, Adapter] = {}
        self._weights = weights(checkpoint.model)  # once: the walk takes a large model 1 ms
        self._changes = changes(self._weights)
        self.runner = ModelRunner(
            checkpoint.model, self.vocabulary.size, self.context_length, cache_bytes
        )

    def read(self, term: Prompted, prompt: Prompt) -> tuple[int, ...]:
        """The prompt as tokens. Raises ContextOverflow where it leaves no room for one more.

        An adapter is read from its files when a term first names it; ModelError if it cannot be,
        or if the model's weights are no more what was loaded.
        """
        if changes(self._weights) != self._changes:
            raise ModelError(
                f"the weights of {self.checkpoint.name!r} were changed after they were loaded; "
                "load an engine anew"
            )
        if term.adapter is not None and term.adapter not in self._adapters:
            self._adapters[term.adapter] = adapters.read(term.adapter, self.checkpoint.model)
        tokens = to_tokens(term, prompt, self.vocabulary)
        if max(tokens) >= self.vocabulary.size:
            raise RequestError(f"the prompt has token {max(tokens)}, which the model does not know")
        if len(tokens) >= self.context_length:
            raise ContextOverflow(
                f"the prompt has {len(tokens)} tokens as {str(term)[:80]} reads it; "
                f"the context of {self.checkpoint.name!r} holds {self.context_length}"
            )
        return tuple(tokens)

    def count(self, term: Prompted, prompt: Prompt) -> int:
        """How many tokens the prompt has as the term reads it, whether they fit or not."""
        return len(to_tokens(term, prompt, self.vocabulary))

    def score(self, spans: Sequence[Span]) -> list[Scored | None]:
        """Log-probabilities [count, vocab] of each span, all spans in as few passes as possible."""
        asked = [
            Asked(
                span.lane,
                [*map(int, span.reading), *span.continuation],
                span.count,
                self._adapter_of(span.term),
            )
            for span in spans
        ]
        return [
            None if answer is None else _scored(answer, span)
            for answer, span in zip(self.runner.ask(asked), spans, strict=True)
        ]

    def _adapter_of(self, term: Term) -> Adapter | None:
        name = term.adapter if isinstance(term, Prompted) else None
        return None if name is None else self._adapters[name]

    def release(self, lane: Hashable) -> None:
        """The lane's keys and values stay until another needs the room."""
        self.runner.release(lane)


def _scored(answer: Answer, span: Span) -> Scored:
    """What is at hand counts up to the prompt's end: the continuation is no prompt."""
    cached = min(answer.cached, len(span.reading))
    return Scored(answer.logprobs, frozenset(answer.passes), cached)
