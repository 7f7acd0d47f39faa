"""A text in the making: tokens that become final, told as text until something ends it."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from marith.decoding.sampling import chance, generator
from marith.decoding.speculation import NOTHING, Trial, Verdict
from marith.decoding.stopping import TextGate
from marith.engine.job import Cost, lane_of
from marith.engine.positions import Block
from marith.engine.request import Reader, Request
from marith.engine.tail import Tail
from marith.engine.ticket import Chunk, Completion, FinishReason, StageStats, Stats, Ticket, Usage
from marith.formula.terms import Term
from marith.scoring.ngram import NGramScorer, Proposal
from marith.scoring.scorer import Span
from marith.scoring.vocabulary import TextStream, Vocabulary

GUESSED = "guessed"  # the source of what a plan has proposed outright


class Generation:
    """A request while it runs. Its state belongs to the engine's thread.

    The ticket is held weakly: a caller who forgets it has given the request up.
    """

    def __init__(
        self, request: Request, reader: Reader, vocabulary: Vocabulary, ticket: Ticket
    ) -> None:
        self.reader = reader
        self.done = False
        most = min(request.stop.max_tokens, reader.room)
        self.tail = Tail(reader.stages, most, vocabulary.eos_ids, reader.rooms)
        self.chances = Chances(request)
        self.key = hash(reader.stages.formula)
        self.pause = self.rest = 0  # the pilot's: for how many rounds it does not look, in all, yet
        self._ticket = weakref.ref(ticket)
        self._sampling = replace(request.sampling, seed=None)  # what is sampled alike is equal
        self._numbers: Tensor | None = None
        self._most = most
        self._ends = vocabulary.eos_ids
        self._stream = TextStream(vocabulary)
        self._gate = TextGate(request.stop.strings)
        self._tokens: list[int] = []
        self._text: list[str] = []
        self._untold: list[int] = []
        self._passes = self._calls = self._judged = 0
        self._cached: dict[Term, int] = {}
        self.started = time.monotonic()
        self.timeout = math.inf if request.timeout is None else request.timeout

    @property
    def abandoned(self) -> bool:
        ticket = self._ticket()
        return ticket is None or ticket.cancelled

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
        self._calls += cost.calls
        self._judged += cost.judged
        self._cached = {**cost.cached, **self._cached}  # of each term the first answer counts
        self.tail.hear(answers)

    def blocks(self) -> list[Block]:
        return self.tail.blocks()

    def compose(self, logprobs: Tensor) -> Trial:
        places, stands = self.tail.places, self.tail.stands()
        guesses = [None if one is None else one.guess for one in stands]
        if self._numbers is None:  # kept until they are used: a trial may have to be repeated
            self._numbers = self.chances.at(places, guesses)
        return Trial(
            logprobs,
            self._sampling,
            self.tail.tokens,
            places,
            [NOTHING if one is None else one.token for one in stands],
            guesses,
            self._numbers,
        )

    def settle(self, verdict: Verdict) -> None:
        self._numbers = None
        for token in self.tail.settle(verdict):
            if not self.done:
                self._take(token)

    def fail(self, error: BaseException) -> None:
        self.done = True
        if ticket := self._ticket():
            ticket.end(error)

    def _guess(self) -> None:
        """Propose what costs nothing, by the first who has something to propose."""
        while most := self.tail.room_to_guess():
            guessed: list[Proposal] = next(filter(None, self.guesses(most)), [])
            self.tail.propose([guess.token for guess in guessed], [GUESSED] * len(guessed))

    def _take(self, token: int) -> None:
        """One token more of the text."""
        if token in self._ends:
            self._tell(self._gate.feed(self._stream.flush()) + self._gate.flush(), "stop")
            return
        self._tokens.append(token)
        self._untold.append(token)
        text = self._gate.feed(self._stream.feed(token))
        if self._gate.closed:
            self._tell(text, "stop")
        elif len(self._tokens) >= self._most:
            rest = self._gate.feed(self._stream.flush())
            reason: FinishReason = "stop" if self._gate.closed else "length"
            self._tell(text + rest + self._gate.flush(), reason)
        elif text:
            self._tell(text, None)

    def _tell(self, text: str, reason: FinishReason | None) -> None:
        self._text.append(text)
        self.done = reason is not None
        ticket = self._ticket()
        if ticket is None:
            return
        ticket.put(Chunk(text, tuple(self._untold), reason))
        self._untold = []
        if reason is not None:
            ticket.end(self._completion(reason))

    def _completion(self, reason: FinishReason) -> Completion:
        prompt, made = self.reader.prompt_tokens, len(self._tokens)
        own = [count for term, count in self._cached.items() if term in self.reader.stages.terms]
        usage = Usage(prompt, made, min([*own, prompt]) if own else 0)
        stages = tuple(
            StageStats(str(part), one.evaluated, one.stood, one.overlap / one.evaluated)
            for part, one in self.tail.checks.items()
        )
        stats = Stats(
            tokens=made,
            passes=self._passes,
            calls=self._calls,
            seconds=time.monotonic() - self.started,
            drafted=self.tail.drafted,
            accepted=self.tail.accepted,
            judgements=self._judged,
            cached=sum(self._cached.values()),
            stages=stages,
        )
        return Completion("".join(self._text), self._tokens, reason, usage, stats)


class Chances:
    """A request's numbers from [0, 1): for each position two, to keep what stands and to draw.

    With a seed and lengths that adapt, each position has one number of its own, and what stands
    is kept exactly if that number would draw it: so the text is the seed's, whatever was drafted
    and however long the drafts were. Otherwise every trial has numbers that no other had, and
    more is kept.
    """

    def __init__(self, request: Request) -> None:
        self._source = generator(request.sampling)
        self._known: list[float] = []
        self.by_place = request.sampling.seed is not None and request.speculation == "auto"

    def at(self, places: Sequence[int], guesses: Sequence[Tensor | None]) -> Tensor:
        """Numbers [positions, 2] for these positions; only a guess may be kept by chance."""
        if not self.by_place:
            pairs = [
                (self._chance() if guess is not None else 0.0, self._chance()) for guess in guesses
            ]
            return torch.tensor(pairs, dtype=torch.float64)
        while len(self._known) <= places[-1]:
            self._known.append(self._chance())
        pairs = [(math.nan, self._known[place]) for place in places]
        return torch.tensor(pairs, dtype=torch.float64)

    def _chance(self) -> float:
        return chance(self._source)
