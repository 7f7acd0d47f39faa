"""Tickets on an engine for LangChain: a call's options, and all that is asked in flight at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from langchain_core.runnables.config import run_in_executor
from pydantic import model_validator

import marith
from langchain_marith.exceptions import translated
from langchain_marith.tool_definitions import to_definitions
from marith.openai_format import to_grammar, to_logprobs, to_tools

PROVIDER = "marith"
_TOOLING = ("tools", "tool_choice", "parallel_tool_calls", "strict")
ANSWERING = ("grammar", "response_format", "logprobs", "top_logprobs")
# LangChain's own: which of two ways to ask, and what its tracers are told of a format.
_NOTES = ("stream", "ls_structured_output_format", "structured_output_format")

Prompt = str | list[dict[str, Any]]


class Asking(marith.Options):
    """A model's options, and what both kinds of LangChain model make of them."""

    @model_validator(mode="after")
    def _set_marith_version(self) -> Self:
        """Traces say which version answered, where LangChain collects them."""
        if note := getattr(self, "_add_version", None):  # not before langchain-core 1.6
            note("marith", marith.__version__)
        return self

    @model_validator(mode="after")
    def _faithful_to_something(self) -> Self:
        """What was retrieved looks as the application says: LangChain has no words for it."""
        if self.faithful_to is None:
            self.retrieves("")  # raises for a strength
        return self

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """Everything that a text hangs on: the key of cached answers."""
        # What was read of a file is in the formula, the terms and the rest.
        return {name: value for name, value in self.chosen().items() if name != "file"}

    def over(
        self, options: Mapping[str, Any], stop: str | Iterable[str] | None = None
    ) -> marith.Options:
        """These options with those of one call over them; strings that stop are joined.

        A `model` that is a formula of the file brings that formula's own options, as for
        `marith.Options`. Raises ValueError for an option that does not exist, and for what an
        option cannot be: an error of marith's and LangChain's at once.
        """
        with translated():
            return super().over(options, stop)

    def get_token_ids(self, text: str) -> list[int]:
        """The text's tokens in the model's own vocabulary. Loads the model."""
        with translated():
            return self.engine().encode(text)

    def get_num_tokens(self, text: str) -> int:
        """How many tokens the text has in the model's own vocabulary. Loads the model."""
        return len(self.get_token_ids(text))


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of one call, and what its answer has to be."""

    options: marith.Options
    asked: Mapping[str, Any] = field(default_factory=dict)  # of a request, beside the options

    @classmethod
    def of(
        cls,
        asking: Asking,
        stop: Sequence[str] | None,
        options: Mapping[str, Any],
        calls_tools: bool,
    ) -> Asked:
        """A model's options with those of one call over them.

        Raises ValueError for an option that does not exist, before anything loads.
        """
        own = (*ANSWERING, *(_TOOLING if calls_tools else ()))
        said = {name: options[name] for name in own if name in options}
        rest = {k: v for k, v in options.items() if k not in said and k not in _NOTES}
        chosen = asking.over(rest, stop)
        if not said:
            return cls(chosen, said)
        with translated():
            asked = {
                "grammar": to_grammar(said.get("grammar"), said.get("response_format")),
                "tools": to_tools(
                    said.get("tools"),
                    to_definitions,
                    said.get("tool_choice"),
                    said.get("parallel_tool_calls"),
                    said.get("strict"),
                ),
                "logprobs": to_logprobs(said.get("logprobs"), said.get("top_logprobs")),
            }
            return cls(chosen, asked)

    def submit(self, prompts: Sequence[Prompt], begun: float) -> list[marith.Ticket]:
        """One ticket for each prompt, all in flight together; the call was `begun` before."""
        tickets: list[marith.Ticket] = []
        try:
            with translated():
                for prompt in prompts:
                    ticket = self.options.submit(prompt, begun=begun, **self.asked)
                    tickets.append(ticket)
        except BaseException:
            _leave(tickets)
            raise
        return tickets

    async def asubmit(self, prompts: Sequence[Prompt], begun: float) -> list[marith.Ticket]:
        """The same in a thread, for weights may load; awaited until the deadline."""
        submitted = run_in_executor(None, self.submit, prompts, begun)
        with translated():
            return await self.options.deadline(begun).bound(submitted)


def collect(tickets: Sequence[marith.Ticket]) -> list[marith.Completion]:
    """All completions. What still runs when one fails is given up."""
    try:
        with translated():
            return [ticket.result() for ticket in tickets]
    finally:
        _leave(tickets)


async def acollect(tickets: Sequence[marith.Ticket]) -> list[marith.Completion]:
    """The same, without holding up the event loop."""
    try:
        with translated():
            return [await ticket for ticket in tickets]
    finally:
        _leave(tickets)


Piece = tuple[marith.Chunk, marith.Completion | None]


def pieces(ticket: marith.Ticket) -> Generator[Piece, None, None]:
    """Chunks as they come, the last with the completion. To stop reading is to cancel."""
    try:
        with translated():
            for chunk in ticket:
                yield chunk, ticket.result() if chunk.finish_reason else None
    finally:
        _leave([ticket])


async def apieces(ticket: marith.Ticket) -> AsyncGenerator[Piece, None]:
    """The same, without holding up the event loop."""
    try:
        with translated():
            async for chunk in ticket:
                yield chunk, await ticket if chunk.finish_reason else None
    finally:
        _leave([ticket])


def _leave(tickets: Sequence[marith.Ticket]) -> None:
    for ticket in tickets:
        ticket.cancel()
