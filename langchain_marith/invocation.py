"""One call of a model: its options, its requests in flight together, and what these return."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from langchain_core.language_models import LangSmithParams
from langchain_core.runnables.config import run_in_executor
from pydantic import model_validator

import marith
from langchain_marith.exceptions import translated
from langchain_marith.tool_definitions import to_definitions
from marith.openai_format import to_grammar, to_logprobs, to_tools

PROVIDER = "marith"
ANSWER_OPTIONS = ("grammar", "response_format", "logprobs", "top_logprobs")
_TOOL_OPTIONS = ("tools", "tool_choice", "parallel_tool_calls", "strict")
# LangChain's own: which of two ways to call, and what its tracers show of a format.
_IGNORED = ("stream", "ls_structured_output_format", "structured_output_format")

Prompt = str | list[dict[str, Any]]


class LangChainOptions(marith.Options):
    """A model's options, and what LangChain asks of both kinds of model that have them."""

    @model_validator(mode="after")
    def _set_marith_version(self) -> Self:
        """Traces show which version answered, where LangChain collects versions."""
        if add_version := getattr(self, "_add_version", None):  # not before langchain-core 1.6
            add_version("marith", marith.__version__)
        return self

    @model_validator(mode="after")
    def _faithful_to_something(self) -> Self:
        """LangChain does not mark what was retrieved: `faithful` needs `faithful_to` here."""
        if self.faithful_to is None:
            self.retrieves("")  # raises where `faithful` is not 0
        return self

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """All that a text depends on: the key of cached answers."""
        # What was read of a file is in the formula, the terms and the rest.
        return {name: value for name, value in self.chosen().items() if name != "file"}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        """Traces show the formula's name, and its own stop strings with the call's."""
        strings = stop if isinstance(stop, list) else []  # what is no list is refused by the call
        params: LangSmithParams = super()._get_ls_params(  # type: ignore[misc]  # of its models
            stop=[*self.stop, *strings], **kwargs
        )
        model_name = kwargs.get("model", self.speaks_as)
        return {**params, "ls_provider": PROVIDER, "ls_model_name": model_name}

    def over(
        self, options: Mapping[str, Any], stop: str | Iterable[str] | None = None
    ) -> marith.Options:
        """These options with those of one call over them; stop strings are joined.

        A `model` that is a formula of the file brings that formula's own options, as for
        `marith.Options`. Raises ValueError for an option that does not exist, and for a value that
        an option cannot have: an error of marith's and LangChain's at once.
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
class Invocation:
    """The options of one call, and what its requests have beside them."""

    options: marith.Options
    request_options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: LangChainOptions,
        stop: Sequence[str] | None,
        options: Mapping[str, Any],
        calls_tools: bool,
    ) -> Invocation:
        """A model's options with those of one call over them.

        Raises MarithError for an option that does not exist, before anything loads.
        """
        names = (*ANSWER_OPTIONS, *(_TOOL_OPTIONS if calls_tools else ()))
        request_fields = {name: options[name] for name in names if name in options}
        rest = {k: v for k, v in options.items() if k not in request_fields and k not in _IGNORED}
        if rest:
            model.check_call(rest, names)
        chosen = model.over(rest, stop)
        if not request_fields:
            return cls(chosen)
        tools = to_tools(
            request_fields.get("tools"),
            to_definitions,
            request_fields.get("tool_choice"),
            request_fields.get("parallel_tool_calls"),
            request_fields.get("strict"),
        )
        request_options = {
            "grammar": to_grammar(
                request_fields.get("grammar"), request_fields.get("response_format")
            ),
            "tools": tools,
            "logprobs": to_logprobs(
                request_fields.get("logprobs"), request_fields.get("top_logprobs")
            ),
        }
        return cls(chosen, request_options)

    def submit(self, prompts: Sequence[Prompt], begun: float) -> list[marith.Ticket]:
        """One ticket for each prompt, all in flight together; the timeout counts from `begun`."""
        tickets: list[marith.Ticket] = []
        try:
            for prompt in prompts:
                ticket = self.options.submit(prompt, begun=begun, **self.request_options)
                tickets.append(ticket)
        except BaseException:
            _cancel(tickets)
            raise
        return tickets

    async def asubmit(self, prompts: Sequence[Prompt], begun: float) -> list[marith.Ticket]:
        """The same in a thread, for weights may load; awaited until the deadline."""
        submitted = run_in_executor(None, self.submit, prompts, begun)
        return await self.options.deadline(begun).bound(submitted)


def collect(tickets: Sequence[marith.Ticket]) -> list[marith.Completion]:
    """All completions. When one fails, those that still run are cancelled."""
    try:
        with translated():
            return [ticket.result() for ticket in tickets]
    finally:
        _cancel(tickets)


async def acollect(tickets: Sequence[marith.Ticket]) -> list[marith.Completion]:
    """The same, without blocking the event loop."""
    try:
        with translated():
            return [await ticket for ticket in tickets]
    finally:
        _cancel(tickets)


Piece = tuple[marith.Chunk, marith.Completion | None]


def pieces(ticket: marith.Ticket) -> Generator[Piece, None, None]:
    """Chunks as they come, the last with the completion. Who stops reading cancels the rest."""
    try:
        with translated():
            for chunk in ticket:
                yield chunk, ticket.result() if chunk.finish_reason else None
    finally:
        _cancel([ticket])


async def apieces(ticket: marith.Ticket) -> AsyncGenerator[Piece, None]:
    """The same, without blocking the event loop."""
    try:
        with translated():
            async for chunk in ticket:
                yield chunk, await ticket if chunk.finish_reason else None
    finally:
        _cancel([ticket])


def _cancel(tickets: Sequence[marith.Ticket]) -> None:
    for ticket in tickets:
        ticket.cancel()
