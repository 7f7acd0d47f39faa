"""Tickets on an engine for LangChain: together in flight."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.runnables.config import run_in_executor

import marith

PROVIDER = "marith"


class Asking(marith.Options):
    """A model's options, and what both kinds of LangChain model make of them."""

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """Everything that a text hangs on: the key of cached answers."""
        return self.chosen()

    def get_token_ids(self, text: str) -> list[int]:
        """The text's tokens in the model's own vocabulary. Loads the model."""
        return self.engine().encode(text)

    def get_num_tokens(self, text: str) -> int:
        """How many tokens the text has in the model's own vocabulary. Loads the model."""
        return len(self.get_token_ids(text))

    def _for_call(self, stop: Sequence[str] | None, options: dict[str, Any]) -> Asked:
        """These options with those of one call over them."""
        return Asked(self.over(options, stop))


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of one call."""

    options: marith.Options

    def submit(self, prompts: Sequence[str | list[dict[str, Any]]]) -> list[marith.Ticket]:
        """One ticket for each prompt, all in flight together."""
        engine = self.options.engine()
        try:
            return [engine.submit(self.options.request(prompt)) for prompt in prompts]
        except marith.ContextOverflow as error:
            raise ContextOverflowError(str(error)) from error

    async def asubmit(self, prompts: Sequence[str | list[dict[str, Any]]]) -> list[marith.Ticket]:
        """The same off the event loop: weights may have to load."""
        return await run_in_executor(None, self.submit, prompts)

    def metadata(self, completion: marith.Completion) -> dict[str, Any]:
        """How a text came about, as plain data."""
        return {
            "model_name": self.options.model,
            "model_provider": PROVIDER,
            "finish_reason": completion.finish_reason,
            "composition": {
                "formula": self.options.formula,
                "passes": completion.stats.passes,
                "calls": completion.stats.calls,
            },
        }


def collect(tickets: Sequence[marith.Ticket]) -> list[marith.Completion]:
    """All completions. What still runs when one fails is given up."""
    try:
        return [ticket.result() for ticket in tickets]
    finally:
        _leave(tickets)


async def acollect(tickets: Sequence[marith.Ticket]) -> list[marith.Completion]:
    """The same, without holding up the event loop."""
    try:
        return [await ticket for ticket in tickets]
    finally:
        _leave(tickets)


def pieces(ticket: marith.Ticket) -> Iterator[tuple[str, marith.Completion | None]]:
    """Text as it comes, the last piece with the completion. To stop reading is to cancel."""
    try:
        for chunk in ticket:
            yield chunk.text, ticket.result() if chunk.finish_reason else None
    finally:
        _leave([ticket])


async def apieces(
    ticket: marith.Ticket,
) -> AsyncGenerator[tuple[str, marith.Completion | None], None]:
    """The same, without holding up the event loop."""
    try:
        async for chunk in ticket:
            yield chunk.text, await ticket if chunk.finish_reason else None
    finally:
        _leave([ticket])


def _leave(tickets: Sequence[marith.Ticket]) -> None:
    for ticket in tickets:
        ticket.cancel()
