"""Tickets on an engine for LangChain: together in flight, within a deadline."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.runnables.config import run_in_executor
from pydantic import Field

import marith

PROVIDER = "marith"


class Timed(marith.Options):
    """A model's options, and its `timeout` in seconds from when a loaded model is asked."""

    timeout: float | None = Field(default=None, gt=0)

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """Everything that a text hangs on: the key of cached answers."""
        return {**self.chosen(), "timeout": self.timeout}

    def get_token_ids(self, text: str) -> list[int]:
        """The text's tokens in the model's own vocabulary. Loads the model."""
        return self.engine().encode(text)

    def get_num_tokens(self, text: str) -> int:
        """How many tokens the text has in the model's own vocabulary. Loads the model."""
        return len(self.get_token_ids(text))

    def _for_call(self, stop: Sequence[str] | None, options: dict[str, Any]) -> Asked:
        """These options with those of one call over them."""
        given = dict(options)
        timeout = given.pop("timeout", self.timeout)
        return Asked(self.over(given, stop), Deadline(timeout))


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of one call, and when to give it up."""

    options: marith.Options
    deadline: Deadline

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


@dataclass(frozen=True, slots=True)
class Deadline:
    """When to give up waiting; never, where no seconds are given."""

    seconds: float | None
    start: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float | None:
        """The seconds that are left."""
        if self.seconds is None:
            return None
        return max(0.0, self.start + self.seconds - time.monotonic())

    def check(self) -> None:
        """Raise TimeoutError once nothing is left."""
        if self.left == 0.0:
            raise self.passed()

    def passed(self) -> TimeoutError:
        """What is raised then."""
        return TimeoutError(f"no completion within {self.seconds} seconds")


def collect(tickets: Sequence[marith.Ticket], deadline: Deadline) -> list[marith.Completion]:
    """All completions. What still runs when one fails is given up."""
    try:
        return [ticket.result(deadline.left) for ticket in tickets]
    except TimeoutError:
        raise deadline.passed() from None
    finally:
        _leave(tickets)


async def acollect(tickets: Sequence[marith.Ticket], deadline: Deadline) -> list[marith.Completion]:
    """The same, without holding up the event loop."""
    try:
        if deadline.seconds is None:
            return [await ticket for ticket in tickets]
        return await run_in_executor(None, collect, tickets, deadline)
    finally:
        _leave(tickets)


def pieces(
    ticket: marith.Ticket, deadline: Deadline
) -> Iterator[tuple[str, marith.Completion | None]]:
    """Text as it comes, the last piece with the completion. To stop reading is to cancel."""
    try:
        for chunk in ticket:
            deadline.check()
            yield chunk.text, ticket.result() if chunk.finish_reason else None
    finally:
        _leave([ticket])


async def apieces(
    ticket: marith.Ticket, deadline: Deadline
) -> AsyncGenerator[tuple[str, marith.Completion | None], None]:
    """The same, without holding up the event loop."""
    try:
        async for chunk in ticket:
            deadline.check()
            yield chunk.text, await ticket if chunk.finish_reason else None
    finally:
        _leave([ticket])


def _leave(tickets: Sequence[marith.Ticket]) -> None:
    for ticket in tickets:
        ticket.cancel()
