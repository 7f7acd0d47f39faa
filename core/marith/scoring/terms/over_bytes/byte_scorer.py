"""The scorer of prompted language models in an engine over bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import torch

from marith.errors import ContextOverflow
from marith.formula.tree.terms import Likelihood, Prompted, Term
from marith.lru import WeightedLRU
from marith.request.prompt import Prompt
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.passes import Runner
from marith.scoring.passes.questions import Answer, Reading, RequestLane, Span
from marith.scoring.scorer import moved_to
from marith.scoring.terms.over_bytes.canonical_tokens import CanonicalTokens
from marith.scoring.terms.over_bytes.covers import CoveredText
from marith.scoring.terms.over_bytes.firm_prompt import FirmPrompt, PromptSplitter
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens
from marith.scoring.terms.prompted_scorer import PromptedScorer
from marith.scoring.weights.checkpoint import Checkpoint
from marith.scoring.weights.lora_files import Adapter
from marith.tensor_rows import rows_of, vector


@dataclass(slots=True)
class _LaneBytes:
    """The bytes of a lane: the prompt's, and the covered text for the model and each early exit.

    `passes` are the passes since the last answer.
    """

    prompt: FirmPrompt
    covered: dict[Term, CoveredText] = field(default_factory=dict)
    passes: frozenset[int] = frozenset()


class ByteScorer(PromptedScorer):
    """The scorer of the prompted terms of one checkpoint, over bytes.

    A question about bytes becomes questions about tokens: those of the covers of the bytes. All of
    them are read in one lane, because they differ in their last tokens only. A byte needs about one
    row of the model, and each call asks for one row of each text.

    Keeps state: the covered text of each lane, as long as the lane exists.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        runner: Runner,
        recent: WeightedLRU | None = None,
        answers: torch.device | None = None,
    ) -> None:
        super().__init__(checkpoint, runner, recent)
        self._answers_on = answers or checkpoint.device
        self._sorted = SortedTokens(checkpoint.vocabulary)
        self._canonical = CanonicalTokens(checkpoint.vocabulary, self._sorted)
        self._splitter = PromptSplitter(checkpoint.vocabulary, self._sorted, self._canonical)
        self._lanes: WeakKeyDictionary[RequestLane, _LaneBytes] = WeakKeyDictionary()

    def read(self, term: Prompted | Likelihood, prompt: Prompt) -> tuple[int, ...]:
        """Return the prompt as tokens of the model. Raises as `PromptedScorer.read` does."""
        if prompt.tokens and isinstance(term, Prompted) and term.template != "chat":
            # The prompt is bytes. Each model reads their text by its own tokens.
            term, prompt = replace(term, template="plain"), replace(prompt, tokens=())
        tokens = super().read(term, prompt)
        if self.tokens_left(tokens) < 1:
            raise ContextOverflow(
                f"the prompt has {len(tokens)} tokens, and its last word may be read byte by byte; "
                f"the context of {self.checkpoint.name!r} holds {self.context_length} tokens"
            )
        return tokens

    @property
    def lacking(self) -> tuple[int, ...] | None:
        """The bytes that no token of the model has, and the end if it has none; None for none."""
        return tuple(sorted(self._sorted.lacking)) or None

    def tokens_left(self, reading: Reading) -> int:
        """Return the number of bytes that surely fit the context: each token has at least one."""
        assert not isinstance(reading, str)
        prompt = self._splitter.split(reading)
        return self.context_length - len(prompt.tokens) - len(prompt.tail)

    def open(
        self,
        terms: Sequence[Prompted | Likelihood],
        reading: Reading,
        salt: str | None,
        loaded: Adapter | None,
    ) -> RequestLane:
        """Return the lane of a request's text, which reads the firm tokens of the prompt."""
        assert not isinstance(reading, str)
        prompt = self._splitter.split(reading)
        lane = super().open(terms, prompt.tokens, salt, loaded)
        self._lanes[lane] = _LaneBytes(prompt)
        return lane

    def lane_text(self, lane: RequestLane, more: int) -> LaneText:
        """Return the text of a lane with `more` bytes after the prompt, as `memory` counts it.

        A token for each byte is an upper bound.
        """
        most = self.context_length - len(lane.prompt)
        tail = self._lanes[lane].prompt.tail
        return replace(super().lane_text(lane, 0), more=min(more + len(tail), most))

    def prompt_text(self, lane: RequestLane) -> str:
        """Return the text of the prompt as the term reads it, with special tokens by name."""
        return super().prompt_text(lane) + self._lanes[lane].prompt.tail.decode(errors="replace")

    def uncached(self, lane: RequestLane) -> int:
        """Return the number of bytes in the part of the prompt that was not cached."""
        tokens = lane.prompt[lane.cached or 0 :]
        return len(self.vocabulary.spell(tokens).encode()) + len(self._lanes[lane].prompt.tail)

    def score(self, spans: Sequence[Span]) -> list[Answer | None]:
        """Return log-probabilities [count, 257] of each span.

        For a likelihood, return [count, 1]. An answer is None while its text is still being read.
        """
        asked: dict[RequestLane, tuple[int, ...]] = {}
        questions: list[Span] = []
        for span in spans:
            tokens = self._wanted(span)
            # A lane reads one cover at a time. Its other terms mostly want the same cover.
            if tokens is not None and asked.setdefault(span.lane, tokens) == tokens:
                questions.append(Span(_model_of(span.term), span.lane, tokens))
        answers = super().score(questions) if questions else []
        for question, answer in zip(questions, answers, strict=True):
            if answer is not None:
                lane = question.lane
                self._lanes[lane].passes |= answer.passes
                [row] = answer.rows
                self._covered(lane, question.term).receive(asked[lane], vector(row))
        found = [self._answer(span) if self._wanted(span) is None else None for span in spans]
        return moved_to(found, self._answers_on)

    def forget(self) -> None:
        """Drop all keys, values and states, and the covered texts, which may have NaN."""
        super().forget()
        # Another thread may open a lane meanwhile, so the lanes are listed at once.
        for reference in self._lanes.keyrefs():
            if (lane := reference()) is not None:
                self._lanes[lane].covered.clear()

    def _wanted(self, span: Span) -> tuple[int, ...] | None:
        """Return the tokens of a cover after which the model is asked, or None if all are known."""
        data = [*self._lanes[span.lane].prompt.tail, *span.continuation]
        return self._covered(span.lane, _model_of(span.term)).wanted(data, span.count)

    def _answer(self, span: Span) -> Answer:
        lane, text = self._lanes[span.lane], self._covered(span.lane, _model_of(span.term))
        if isinstance(span.term, Likelihood):
            values = torch.tensor(text.likelihoods(span.count, len(lane.prompt.tail)))[:, None]
        else:
            values = torch.stack(text.rows(span.count))
        passes, lane.passes = lane.passes, frozenset()
        return Answer(rows_of(values), passes, span.lane.cached or 0)

    def _covered(self, lane: RequestLane, term: Term) -> CoveredText:
        """Return the text of a lane, as the model or one of its early exits reads it."""
        known = self._lanes[lane]
        text = known.covered.get(term)
        if text is None:
            new = CoveredText(self._sorted, self._canonical, known.prompt.before)
            text = known.covered[term] = new
        return text


def _model_of(term: Term) -> Term:
    """Return the term inside a likelihood, or any other term itself."""
    return term.of if isinstance(term, Likelihood) else term
