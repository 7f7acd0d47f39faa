"""Inspects a text that the engine has just made, for the ticket of its request."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace

from marith.answers.answer_grammar import AnswerGrammars
from marith.engine.inspected.inspected_ticket import InspectedTicket
from marith.engine.prepare import Prepared
from marith.inspection.inspected_formula import InspectedFormula, top_of
from marith.inspection.inspecting import Inspecting, TokenTexts
from marith.request.completion import Completion
from marith.request.request import Request
from marith.tensor_rows import Row


class Following(Inspecting):
    """The inspection of a completion's tokens; its ticket gets it, and is held weakly."""

    ticket: weakref.ref[InspectedTicket]

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for the ticket any more."""
        ticket = self.ticket()
        return ticket is None or ticket.ended

    def check(self, rows: Sequence[Row]) -> None:
        """Inspect the next positions; after the last of them the ticket gets all."""
        super().check(rows)
        if self.done:
            self.deliver()

    def deliver(self) -> None:
        """Give the inspection to the ticket."""
        if ticket := self.ticket():
            ticket.inspected(self.result())

    def fail(self, error: BaseException) -> None:
        """The inspection has failed, and with it the request."""
        super().fail(error)
        if ticket := self.ticket():
            ticket.end(error)


class Follower:
    """Begins the inspection of a request's completion; made and checked before the text is.

    `prepared` is the request's, with the bare model beside and without drafts; `add` queues a job
    that is next. Raises RequestError for a text that may have too many positions to be inspected.
    """

    def __init__(
        self,
        request: Request,
        prepared: Prepared,
        answers: AnswerGrammars,
        add: Callable[[Following], None],
    ) -> None:
        self._prepared, self._add = prepared, add
        self._decode, self._texts = answers.vocabulary.decode, TokenTexts(answers.lexicon)
        self._formula = InspectedFormula.of(request, prepared, top_of(request.inspect), True)
        self._formula.require_bounded(prepared.more - len(prepared.prefix))

    def begin(self, ticket: InspectedTicket, completion: Completion) -> None:
        """Inspect the tokens of a completion, by one more pass over them."""
        prefix = self._prepared.prefix
        continuation = [*prefix, *completion.tokens]
        text = self._decode(completion.tokens)
        following = Following(
            replace(self._prepared, more=len(continuation)),
            continuation,
            self._formula,
            self._texts,
            text,
            start=len(prefix),
        )
        following.ticket = weakref.ref(ticket)
        if following.done:  # there is no token
            following.deliver()
        else:
            self._add(following)
