"""A text in the making: tokens that become final, told as text until something ends it."""

from __future__ import annotations

import math
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from marith.decoding.matching import Matcher
from marith.decoding.random_numbers import Draws, fresh_seed
from marith.decoding.speculation import NOTHING, Trial, Verdict
from marith.engine.answers import Answers
from marith.engine.completion import (
    Completion,
    FinishReason,
    StageStats,
    Stats,
    TermStats,
    TokenLogprob,
    Usage,
)
from marith.engine.job import Cost, lane_of
from marith.engine.likelihoods import Likelihoods
from marith.engine.plan import Plan
from marith.engine.positions import Block
from marith.engine.reader import Reader
from marith.engine.request import Request
from marith.engine.rewinding import Rewinding
from marith.engine.tail import Tail
from marith.engine.telling import Telling
from marith.engine.ticket import Ticket
from marith.engine.watching import Watch
from marith.errors import FormulaError, RequestError
from marith.formula.nodes import Formula
from marith.formula.terms import Term
from marith.scoring.ngram import NGramScorer, Proposal
from marith.scoring.scorer import Span

GUESSED = "guessed"  # the source of what a plan has proposed outright


class Generation:
    """A request while it runs. Its state belongs to the engine's thread.

    The ticket is held weakly: a caller who forgets it has given the request up. Raises
    RequestError for a grammar that cannot be followed.
    """

    def __init__(self, request: Request, reader: Reader, answers: Answers, ticket: Ticket) -> None:
        self.reader = reader
        self.done = False
        vocabulary = answers.vocabulary
        most = min(request.stop.max_tokens, reader.room)
        steered = None
        if not request.steered:
            steered = partial(answers.outside_calls, reader.opened)
        self.tail = Tail(reader.stages, most, vocabulary.eos_ids, reader.rooms, steered)
        self._draws = _draws(request)
        self.key = hash(reader.stages.formula)
        self.pause = self.rest = 0  # the pilot's: for how many rounds it does not look, in all, yet
        self._ticket = weakref.ref(ticket)
        self._sampling = replace(request.sampling, seed=None)  # what is sampled alike is equal
        self._lawless: set[int] = set()  # places where a grammar leaves the formula nothing
        self._matcher: Matcher | None = answers.matcher(request, reader.opened)
        self._likelihoods: Likelihoods | None = None
        if request.logprobs is not None:
            self._likelihoods = Likelihoods(request.logprobs, answers.lexicon)
        self._blocks: list[Block] = []
        self._told = Telling(request, vocabulary, most, reader.opened)
        self._rewinding: Rewinding | None = None
        if request.ban is not None:
            watch = Watch(request, vocabulary, most, reader.opened)
            self._rewinding = Rewinding(watch, vocabulary.eos_ids)
        self._passes = self._judged = 0
        self._calls: Counter[Term] = Counter()
        self._cached: dict[Term, int] = {}
        self._started = time.monotonic()

    @property
    def abandoned(self) -> bool:
        ticket = self._ticket()
        return ticket is None or ticket.ended

    def asks(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        if not self.reader.stages.adapts:
            self._guess()
        return self.tail.asks()

    @property
    def may_draft(self) -> bool:
        """Whether a new round begins, whose length is to be chosen; the prompt is read first."""
        return self.reader.stages.adapts and self.tail.idle and bool(self.tail.tokens)

    def guesses(self, most: int) -> Iterator[list[Proposal]]:
        """What each term that costs nothing takes for the next tokens."""
        for term in self.tail.guessers:
            scorer = self.reader.scorers[term]
            assert isinstance(scorer, NGramScorer)
            reading = self.reader.readings[term]
            span = Span(term, lane_of(self, term), reading, self.tail.tokens)
            yield scorer.guess(span, most)

    def spoken(
        self, terms: Iterable[Term], count: int, heard: Mapping[Term, Tensor]
    ) -> dict[Term, Tensor]:
        return self.tail.spoken(terms, count, heard)

    def hear(self, answers: Mapping[Term, Tensor], cost: Cost) -> None:
        self._passes += cost.passes
        self._calls.update(answers.keys())
        self._judged += cost.judged
        self._cached = {**cost.cached, **self._cached}  # of each term the first answer counts
        self.tail.hear(answers)

    def blocks(self) -> list[Block]:
        self._blocks = self.tail.blocks()
        return self._blocks

    def compose(self, logprobs: Tensor) -> Trial:
        places, stands = self.tail.places, self.tail.stands()
        guesses = [None if one is None else one.guess for one in stands]
        if self._likelihoods is not None:
            self._likelihoods.note(self._wholes, self._blocks, places, logprobs)
        return Trial(
            logprobs,
            self._sampling,
            self.tail.tokens,
            places,
            [NOTHING if one is None else one.token for one in stands],
            guesses,
            self._draws,
            self._allowed(places, logprobs),
        )

    @property
    def _wholes(self) -> tuple[Formula | None, ...]:
        """What speaks of a place once every term has spoken."""
        return self.reader.stages.whole, self.reader.stages.aside

    def _allowed(self, places: Sequence[int], logprobs: Tensor) -> Tensor | None:
        """What may stand at these places, by grammar and ban; None for any token."""
        allowed = self._grammatical(places)
        if self._rewinding is None:
            return None if allowed is None else self._lawful(allowed, places, logprobs)
        whole = [part in self._wholes for part in self.tail.parts]
        return self._rewinding.allow(logprobs, allowed, places, whole)

    def _lawful(self, allowed: Tensor, places: Sequence[int], logprobs: Tensor) -> Tensor:
        """Where nothing is left, anything: such a token is an error once it stands for good."""
        may = (logprobs > -math.inf) & allowed.to(logprobs.device)
        left = may.any(dim=-1, keepdim=True)
        told = left[:, 0].tolist()
        self._lawless = {place for place, some in zip(places, told, strict=True) if not some}
        return may | ~left

    def _grammatical(self, places: Sequence[int]) -> Tensor | None:
        """What a grammar lets stand at these places. Raises RequestError where that cannot be."""
        if self._matcher is None:
            return None
        allowed = self._matcher.allowed(self.tail.tokens, places)
        if self._matcher.reached < self.tail.final:  # a final token was let stand
            raise RequestError(self._matcher.refusal)
        return allowed

    def settle(self, verdict: Verdict) -> None:
        self._draws = self._draws.after_trial()
        final = self.tail.final
        for place, token in enumerate(self.tail.settle(verdict), final):
            if self.done:
                break
            if place in self._lawless:
                raise FormulaError(
                    "the formula gives no probability to any token that the grammar allows here: a "
                    "cut in it, such as plausible or top_k, leaves too few; cut by Sampling instead"
                )
            if not self._take(place, token):
                break

    def fail(self, error: BaseException) -> None:
        self.done = True
        if ticket := self._ticket():
            ticket.end(error)

    def orphan(self, error: BaseException) -> None:
        if ticket := self._ticket():
            ticket.orphan(error)

    def _guess(self) -> None:
        """Propose what costs nothing, by the first who has something to propose."""
        while most := self.tail.room_to_guess():
            guessed: list[Proposal] = next(filter(None, self.guesses(most)), [])
            self.tail.propose([guess.token for guess in guessed], [GUESSED] * len(guessed))

    def _take(self, place: int, token: int) -> bool:
        """One token more of the text; whether the text goes on from it."""
        known = None if self._likelihoods is None else self._likelihoods.of(place, token)
        if self._rewinding is None:
            self._tell(token, known)
            return True
        back = self._rewinding.take(token, known)
        if back is not None:
            self._draws = self._draws.after_rewind()
            self.tail.rewind(back)
        for made in self._rewinding.release():
            self._tell(*made)
        return back is None

    def _tell(self, token: int, logprob: TokenLogprob | None) -> None:
        """One token more of what the caller gets."""
        chunk = self._told.take(token, logprob)
        if chunk is None:
            return
        self.done = chunk.finish_reason is not None
        if ticket := self._ticket():
            ticket.put(chunk)
            if chunk.finish_reason is not None:
                ticket.end(self._completion(chunk.finish_reason))

    def _completion(self, reason: FinishReason) -> Completion:
        told, reader = self._told, self.reader
        prompt, made = reader.prompt_tokens, len(told.tokens)
        own = [count for term, count in self._cached.items() if term in reader.stages.terms]
        cached = min([*own, prompt]) if own else 0
        return Completion(
            "".join(told.said),
            told.tokens,
            reason,
            Usage(prompt, made, cached, told.reasoning_tokens),
            self._stats(made),
            "".join(told.reasoning),
            tuple(told.reader.calls),
            None if told.logprobs is None else tuple(told.logprobs),
            told.gate.found,
        )

    def _stats(self, made: int) -> Stats:
        stages = tuple(
            StageStats(str(part), one.evaluated, one.stood, one.overlap / one.evaluated)
            for part, one in self.tail.checks.items()
        )
        terms = {
            str(term): TermStats(len(reading), self._cached.get(term, 0), self._calls[term])
            for term, reading in self.reader.readings.items()
            if self._calls[term]
        }
        return Stats(
            tokens=made,
            passes=self._passes,
            calls=self._calls.total(),
            seconds=time.monotonic() - self._started,
            drafted=self.tail.drafted,
            accepted=self.tail.accepted,
            judgements=self._judged,
            cached=sum(self._cached.values()),
            stages=stages,
            terms=terms,
            rewinds=0 if self._rewinding is None else self._rewinding.count,
        )


def _draws(request: Request) -> Draws:
    """By place, so that a text is the seed's, whatever is drafted; a plan always drafts alike."""
    seed = request.sampling.seed
    if seed is None:
        return Draws(fresh_seed(), by_place=False)
    return Draws(seed, by_place=not isinstance(request.speculation, Plan))
