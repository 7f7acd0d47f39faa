"""What both LangChain models are: plain data that says what to sample, and tickets on an engine."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from langchain_core.exceptions import ContextOverflowError
from langchain_core.runnables.config import run_in_executor
from langchain_core.utils import from_env
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

import marith

PROVIDER = "marith"


class Speaking(BaseModel):
    """The options of a model, all of them plain data; each may be given again for one call.

    `formula` says what to sample from; `terms` maps its names to system prompts or formula text.
    Both are checked here, before any model loads; weights load when the first text is asked for.
    `timeout` is in seconds from the moment a request is put to a loaded model.
    """

    model_config = ConfigDict(extra="forbid")

    model: str = Field(default_factory=from_env("MARITH_MODEL", default="pocket"))
    formula: str = "M"
    terms: dict[str, str] = Field(default_factory=dict)
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    repetition_penalty: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    max_tokens: int = Field(default=256, ge=1)
    stop: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    seed: int | None = None
    timeout: float | None = Field(default=None, gt=0)
    device: str | None = None
    dtype: str | None = None
    max_lanes: int = Field(default=64, ge=1)
    context_length: int | None = Field(default=None, ge=2)
    revision: str | None = None
    speculation: Literal["auto"] | None = "auto"

    @field_validator("formula", mode="before")
    @classmethod
    def _formula_as_text(cls, formula: Any) -> Any:
        return _as_text(formula)

    @field_validator("terms", mode="before")
    @classmethod
    def _terms_as_text(cls, terms: Any) -> Any:
        if not isinstance(terms, Mapping):
            return terms
        return {name: _as_text(term) for name, term in terms.items()}

    @model_validator(mode="after")
    def _formula_means_something(self) -> Self:
        marith.explain(self.formula, self.terms)
        return self

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """Everything that a text hangs on: the key of cached answers."""
        return {name: getattr(self, name) for name in Speaking.model_fields}

    def get_token_ids(self, text: str) -> list[int]:
        """The text's tokens in the model's own vocabulary. Loads the model."""
        return self._engine().encode(text)

    def get_num_tokens(self, text: str) -> int:
        """How many tokens the text has in the model's own vocabulary. Loads the model."""
        return len(self.get_token_ids(text))

    def _spoken(self, stop: Sequence[str] | None, options: Mapping[str, Any]) -> Speaking:
        """These options with those of one call over them; strings that stop are joined."""
        for name in options:
            if name not in Speaking.model_fields:
                known = ", ".join(Speaking.model_fields)
                raise ValueError(f"{type(self).__name__} takes no option {name!r}, but {known}")
        strings = dict.fromkeys([*self.stop, *([stop] if isinstance(stop, str) else stop or ())])
        return Speaking(**{**self._identifying_params, **options, "stop": list(strings)})

    def _engine(self) -> marith.Engine:
        return marith.Engine.shared(
            self.model,
            device=self.device,
            dtype=self.dtype,
            max_lanes=self.max_lanes,
            context_length=self.context_length,
            revision=self.revision,
        )

    def _submit(self, prompts: Sequence[str | list[dict[str, Any]]]) -> list[marith.Ticket]:
        """One ticket for each prompt, all in flight together."""
        sampling = marith.Sampling(
            self.temperature,
            self.top_k,
            self.top_p,
            self.min_p,
            self.repetition_penalty,
            self.seed,
        )
        stop = marith.Stop(self.max_tokens, tuple(self.stop))
        wishes = self.formula, self.terms, sampling, stop, self.speculation
        engine = self._engine()
        try:
            return [engine.submit(marith.Request(prompt, *wishes)) for prompt in prompts]
        except marith.ContextOverflow as error:
            raise ContextOverflowError(str(error)) from error

    async def _asubmit(self, prompts: Sequence[str | list[dict[str, Any]]]) -> list[marith.Ticket]:
        """The same off the event loop: weights may have to load."""
        return await run_in_executor(None, self._submit, prompts)

    def _metadata(self, completion: marith.Completion) -> dict[str, Any]:
        """How a text came about, as plain data."""
        return {
            "model_name": self.model,
            "model_provider": PROVIDER,
            "finish_reason": completion.finish_reason,
            "composition": {
                "formula": self.formula,
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


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, marith.Formula) else value
