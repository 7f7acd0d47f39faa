"""`inspect`, `submit_inspection`, `readings` and `what_if`: the calls about a given text.

What answers them is the room `inspection`, which imports the engine, and is imported when called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from marith.answers.answer_grammar import AnswerGrammars
from marith.engine.call import InspectionOptions, inspection_request
from marith.engine.inspected.inspected_ticket import InspectedTicket
from marith.engine.job_queue import require_enough_lanes
from marith.engine.jobs.queries import Query, Result
from marith.engine.prepare import Prepared
from marith.engine.threads.deadline import NEVER, Deadline
from marith.engine.threads.engine_thread import EngineThread
from marith.engine.threads.futures import EngineFuture
from marith.errors import faults_named, names_checked
from marith.formula.meaning.binding import BARE, Terms
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.terms import Prompted
from marith.request.completion import Completion
from marith.request.inspected.inspection import Inspection
from marith.request.prompt import AnyPrompt
from marith.request.request import Request
from marith.scoring.registry import Registry

if TYPE_CHECKING:
    from marith.inspection.what_if import WhatIf


class InspectionCalls(ABC):
    """Each prepares a request and queues a job of the room `inspection`."""

    _answers: AnswerGrammars
    _thread: EngineThread

    @property
    @abstractmethod
    def _registry(self) -> Registry:
        """What is loaded."""

    @abstractmethod
    def _open(
        self, request: Request, deadline: Deadline = NEVER, beside: Formula | None = None
    ) -> Prepared:
        """A request that is prepared, with the terms of a formula beside."""

    @abstractmethod
    def _open_at(
        self, request: Request, continuation: str | Sequence[int], beside: Formula | None = None
    ) -> tuple[Prepared, list[int]]:
        """The same, and the tokens of a continuation that it has room for."""

    @abstractmethod
    def _run(self, query: Query[Result]) -> EngineFuture[Result]:
        """Queue a query."""

    def inspect(
        self,
        prompt: AnyPrompt,
        continuation: str | Sequence[int],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        *,
        top: int = 10,
        start: int = 0,
        leave_one_out: bool = True,
        **options: Unpack[InspectionOptions],
    ) -> Inspection:
        """Why each token of a continuation is there: the log-probabilities of every term.

        One pass over the text, as `score` takes it; no token is drawn. Each position has the `top`
        likeliest tokens of the formula and of each term, and what each part of the formula adds to
        the log-odds of the token: see `Inspection`. The first `start` tokens are not inspected.
        Without `leave_one_out` the formula is evaluated once, and not again without each term that
        has no part of its own. Raises RequestError for more than a million values.
        """
        request = inspection_request("inspect", prompt, formula, terms, options)
        return self._inspecting(request, continuation, top, start, leave_one_out).wait()

    def readings(
        self,
        prompt: AnyPrompt,
        formula: str | Formula = "M",
        terms: Terms | None = None,
        **options: Unpack[InspectionOptions],
    ) -> dict[str, str]:
        """Return the text that each prompted term of the formula reads before the answer.

        The keys are the names of the terms; a term without a name has its text as key. A reading is
        the prompt through the term's own lens: system prompt, chat template and tools are written
        out, hidden passages are left out, and special tokens stand by their names. Models that the
        terms name are loaded, and compute nothing.
        """
        request = inspection_request("readings", prompt, formula, terms, options)
        with faults_named():
            prepared = self._open(request, Deadline.of(request.timeout))
        meanings = request.meanings
        spelled: dict[Formula, str] = {
            term: self._registry.vocabulary.spell([*map(int, reading)])
            for term, reading in prepared.readings.items()
            if isinstance(term, Prompted)
        }
        named = {name: spelled[term] for name, term in meanings.items() if term in spelled}
        others = spelled.keys() - {*meanings.values()}
        return named | {str(term): spelled[term] for term in spelled if term in others}

    def submit_inspection(
        self,
        prompt: AnyPrompt,
        continuation: str | Sequence[int],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        *,
        top: int = 10,
        start: int = 0,
        leave_one_out: bool = True,
        **options: Unpack[InspectionOptions],
    ) -> Future[Inspection]:
        """Start to inspect a continuation, as `inspect` does; the future may be cancelled."""
        request = inspection_request("submit_inspection", prompt, formula, terms, options)
        return self._inspecting(request, continuation, top, start, leave_one_out)

    @names_checked()
    def what_if(self, request: Request, completion: Completion, most_bytes: int = 2**28) -> WhatIf:
        """The log-probabilities of every term for a completion, to see what other numbers change.

        One pass over the text; `WhatIf.at` then needs no model. Raises RequestError for more than
        `most_bytes` of log-probabilities, and where the draws cannot be repeated: at a temperature
        above 0 without a seed or by a `Plan`, with a ban, and with tools that are not steered.
        """
        return self._keeping(request, completion, most_bytes).wait()

    @names_checked()
    def submit_what_if(
        self, request: Request, completion: Completion, most_bytes: int = 2**28
    ) -> Future[WhatIf]:
        """Start to keep what `what_if` keeps; the future may be cancelled."""
        return self._keeping(request, completion, most_bytes)

    def _keeping(
        self, request: Request, completion: Completion, most_bytes: int
    ) -> EngineFuture[WhatIf]:
        from marith.inspection.submitting import keeping

        return self._run(keeping(request, completion, most_bytes, self._open, self._answers))

    def _inspected(self, request: Request, deadline: Deadline) -> InspectedTicket:
        """The ticket of a request whose text is inspected when it has ended."""
        from marith.inspection.follow_up import Follower

        read = replace(request, speculation=None, inspect=False)
        prepared = self._open(read, deadline, Name(BARE))
        require_enough_lanes(prepared, self._thread.queue.limits)
        follower = Follower(request, prepared, self._answers, self._thread.follow)
        return InspectedTicket(follower.begin, self, deadline)

    def _inspecting(
        self, request: Request, continuation: str | Sequence[int], *options: Any
    ) -> EngineFuture[Inspection]:
        from marith.inspection.submitting import inspecting

        prepared, tokens = self._open_at(request, continuation, Name(BARE))
        return self._run(inspecting(request, prepared, tokens, self._answers, *options))
