"""The scorer of prompted language models in an engine over bytes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import torch

from marith.errors import ContextOverflow
from marith.formula.tree.terms import Likelihood, Prompted, Term
from marith.lru import WeightedLRU
from marith.request.prompt import Prompt
from marith.scoring.lane_text import BLOCK, LaneText
from marith.scoring.passes.cached_runner import CachedRunner
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
from marith.tensor_rows import has_nan, rows_of, vector

# A call reads at most `AHEAD` later covers of a text, and only while it reads at most `ROWS` covers
# in all. Passes with more rows take longer, and several texts fill a pass without them.
AHEAD, ROWS = 4, 6


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

    A question about bytes becomes questions about tokens: those of the covers of the bytes. A byte
    needs about one row of the model. The covers that are likely to be needed next are read in the
    same pass, in lanes of their own.

    Keeps state: the covered text of each lane, as long as the lane exists. The state never changes
    an answer.
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
        # Other runners read text by text, or have a fixed number of lanes. A captured pass reads
        # one token of each text, and a cover that is read ahead mostly needs several.
        self._reads_ahead = isinstance(runner, CachedRunner) and runner.captured is None
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
        more += len(self._lanes[lane].prompt.tail)
        return replace(super().lane_text(lane, 0), more=min(more, self._room(lane)))

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of all these texts, and of covers read ahead."""
        if not texts or not self._reads_ahead:
            return super().memory(texts)
        # A lane that reads ahead shares the prompt with the lane of its text.
        longest = max(texts, key=lambda text: text.length - BLOCK * len(text.prefixes))
        return super().memory([*texts, *[longest] * AHEAD])

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
        questions = self._questions(spans)
        answers = self._read_covers(questions)
        for (lane, question), answer in zip(questions, answers, strict=True):
            if answer is None:
                continue
            self._lanes[lane].passes |= answer.passes
            if question.lane is not lane and has_nan(answer.logprobs):
                # No text may need this cover, so NaN is no error. Other texts would continue its
                # lane, so all lanes are dropped, and the model reads ahead no more.
                self._reads_ahead = False
                super().forget()
                continue
            text = self._covered(lane, question.term)
            text.receive(tuple(question.continuation), vector(*answer.rows))
        found = [self._answer(span) if self._wanted(span) is None else None for span in spans]
        return moved_to(found, self._answers_on)

    def forget(self) -> None:
        """Drop all keys, values and states, and the covered texts, which may have NaN."""
        super().forget()
        # Another thread may open a lane meanwhile, so the lanes are listed at once.
        for reference in self._lanes.keyrefs():
            if (lane := reference()) is not None:
                self._lanes[lane].covered.clear()

    def _questions(self, spans: Sequence[Span]) -> list[tuple[RequestLane, Span]]:
        """Return questions about the covers of the spans, each with the lane of its text.

        The cover that a text needs now is read in the lane of the text, and each later cover in a
        new lane. The terms of one lane mostly want the same covers. A term that needs another cover
        waits for the next call.
        """
        needed = [(one, tokens) for one in spans if (tokens := self._wanted(one)) is not None]
        texts = len({span.lane for span, _ in needed})
        lanes: dict[RequestLane, dict[tuple[int, ...], RequestLane]] = {}
        questions: list[tuple[RequestLane, Span]] = []
        for span, tokens in needed:
            later = self._later(span, min(AHEAD, ROWS // texts - 1))
            first = {tokens: span.lane} | {one: replace(span.lane) for one in later}
            lane_of = lanes.setdefault(span.lane, first)
            if tokens in lane_of:
                term = _model_of(span.term)
                own = (one for one in (tokens, *later) if one in lane_of)
                questions += [(span.lane, Span(term, lane_of[one], one)) for one in own]
        return questions

    def _read_covers(self, questions: list[tuple[RequestLane, Span]]) -> list[Answer | None]:
        """Return the answers of the model, and release the lanes that were opened for them.

        These lanes stay cached, and the next covers of the text continue them.
        """
        try:
            return super().score([question for _, question in questions]) if questions else []
        finally:
            for lane, question in questions:
                # The runner frees the lane first, so a later error does no harm.
                with suppress(BaseException):
                    if question.lane is not lane:
                        self.release(question.lane)

    def _later(self, span: Span, most: int) -> list[tuple[int, ...]]:
        """Return the tokens of at most `most` covers that are likely to be needed next."""
        # The first cover reads the prompt. Lanes that begin later share its keys and values.
        if most < 1 or not self._reads_ahead or span.lane.cached is None:
            return []
        text, room = self._covered(span.lane, _model_of(span.term)), self._room(span.lane)
        later = text.covers_ahead(self._data(span), most)
        return [tokens for tokens in later if len(tokens) <= room]

    def _room(self, lane: RequestLane) -> int:
        """Return the number of tokens that the context holds after the firm tokens of a prompt."""
        return self.context_length - len(lane.prompt)

    def _wanted(self, span: Span) -> tuple[int, ...] | None:
        """Return the tokens of a cover after which the model is asked, or None if all are known."""
        return self._covered(span.lane, _model_of(span.term)).wanted(self._data(span), span.count)

    def _data(self, span: Span) -> list[int]:
        """Return the bytes of a question, after those at the end of the prompt."""
        return [*self._lanes[span.lane].prompt.tail, *span.continuation]

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
