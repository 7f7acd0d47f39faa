"""A text while it is generated."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from torch import Tensor

from marith.answers.answer_grammar import AnswerGrammars
from marith.answers.backtracking import Backtracking
from marith.answers.detectors import ends_of
from marith.answers.logprobs import token_logprob
from marith.answers.output import Output, completion
from marith.decoding.blocks import Block, RowsByPlace
from marith.decoding.matcher import Compiled, Matcher
from marith.decoding.random_numbers import Draws, fresh_seed
from marith.decoding.row_constraints import Constraint, CustomConstraint, LeastLength, Penalties
from marith.engine.jobs.allowed_tokens import AllowedTokens
from marith.engine.jobs.costs import Costs
from marith.engine.jobs.plausibility import Plausibility
from marith.engine.prepare import Prepared
from marith.engine.threads.workers import log
from marith.engine.ticket import Ticket
from marith.errors import RequestError, fault, shown
from marith.formula.tree.terms import Term
from marith.request.completion import Chunk, Completion, Usage
from marith.request.plan import Plan
from marith.request.request import Request
from marith.request.sampling import Sampling
from marith.scoring.passes.questions import Answer
from marith.speculation.drafts import Drafts
from marith.speculation.verify import NOT_DRAFTED, Check, Verdict
from marith.speculation.window import DraftWindow, PlainWindow, Window
from marith.tensor_rows import Row, gather, rows_of

_log = logging.getLogger(__name__)


class Generation:
    """A request while it runs. The engine's thread makes and owns its state.

    The ticket is held weakly: when the caller drops the ticket, the request is abandoned. Raises
    RequestError for a grammar that cannot be compiled.
    """

    window: Window
    _costs: Costs
    _output: Output

    def __init__(
        self, request: Request, prepared: Prepared, answers: AnswerGrammars, ticket: Ticket
    ) -> None:
        self.prepared = prepared
        # A grammar determines where the text ends, so with a grammar the turn marks are not added
        # as stop strings.
        if prepared.turn_marks and request.grammar is None:
            strings = (*request.stop.strings, *prepared.turn_marks)
            request = replace(request, stop=replace(request.stop, strings=strings))
        self.done = self._begun = False
        self.paused = 0
        self.drafts: Drafts | None = None
        self._request, self._answers = request, answers
        self._ticket = weakref.ref(ticket)
        self._started = time.monotonic()
        self._grammar = answers.compiled(request, prepared.opened)
        self._plausibility = Plausibility.of(prepared.plan, request.formulas[0])
        self._kept: RowsByPlace | None = None
        if request.logprobs is not None:
            self._kept = RowsByPlace(prepared.plan.whole)
        self._backtracking: Backtracking | None = None
        self._allowed: AllowedTokens | None = None
        self._constraints: list[Constraint] = []
        self._block: Block | None = None
        self._compared: Sequence[Sequence[Row]] = ()  # in this step
        self._chunks: list[Chunk] = []
        self.is_plain = False  # until the text begins
        self._unconverted: int | None = None

    def _begin(self) -> None:
        """Make the parts that this text needs. Most texts need a window and an output only."""
        request, plan, answers = self._request, self.prepared.plan, self._answers
        vocabulary, sampling = answers.vocabulary, request.sampling
        limit = self.prepared.budget.more
        ends, prefix = ends_of(request, vocabulary), self.prepared.prefix
        # A text without drafts needs neither stages nor stored rows, and a plain window is faster.
        if plan.is_plain:
            self.window = PlainWindow(plan, prefix)
        else:
            rooms = self.prepared.budget.of_drafts
            self.window = DraftWindow(plan, limit, ends, rooms, prefix)
            self.drafts = Drafts(self.window, self.prepared.lanes)
        self._costs = Costs(self.prepared, self._started)
        self.draws = _draws(request)
        self.sampling = _same_object(sampling.warping)
        self._output = Output(request, vocabulary, limit, self.prepared.opened)
        self._output.replay(prefix)
        if request.ban is not None:
            self._backtracking = Backtracking(self._output, ends, request.ban.words)
        if self._grammar is not None or self._backtracking is not None:
            matcher = None if self._grammar is None else _matcher(self._grammar, request, prefix)
            self._allowed = AllowedTokens(matcher, self._backtracking, self.window)
            self._constraints = [self._allowed]
        if request.constraints:
            custom = map(CustomConstraint, request.constraints)
            self._constraints = [*self._constraints, *custom]
        if request.stop.min_tokens:
            least = LeastLength(ends, len(prefix) + request.stop.min_tokens)
            self._constraints = [*self._constraints, least]
        if sampling.penalises:
            penalties = Penalties(sampling, frozenset(self.prepared.prompt))
            self._constraints = [*self._constraints, penalties]
        if (most := request.stop.max_reasoning_tokens) is not None:
            # A ban has to count the mark as the only token that is left at its place.
            limits = answers.reasoning_limit(most, self.prepared.opened)
            self._constraints = [*limits, *self._constraints]
        self.is_plain = plan.is_plain and self._kept is None and not self._constraints
        self._begun = True

    @property
    def abandoned(self) -> bool:
        ticket = self._ticket()
        return ticket is None or ticket.ended

    @property
    def tokens_held(self) -> int:
        prepared = self.prepared
        made = self.window.final if self._begun else len(prepared.prefix)
        return min(made + prepared.plan.longest_draft, prepared.budget.more)

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        if not self._begun:
            self._begin()
        if self.drafts is not None and not self.prepared.plan.chooses_lengths:
            self.drafts.propose()
        return self.window.wanted()

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Answer]
    ) -> Mapping[Term, Sequence[Row]]:
        return self.window.rows(terms, count, _rows(answers))

    def receive(self, answers: Mapping[Term, Answer]) -> Block:
        self._costs.add(answers)
        self.window.receive(_rows(answers))
        self._block = self.window.block()
        return self._block

    def check(self, rows: Sequence[Row]) -> Check:
        window = self.window
        places, standing, block = window.places, window.standing(), self._block
        assert block is not None, "the terms were received"
        if self._allowed is not None:
            rows = self._allowed.compose(rows, block, places)
        if self._kept is not None:
            # Log-probabilities are reported as composed, before grammar, penalties and biases.
            self._kept.record(block, places, rows)
        if self._constraints:
            rows = self._constrained(gather(rows), places)
        tokens = [NOT_DRAFTED if pending is None else pending.token for pending in standing]
        drafts = [None if pending is None else pending.draft for pending in standing]
        if self._plausibility is not None:
            self._compared = self._plausibility.compared(block)
        return Check(rows, self.sampling, places, tokens, drafts, self.draws, self._compared)

    def _constrained(self, logprobs: Tensor, places: Sequence[int]) -> list[Row]:
        """Return the composed rows after all constraints."""
        for constraint in self._constraints:
            logprobs = constraint.apply(logprobs, self.window.tokens, places)
        return rows_of(logprobs)

    def accept(self, verdict: Verdict) -> None:
        self.draws = self.draws.after_trial()
        compared, self._compared, self._block = self._compared, (), None
        if self._plausibility is not None:
            window, plausible = self.window, verdict.plausible
            for place, rows, found in zip(window.places, compared, plausible, strict=True):
                # A token that is verified again replaces the token that was here before.
                self._plausibility.note(place, found if rows else None)
        final = self.window.final
        for place, token in enumerate(self.window.accept(verdict), final):
            # The text may have ended, and later tokens of the same step are dropped.
            if self.done:
                break
            if self._allowed is not None:
                self._allowed.require(place)
            if not self._take(place, token):
                break

    def count(self, answers: Mapping[Term, Answer]) -> None:
        """Count what it cost to evaluate the terms of a plain text."""
        self._costs.add(answers)

    def take_plain(self, token: int, plausible: bool, text_later: bool) -> None:
        """Take the next token of a plain text.

        With `text_later`, the token becomes text when `convert` is called. Then a text that ends by
        its own text, as by a stop string, draws one token in vain, which is dropped.
        """
        if self.done:
            return
        self.draws = self.draws.after_trial()
        place = self.window.final
        self.window.tokens.append(token)
        if self._plausibility is not None:
            self._plausibility.note(place, plausible)
        self._unconverted = token
        if not text_later or self._output.ends_with(token):
            self.convert()

    def convert(self) -> None:
        token, self._unconverted = self._unconverted, None
        if token is None or self.done:
            return
        try:
            if chunk := self._output.take(token):
                self._emit(chunk)
        except BaseException as error:
            self.fail(fault(error))

    def fail(self, error: BaseException) -> None:
        self.done = True
        seconds = time.monotonic() - self._started
        if ticket := self._ticket():
            ticket.end(error)
        name = type(error).__name__
        log(_log, logging.DEBUG, "a request failed after %.3f s: %s", seconds, name)

    def _take(self, place: int, token: int) -> bool:
        """Add one final token. Return False if a ban has rolled the text back."""
        logprob = None
        if self._kept is not None:
            composed, top = self._kept.pop(place), self._request.logprobs
            assert top is not None
            logprob = token_logprob(token, composed, top, self._answers.lexicon)
        if self._backtracking is None:
            if chunk := self._output.take(token, logprob):
                self._emit(chunk)
            return True
        back = self._backtracking.take(token, logprob)
        if back is not None:
            self.draws = self.draws.after_rewind()
            self.window.rewind(back)
        for chunk in self._backtracking.release():
            self._emit(chunk)
        return back is None

    def _emit(self, chunk: Chunk) -> None:
        """Pass one chunk to the caller. The last chunk ends the text."""
        ends = chunk.finish_reason is not None
        # `fail` may have set `done` meanwhile, so it is never set to False here.
        if ends:
            self.done = True
        self._chunks.append(chunk)
        if ticket := self._ticket():
            ticket.put(chunk)
            if ends:
                completed = self._completion()
                ticket.end(completed)
                _log_end(completed)

    def _completion(self) -> Completion:
        output = self._output if self._backtracking is None else self._backtracking.output
        cached = self._costs.cached_prompt()
        prefix = len(self.prepared.prefix)
        prompt, made = self.prepared.budget.prompt_tokens + prefix, output.count - prefix
        usage = Usage(prompt, made, cached, output.reasoning_tokens)
        rewinds = 0 if self._backtracking is None else self._backtracking.count
        implausible = 0.0 if self._plausibility is None else self._plausibility.share(output.count)
        uncut = 0 if self._allowed is None else self._allowed.count_uncut(output.count)
        counts = rewinds, implausible, uncut, self.paused
        stats = self._costs.stats(self.window, made, *counts)
        warnings = self.prepared.warnings
        return completion(self._request, self._chunks, usage, stats, output.stop_string, warnings)


def _matcher(grammar: Compiled, request: Request, prefix: Sequence[int]) -> Matcher:
    """Return a matcher of a grammar. Raises RequestError for a prefix that it excludes."""
    matcher = Matcher(grammar)
    if prefix:
        matcher.allowed(prefix, [len(prefix)])
        if matcher.reached < len(prefix):
            problem = f"the grammar allows no answer with the prefix {shown(request.prefix)}"
            place = f"its token {matcher.reached + 1} of {len(prefix)} cannot follow"
            raise RequestError(f"{problem}: {place}")
    return matcher


def _log_end(completed: Completion) -> None:
    """Log the cost of a finished request, without its texts."""
    if _log.isEnabledFor(logging.DEBUG):
        message = (
            "a request ended (%s): %d tokens after a prompt of %d (%d cached), %d passes, %.3f s"
        )
        usage, stats = completed.usage, completed.stats
        counts = usage.completion_tokens, usage.prompt_tokens, usage.cached_tokens, stats.passes
        log(_log, logging.DEBUG, message, completed.finish_reason, *counts, stats.seconds)


# Texts whose options are one object are warped together.
@lru_cache(maxsize=256)
def _same_object(sampling: Sampling) -> Sampling:
    """Return one object for all equal options."""
    return sampling


def _rows(answers: Mapping[Term, Answer]) -> dict[Term, Sequence[Row]]:
    return {term: scored.rows for term, scored in answers.items()}


def _draws(request: Request) -> Draws:
    """Return the random numbers of a request.

    Without a plan, the numbers of a seed depend on the place in the text alone, so drafts do not
    change the text. Under a plan, the same tokens are drafted each time the request is run, so the
    text repeats even though each verification uses other numbers.
    """
    seed = request.sampling.seed
    if seed is None:
        return Draws(fresh_seed(), by_place=False)
    return Draws(seed, by_place=not isinstance(request.speculation, Plan))
