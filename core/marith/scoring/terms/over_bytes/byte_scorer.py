"""The scorer of prompted language models in an engine over bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch

from marith.errors import ContextOverflow
from marith.formula.tree.terms import Likelihood, Prompted, Term
from marith.lru import WeightedLRU
from marith.request.prompt import Prompt
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.passes import Runner
from marith.scoring.passes.questions import Answer, Reading, RequestLane, Span
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import moved_to
from marith.scoring.terms.over_bytes.canonical import Canonical
from marith.scoring.terms.over_bytes.covers import CoveredText
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens
from marith.scoring.terms.prompted_scorer import PromptedLane, PromptedScorer
from marith.scoring.weights.checkpoint import Checkpoint
from marith.scoring.weights.lora_files import Adapter
from marith.tensor_rows import rows_of, vector

_RECENT = 64  # prompts


@dataclass(slots=True, eq=False, kw_only=True)
class _ByteLane(PromptedLane):
    """The lane of a model of tokens. It reads the firm tokens of the prompt, then a cover.

    `tail` has the last bytes of the prompt, which covers begin with. `before` has the last firm
    tokens that are text. `texts` has the covers for the model and for each early exit.
    `vocabulary` is the model's.
    """

    tail: bytes
    before: Sequence[int]
    vocabulary: Vocabulary
    texts: dict[Term, CoveredText] = field(default_factory=dict)
    passes: frozenset[int] = frozenset()

    @property
    def uncached(self) -> int:
        """The number of bytes in the part of the prompt that was not cached."""
        tokens = self.prompt[self.cached or 0 :]
        return len(self.vocabulary.spell(tokens).encode()) + len(self.tail)


class ByteScorer(PromptedScorer):
    """The scorer of the prompted terms of one checkpoint, over bytes.

    A question about bytes becomes questions about tokens: those of the covers of the bytes. All of
    them are read in one lane, because they differ in their last tokens only. A byte needs about one
    row of the model, and each call asks for one row of each text. If `canonical` is False, all
    token sequences count, whose number grows exponentially.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        runner: Runner,
        recent: WeightedLRU | None = None,
        answers: torch.device | None = None,
        canonical: bool = True,
    ) -> None:
        super().__init__(checkpoint, runner, recent)
        self._answers_on = answers or checkpoint.device
        self._sorted = SortedTokens(checkpoint.vocabulary)
        self._canonical = Canonical(checkpoint.vocabulary, self._sorted)
        self._compares = canonical
        self._special = checkpoint.vocabulary.special_ids | checkpoint.vocabulary.eos_ids
        self._cut = lru_cache(_RECENT)(self._cut_prompt)

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
        """The bytes and the end that the model has no token for; None if it has all."""
        return tuple(sorted(self._sorted.lacking)) or None

    def tokens_left(self, reading: Reading) -> int:
        """Return the number of bytes that surely fit the context: each token has at least one."""
        assert not isinstance(reading, str)
        firm, tail = self._cut(reading)
        return self.context_length - firm - len(tail)

    def open(
        self,
        terms: Sequence[Prompted | Likelihood],
        reading: Reading,
        salt: str | None,
        loaded: Adapter | None,
    ) -> RequestLane:
        """Return the lane of a request's text, which reads the firm tokens of the prompt."""
        assert not isinstance(reading, str)
        firm, tail = self._cut(reading)
        lane = super().open(terms, reading[:firm], salt, loaded)
        assert isinstance(lane, PromptedLane)
        first = max((i + 1 for i in range(firm) if reading[i] in self._special), default=0)
        return _ByteLane(
            lane.reading,
            lane.key,
            lane.adapter,
            lane.exits,
            text=lane.text,
            tail=tail,
            before=self._canonical.last(reading[first:firm]),
            vocabulary=self.vocabulary,
        )

    def lane_text(self, lane: RequestLane, more: int) -> LaneText:
        """Return the text of a lane with `more` bytes after the prompt, as `memory` counts it.

        A token for each byte is an upper bound.
        """
        assert isinstance(lane, _ByteLane)
        most = self.context_length - len(lane.prompt)
        return replace(lane.text, more=min(more + len(lane.tail), most))

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
        for question, answer in zip(questions, super().score(questions), strict=True):
            if answer is not None:
                lane, [row] = question.lane, answer.rows
                assert isinstance(lane, _ByteLane)
                lane.passes = lane.passes | answer.passes
                self._text(lane, question.term).receive(asked[lane], vector(row))
        return moved_to([self._answer(span) for span in spans], self._answers_on)

    def _wanted(self, span: Span) -> tuple[int, ...] | None:
        lane = span.lane
        assert isinstance(lane, _ByteLane)
        return self._text(lane, _model_of(span.term)).wanted(
            [*lane.tail, *span.continuation], span.count
        )

    def _answer(self, span: Span) -> Answer | None:
        """Return the answer to a span, or None if a cover is still to be read."""
        lane = span.lane
        assert isinstance(lane, _ByteLane)
        if self._wanted(span) is not None:
            return None
        text = self._text(lane, _model_of(span.term))
        if isinstance(span.term, Likelihood):
            values = torch.tensor(text.likelihoods(span.count, len(lane.tail)))[:, None]
        else:
            values = torch.stack(text.rows(span.count))
        passes, lane.passes = lane.passes, frozenset()
        return Answer(rows_of(values), passes, lane.cached or 0)

    def _text(self, lane: _ByteLane, term: Term) -> CoveredText:
        """Return the text of a lane, as the model or one of its early exits reads it."""
        text = lane.texts.get(term)
        if text is None:
            canonical = self._canonical if self._compares else None
            text = lane.texts[term] = CoveredText(self._sorted, canonical, lane.before)
        return text

    def _cut_prompt(self, prompt: tuple[int, ...]) -> tuple[int, bytes]:
        """Return how many tokens of a prompt are firm, and the bytes of the others.

        At least one token is firm, because a model reads no empty text.
        """
        firm = max(1, self._canonical.firm(prompt, self._special))
        return firm, self._sorted.bytes_of(prompt[firm:])


def _model_of(term: Term) -> Term:
    """Return the term whose distribution is asked: that of a likelihood, or the term itself."""
    return term.of if isinstance(term, Likelihood) else term
