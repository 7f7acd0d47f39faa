"""A text in the making: tokens that become final, told as text until something ends it."""

from __future__ import annotations

import math
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from marith.answers.answer_grammar import Answers
from marith.answers.backtracking import Rewinding
from marith.answers.ban_detector import Watch
from marith.answers.logprobs import Likelihoods
from marith.answers.output import Telling
from marith.decoding import cuts
from marith.decoding.constraints.constraint import Constraint
from marith.decoding.constraints.matcher import Matcher
from marith.decoding.constraints.repetition import RepetitionPenalty
from marith.decoding.random_numbers import Draws, fresh_seed
from marith.engine.costs import Costs
from marith.engine.drafts import Drafts
from marith.engine.prepare import Prepared
from marith.engine.ticket import Ticket
from marith.errors import FormulaError, RequestError
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.request.completion import Completion, FinishReason, TokenLogprob, Usage
from marith.request.plan import Plan
from marith.request.request import Request
from marith.scoring.scorer import Scored
from marith.speculation.plain_window import window_of
from marith.speculation.verify import NOTHING, Check, Verdict
from marith.speculation.window import Block, DraftWindow
from marith.tensor_rows import Row, gather, rows_of


class Generation:
    """A request while it runs. Its state belongs to the engine's thread.

    The ticket is held weakly: a caller who forgets it has given the request up. Raises
    RequestError for a grammar that cannot be followed.
    """

    def __init__(
        self, request: Request, reader: Prepared, answers: Answers, ticket: Ticket
    ) -> None:
        self.reader = reader
        self.done = False
        vocabulary = answers.vocabulary
        most = min(request.stop.max_tokens, reader.room)
        steered = None
        if not request.steered:
            steered = partial(answers.outside_calls, reader.opened)
        self.window = window_of(reader.plan, most, vocabulary.eos_ids, reader.rooms, steered)
        self.drafts: Drafts | None = None
        if isinstance(self.window, DraftWindow):
            self.drafts = Drafts(self.window, reader)
        self._draws = _draws(request)
        self._ticket = weakref.ref(ticket)
        penalty = request.sampling.repetition_penalty
        self._sampling = replace(request.sampling, seed=None, repetition_penalty=1.0)
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
        self._constraints: list[Constraint] = []
        if self._matcher is not None or self._rewinding is not None:
            self._constraints.append(self)
        if penalty != 1.0:
            self._constraints.append(RepetitionPenalty(penalty))
        self._costs = Costs(reader)

    @property
    def abandoned(self) -> bool:
        ticket = self._ticket()
        return ticket is None or ticket.ended

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        if self.drafts is not None:
            self.drafts.propose()
        return self.window.wanted()

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Scored]
    ) -> Mapping[Term, Sequence[Row]]:
        received = {term: scored.rows for term, scored in answers.items()}
        return self.window.rows(terms, count, received)

    def receive(self, answers: Mapping[Term, Scored]) -> Sequence[Block]:
        self._costs.add(answers)
        self.window.receive({term: scored.rows for term, scored in answers.items()})
        self._blocks = self.window.blocks()
        return self._blocks

    def check(self, rows: Sequence[Row]) -> Check:
        window = self.window
        places, standing = window.places, window.standing()
        if self._likelihoods is not None:
            self._likelihoods.note(self._wholes, self._blocks, places, rows)
        if self._constraints:
            rows = self._constrained(gather(rows), places)
        tokens = [NOTHING if one is None else one.token for one in standing]
        drafts = [None if one is None else one.draft for one in standing]
        return Check(rows, self._sampling, places, tokens, drafts, self._draws)

    def _constrained(self, logprobs: Tensor, places: Sequence[int]) -> list[Row]:
        """The composed rows, as every constraint leaves them."""
        for constraint in self._constraints:
            logprobs = constraint.apply(logprobs, self.window.tokens, places)
        return rows_of(logprobs)

    @property
    def _wholes(self) -> tuple[Formula | None, ...]:
        """What speaks of a place once every term has spoken."""
        return self.reader.plan.whole, self.reader.plan.aside

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """The rows under the request's grammar and ban."""
        allowed = self._grammatical(places)
        if self._rewinding is not None:
            whole = [formula in self._wholes for formula in self.window.formulas]
            allowed = self._rewinding.allow(rows, allowed, places, whole)
        elif allowed is not None:
            allowed = self._lawful(allowed, places, rows)
        return rows if allowed is None else cuts.keep(rows, allowed.to(rows.device))

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
        allowed = self._matcher.allowed(self.window.tokens, places)
        if self._matcher.reached < self.window.final:  # a final token was let stand
            raise RequestError(self._matcher.refusal)
        return allowed

    def accept(self, verdict: Verdict) -> None:
        self._draws = self._draws.after_trial()
        final = self.window.final
        for place, token in enumerate(self.window.accept(verdict), final):
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

    def _take(self, place: int, token: int) -> bool:
        """One token more of the text; whether the text goes on from it."""
        known = None if self._likelihoods is None else self._likelihoods.of(place, token)
        if self._rewinding is None:
            self._tell(token, known)
            return True
        back = self._rewinding.take(token, known)
        if back is not None:
            self._draws = self._draws.after_rewind()
            self.window.rewind(back)
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
        rewinds = 0 if self._rewinding is None else self._rewinding.count
        return Completion(
            "".join(told.said),
            told.tokens,
            reason,
            Usage(prompt, made, self._costs.cached_prompt(), told.reasoning_tokens),
            self._costs.stats(self.window, made, rewinds),
            "".join(told.reasoning),
            tuple(told.reader.calls),
            None if told.logprobs is None else tuple(told.logprobs),
            told.gate.found,
        )


def _draws(request: Request) -> Draws:
    """By place, so that a text is the seed's, whatever is drafted; a plan always drafts alike."""
    seed = request.sampling.seed
    if seed is None:
        return Draws(fresh_seed(), by_place=False)
    return Draws(seed, by_place=not isinstance(request.speculation, Plan))
