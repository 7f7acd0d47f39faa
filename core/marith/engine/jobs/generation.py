"""A text in the making: tokens that become final, returned as text until something ends it."""

from __future__ import annotations

import math
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from marith.answers.answer_grammar import AnswerGrammars
from marith.answers.backtracking import Backtracking
from marith.answers.logprobs import LogprobRecorder
from marith.answers.output import Output, completion
from marith.decoding import cuts
from marith.decoding.constraints.constraint import Constraint
from marith.decoding.constraints.matcher import Matcher
from marith.decoding.constraints.repetition import RepetitionPenalty
from marith.decoding.random_numbers import Draws, fresh_seed
from marith.engine.jobs.costs import Costs
from marith.engine.jobs.drafts import Drafts
from marith.engine.prepare import Prepared
from marith.engine.ticket import Ticket
from marith.errors import FormulaError, RequestError
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.request.completion import Chunk, Completion, Usage
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
        self, request: Request, reader: Prepared, answers: AnswerGrammars, ticket: Ticket
    ) -> None:
        self.reader = reader
        self._request = request
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
        self._logprobs: LogprobRecorder | None = None
        if request.logprobs is not None:
            self._logprobs = LogprobRecorder(request.logprobs, answers.lexicon)
        self._blocks: list[Block] = []
        self._chunks: list[Chunk] = []
        self._output = Output(request, vocabulary, most, reader.opened)
        self._backtracking: Backtracking | None = None
        if request.ban is not None:
            self._backtracking = Backtracking(self._output, vocabulary.eos_ids)
        self._constraints: list[Constraint] = []
        if self._matcher is not None or self._backtracking is not None:
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
        if self._logprobs is not None:
            self._logprobs.record(self._wholes, self._blocks, places, rows)
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
        if self._backtracking is not None:
            whole = [formula in self._wholes for formula in self.window.formulas]
            allowed = self._backtracking.allow(rows, allowed, places, whole)
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
        logprob = None if self._logprobs is None else self._logprobs.pop(place, token)
        if self._backtracking is None:
            if chunk := self._output.take(token, logprob):
                self._emit(chunk)
            return True
        back = self._backtracking.take(token, logprob)
        if back is not None:
            self._draws = self._draws.after_rewind()
            self.window.rewind(back)
        for chunk in self._backtracking.release():
            self._emit(chunk)
        return back is None

    def _emit(self, chunk: Chunk) -> None:
        """One chunk more of what the caller gets; the last one ends the text."""
        self.done = chunk.finish_reason is not None
        self._chunks.append(chunk)
        if ticket := self._ticket():
            ticket.put(chunk)
            if self.done:
                ticket.end(self._completion())

    def _completion(self) -> Completion:
        output = self._output if self._backtracking is None else self._backtracking.output
        cached = self._costs.cached_prompt()
        usage = Usage(self.reader.prompt_tokens, output.count, cached, output.reasoning_tokens)
        rewinds = 0 if self._backtracking is None else self._backtracking.count
        stats = self._costs.stats(self.window, output.count, rewinds)
        return completion(self._request, self._chunks, usage, stats, output.stop_string)


def _draws(request: Request) -> Draws:
    """By place, so that a text is the seed's, whatever is drafted; a plan always drafts alike."""
    seed = request.sampling.seed
    if seed is None:
        return Draws(fresh_seed(), by_place=False)
    return Draws(seed, by_place=not isinstance(request.speculation, Plan))
