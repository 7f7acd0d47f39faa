"""Explain an engine's answers: `inspect`, `rendered_prompts`, `what_if` and others."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeAlias, Unpack

from torch import Tensor

from marith.engine.admission import require_enough_lanes
from marith.engine.call import ScoringOptions, scoring_request
from marith.engine.engine import Engine
from marith.engine.jobs.queries import tokens_of
from marith.engine.prepare import Prepared
from marith.engine.threads.deadline import NEVER, Deadline
from marith.engine.threads.futures import EngineFuture
from marith.engine.ticket import Ticket
from marith.errors import RequestError, faults_named, names_checked, shown
from marith.formula.meaning.binding import Terms
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Prompted, Term
from marith.inspection.formula_numbers import NumberedFormula
from marith.inspection.inspecting import Inspecting, TokenTexts
from marith.inspection.inspection import Inspection
from marith.inspection.position_measures import InspectedFormula, compared, top_of
from marith.inspection.what_if import KeepingRows, Redrawing, WhatIf, require_bytes
from marith.request.checks import flag, whole
from marith.request.completion import Chunk, Completion
from marith.request.prompt import AnyPrompt
from marith.request.request import Request
from marith.tensor_rows import Row

Begin: TypeAlias = "Callable[[InspectedTicket, Completion], None]"


class InspectedTicket(Ticket):
    """Holds back the last chunk and the completion until the inspection is finished or has failed.

    `begin` starts the inspection of a completion for this ticket. Earlier chunks are passed on at
    once. The completion's stats do not include the inspection.
    """

    def __init__(self, begin: Begin, keeper: object = None, deadline: Deadline = NEVER) -> None:
        super().__init__(keeper, deadline)
        self._begin = begin
        self._last: Chunk | None = None
        self._completion_held: Completion | None = None

    def put(self, chunk: Chunk) -> None:
        """Pass on a chunk. The last chunk waits for the inspection."""
        if chunk.finish_reason is None:
            super().put(chunk)
        else:
            self._last = chunk

    def end(self, end: Completion | BaseException) -> None:
        """Begin the inspection of a finished text, or pass on a failure."""
        if isinstance(end, Completion) and not self.ended:
            self._completion_held = end
            self._begin(self, end)
        else:
            super().end(end)

    def inspected(self, inspection: Inspection) -> None:
        """Pass on the last chunk and the completion, with the inspection. The engine calls this."""
        assert self._last is not None, "a completion follows its last chunk"
        assert self._completion_held is not None, "an inspection follows its completion"
        super().put(replace(self._last, inspection=inspection))
        super().end(replace(self._completion_held, inspection=inspection))


class Following(Inspecting):
    """The inspection of a completion's tokens, for a ticket, which it holds weakly."""

    ticket: weakref.ref[InspectedTicket]

    @property
    def abandoned(self) -> bool:
        """True if nobody waits for the ticket."""
        ticket = self.ticket()
        return ticket is None or ticket.ended

    def check(self, rows: Sequence[Row]) -> None:
        """Inspect the next positions. After the last position, deliver the inspection."""
        super().check(rows)
        if self.done:
            self.deliver()

    def deliver(self) -> None:
        """Give the inspection to the ticket."""
        if ticket := self.ticket():
            ticket.inspected(self.result())

    def fail(self, error: BaseException) -> None:
        """Fail the inspection, and with it the request."""
        super().fail(error)
        if ticket := self.ticket():
            ticket.end(error)


_ARGUMENTS = ("continuation", "top", "start", "leave_one_out")


def inspect(
    engine: Engine,
    prompt: AnyPrompt,
    continuation: str | Sequence[int],
    formula: str | Formula = "M",
    terms: Terms | None = None,
    *,
    top: int = 10,
    start: int = 0,
    leave_one_out: bool = True,
    **options: Unpack[ScoringOptions],
) -> Inspection:
    """Return why each token of a continuation is there.

    The engine makes one pass over the text, as for `Engine.score`, and draws no token. `top` is the
    number of likeliest tokens to list for the formula and for each term. The first `start` tokens
    are not inspected. `leave_one_out=False` omits the parts of the kind "leave_one_out", and saves
    one evaluation of the formula for each of them. Raises RequestError if the inspection would have
    more than a million values: positions × `top` × terms and parts.
    """
    request = scoring_request("inspect", prompt, formula, terms, options, _ARGUMENTS)
    return _inspecting(engine, request, continuation, top, start, leave_one_out).wait()


def submit_inspection(
    engine: Engine,
    prompt: AnyPrompt,
    continuation: str | Sequence[int],
    formula: str | Formula = "M",
    terms: Terms | None = None,
    *,
    top: int = 10,
    start: int = 0,
    leave_one_out: bool = True,
    **options: Unpack[ScoringOptions],
) -> Future[Inspection]:
    """Start to inspect a continuation, as `inspect` does. The future may be cancelled."""
    request = scoring_request("submit_inspection", prompt, formula, terms, options, _ARGUMENTS)
    return _inspecting(engine, request, continuation, top, start, leave_one_out)


def submit_with_inspection(
    engine: Engine, request: Request, started: float | None = None
) -> Ticket:
    """Start a request, as `Engine.submit` does, and inspect its text at the end.

    The ticket's last chunk and completion have the inspection. `Request.inspect` sets the number of
    likeliest tokens to list. Raises RequestError if the text may become too long to be inspected.
    """
    if not isinstance(request, Request):
        raise RequestError(f"submit_with_inspection takes a Request, not {shown(request)}")
    deadline = Deadline.of(request.timeout, started)
    with faults_named():
        # An inspection reads a finished text once, so it needs no drafts.
        read = replace(request, speculation=None, inspect=False)
        prepared = engine.open(read, deadline, compared(request))
        # An inspection that cannot run is refused now, and not after the text is generated.
        require_enough_lanes(prepared, engine.limits)
        formula = InspectedFormula.of(request, prepared, top_of(request.inspect or True), True)
        formula.require_bounded(prepared.budget.more - len(prepared.prefix))
    # The lexicon is slow to make the first time, so it is made on the caller's thread.
    texts = TokenTexts(engine.answers.lexicon)

    def begin(ticket: InspectedTicket, completion: Completion) -> None:
        """Start one more pass over the completion's tokens."""
        start, continuation = len(prepared.prefix), [*prepared.prefix, *completion.tokens]
        text = engine.decode(completion.tokens)
        opened = prepared.at_most(len(continuation))
        following = Following(opened, continuation, formula, texts, text, start)
        following.ticket = weakref.ref(ticket)
        # The inspection of a text without tokens is done at once.
        if following.done:
            following.deliver()
        else:
            engine.run(following, follows=True)

    ticket = InspectedTicket(begin, engine, deadline)
    return engine.start(replace(request, inspect=False), ticket)


def rendered_prompts(
    engine: Engine,
    prompt: AnyPrompt,
    formula: str | Formula = "M",
    terms: Terms | None = None,
    **options: Unpack[ScoringOptions],
) -> dict[str, str]:
    """Return the text of the prompt as each prompted term of the formula reads it.

    The keys are names of terms, or texts of terms without a name. Each text includes the system
    prompt, the chat template and the tools, without hidden passages, and with special tokens by
    name. The models of the terms are loaded, but not run.
    """
    request = scoring_request("rendered_prompts", prompt, formula, terms, options, own=())
    with faults_named():
        prepared = engine.open(request, Deadline.of(request.timeout))
    meanings = request.meanings
    spelled: dict[Formula, str] = {
        term: prepared.lanes.scorers[term].prompt_text(lane)
        for term, lane in prepared.lanes.lanes.items()
        if isinstance(term, Prompted)
    }
    named = {name: spelled[term] for name, term in meanings.items() if term in spelled}
    others = spelled.keys() - {*meanings.values()}
    return named | {str(term): spelled[term] for term in spelled if term in others}


@names_checked()
def what_if(
    engine: Engine, request: Request, completion: Completion, most_bytes: int = 2**28
) -> WhatIf:
    """Return the log-probabilities of every term for a completion, to try other numbers.

    The engine makes one pass over the text; `WhatIf.at` then needs no model. `completion` must be
    the completion of this `request`, with the same prompt, formula, seed and options. Raises
    RequestError for more than `most_bytes` of log-probabilities, and if the draws cannot be
    repeated. They cannot be repeated with a ban, with tools and `steer=False`, or, at a temperature
    above 0, without a seed or with a `Plan`.
    """
    return _keeping(engine, request, completion, most_bytes).wait()


@names_checked()
def submit_what_if(
    engine: Engine, request: Request, completion: Completion, most_bytes: int = 2**28
) -> Future[WhatIf]:
    """Start to compute what `what_if` returns. The future may be cancelled."""
    return _keeping(engine, request, completion, most_bytes)


def _inspecting(
    engine: Engine,
    request: Request,
    text_or_tokens: str | Sequence[int],
    top: object,
    start: object,
    leave_one_out: object,
) -> EngineFuture[Inspection]:
    """Queue the inspection of a continuation. Raises RequestError."""
    prepared, continuation = engine.open_at(request, text_or_tokens, compared(request))
    first = whole("start", start, 0, len(continuation))
    by_leaving_out = flag("leave_one_out", leave_one_out)
    formula = InspectedFormula.of(request, prepared, top_of(top), by_leaving_out)
    formula.require_bounded(len(continuation) - first)
    text = engine.decode(continuation[first:])
    texts = TokenTexts(engine.answers.lexicon)
    return engine.run(Inspecting(prepared, continuation, formula, texts, text, first))


def _keeping(
    engine: Engine, request: Request, completion: Completion, most_bytes: object
) -> EngineFuture[WhatIf]:
    """Queue the query for the log-probabilities of every term for a completion."""
    _require_kinds(request, completion)
    limit = whole("most_bytes", most_bytes, 0)
    deadline = Deadline.of(request.timeout)
    # A term with the factor 0 is evaluated too, so that another factor can be tried.
    also = NumberedFormula.of(request.formula).without_zeros()
    answers = engine.answers
    with faults_named():
        prepared: Prepared = engine.open(replace(request, speculation=None), deadline, also)
        tokens_of(completion.tokens, answers.vocabulary, prepared.budget.shortest)
        redrawing = Redrawing(request, prepared, completion, answers)
    continuation, start = redrawing.continuation, redrawing.start
    require_bytes(prepared, len(continuation) - start, limit)

    def made(rows: Mapping[Term, Tensor]) -> WhatIf:
        return WhatIf(request, prepared, rows, redrawing, answers)

    prepared = prepared.at_most(len(continuation))
    return engine.run(KeepingRows(prepared, continuation, made, start))


def _require_kinds(request: object, completion: object) -> None:
    if not isinstance(request, Request):
        raise RequestError(f"what_if takes the Request of a completion, not {shown(request)}")
    if not isinstance(completion, Completion):
        raise RequestError(f"what_if takes a Completion, not {shown(completion)}")
    if not completion.tokens and completion.finish_reason == "length":
        raise RequestError("the completion has no tokens")
