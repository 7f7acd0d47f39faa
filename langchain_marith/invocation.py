"""The options of a model, one call of it, and the completions that the call returns."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from langchain_core.language_models import LangSmithParams
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import get_config_list, patch_config, run_in_executor
from pydantic import field_validator, model_validator

import marith
from langchain_marith.exceptions import translated
from langchain_marith.tool_definitions import to_definitions
from marith.openai_format import to_grammar, to_logprobs, to_n, to_tools

PROVIDER = "marith"
ANSWER_OPTIONS = ("grammar", "response_format", "logprobs", "top_logprobs", "n")
# An application may want to keep the texts in these options private.
TEXTS = ("formula", "terms", "faithful_to")
_TOOL_OPTIONS = ("tools", "tool_choice", "parallel_tool_calls", "strict")
# Only LangChain reads these options: whether to stream, and the schema that its tracers show.
_IGNORED = ("stream", "ls_structured_output_format", "structured_output_format")

Prompt = str | list[dict[str, Any]]


# The results are cached, because many calls have the same formula.
@lru_cache(maxsize=64)
def formula_without_texts(formula: str) -> str:
    """Return a formula with "…" in place of each text that is quoted in it."""
    return marith.NumberedFormula.of(formula).without_texts().text


class LangChainOptions(marith.Options):
    """The options that both kinds of model have, and the methods that LangChain expects of them."""

    _advice: ClassVar[Mapping[str, str]] = {
        "response_format": "write llm.invoke(…, response_format=…), or for a ChatMarith "
        "llm.with_structured_output(…)",
        "num_return_sequences": "write n=…, and call generate or agenerate",
    }

    n: int = 1
    """The number of answers to each prompt of `generate`. Their seeds are `seed`, `seed + 1`, …"""

    @field_validator("n", mode="before")
    @classmethod
    def _number_of_answers(cls, n: Any) -> int:
        return to_n(n)

    @model_validator(mode="after")
    def _set_marith_version(self) -> Self:
        """Add marith's version to traces, if LangChain collects versions."""
        # Releases of langchain-core before 1.6 lack this method.
        if add_version := getattr(self, "_add_version", None):
            add_version("marith", marith.__version__)
        return self

    @model_validator(mode="after")
    def _faithful_to_something(self) -> Self:
        """Require `faithful_to` for `faithful`, because LangChain does not mark retrieved text."""
        if self.faithful_to is None:
            # This raises unless `faithful` is 0.
            self.retrieves("")
        return self

    @classmethod
    def from_file(cls, path: str | Path, name: str | None = None, **options: Any) -> Self:
        """Return a model with the options of a file and of the formula `name` in it.

        `options` override both. Raises FormulaError for any fault in the file, and if `name` and
        the option `model` both name a formula of the file. The error is both marith's and
        LangChain's.
        """
        with translated():
            return super().from_file(path, name, **options)

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """The options that determine a text. They are the key of cached answers.

        Traces contain them too. Other people may read traces, so hashes stand for the texts of
        terms and for patterns.
        """
        identity = self.identity()
        texts = formula, terms, hidden = [identity[name] for name in TEXTS]
        return {
            **identity,
            "formula": formula_without_texts(formula),
            "terms": [*terms],
            "faithful_to": hidden and "…",
            "texts_sha256": sha256(json.dumps(texts).encode()).hexdigest(),
            "n": self.n,
        }

    @property
    def _serialized(self) -> dict[str, Any]:
        """The form in which traces show the model. LangChain would use `to_json` instead."""
        shown = {"lc": 1, "type": "constructor", "id": self.lc_id()}  # type: ignore[attr-defined]  # of its models
        return {**shown, "kwargs": self._identifying_params}

    def to_json(self) -> Any:
        """Return what LangChain's `dumps` writes. `loads` reads it if this class is allowed.

        A model with a loaded engine or with constraints is "not_implemented", because these are not
        data.
        """
        if self.loaded_engine is not None or self.constraints:
            return self.to_json_not_implemented()  # type: ignore[attr-defined]  # of its models
        fields = self.model_dump(exclude={*self.option_names()}, exclude_defaults=True)
        kwargs = {**fields, **self.chosen()}
        return {"lc": 1, "type": "constructor", "id": self.lc_id(), "kwargs": kwargs}  # type: ignore[attr-defined]

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        """Return the parameters of traces: the formula's name, and all stop strings of the call."""
        # A `stop` that is not a list is left out here. The call itself checks it.
        strings = stop if isinstance(stop, list) else []
        with translated():
            options = self.by_name(kwargs)
        params: LangSmithParams = super()._get_ls_params(  # type: ignore[misc]  # of its models
            stop=[*self.stop, *strings], **options
        )
        model_name = options.get("model", self.speaks_as)
        return {**params, "ls_provider": PROVIDER, "ls_model_name": model_name}

    # Type checkers see the signatures of LangChain's own methods, which differ by kind of model.
    if not TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """Check all options. Raises an error of marith and LangChain, and not of pydantic."""
            with translated():
                marith.errors.require_no_positional(type(self).__name__, args)
                super().__init__(**kwargs)

        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 (its name)
            """Answer as LangChain's method does. Raises RequestError for `n` above 1."""
            require_one_answer("invoke", self, kwargs)
            return super().invoke(input, config, **kwargs)

        async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 (its name)
            """Answer as LangChain's method does. Raises RequestError for `n` above 1."""
            require_one_answer("ainvoke", self, kwargs)
            return await super().ainvoke(input, config, **kwargs)

        def batch(self, inputs: Any, config: Any = None, **kwargs: Any) -> Any:
            """Answer several inputs at the same time.

            At most `max_concurrency` inputs are answered at once if the config sets it, and at most
            `max_lanes` otherwise. With `return_exceptions=True`, an input that fails has its own
            exception. Raises RequestError for `n` above 1.
            """
            require_one_answer("batch", self, kwargs)
            at_once = min(len(inputs), self.max_lanes)
            configs = [
                patch_config(each, max_concurrency=each.get("max_concurrency") or at_once)
                for each in get_config_list(config, len(inputs))
            ]
            return Runnable.batch(self, inputs, configs, **kwargs)

        async def abatch(self, inputs: Any, config: Any = None, **kwargs: Any) -> Any:
            """Answer as `batch` does, without blocking the event loop."""
            require_one_answer("abatch", self, kwargs)
            return await Runnable.abatch(self, inputs, config, **kwargs)

    def overridden(
        self, options: Mapping[str, Any], stop: str | Iterable[str] | None = None
    ) -> marith.Options:
        """Return these options, overridden by the options of one call.

        The call's stop strings are added to the stop strings of the model.

        If `model` names a formula of the file, that formula's own options apply, as for
        `marith.Options`. Raises ValueError for an unknown option or an invalid value. The error is
        both marith's and LangChain's.
        """
        with translated():
            return super().overridden(options, stop)

    def get_token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text in the model's vocabulary. Loads the model."""
        with translated():
            return self.engine().encode(text)

    def get_num_tokens(self, text: str) -> int:
        """Return the number of tokens of a text in the model's vocabulary. Loads the model."""
        return len(self.get_token_ids(text))


def answers_of(model: LangChainOptions, call: Mapping[str, Any]) -> int:
    """Return the number of answers to each prompt of a call with these options."""
    return model.n if call.get("n") is None else to_n(call["n"])


def require_one_answer(method: str, model: LangChainOptions, call: Mapping[str, Any]) -> None:
    """Raise RequestError if `n` is above 1, for a method that returns one answer."""
    with translated():
        if (n := answers_of(model, call)) > 1:
            problem = f"{method} returns one answer for each prompt, not n={n}"
            raise marith.RequestError(f"{problem}; generate returns all of them")


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options of one call, the number `n` of answers, and the other fields of requests."""

    options: marith.Options
    n: int = 1
    request_options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: LangChainOptions,
        stop: Sequence[str] | None,
        options: Mapping[str, Any],
        calls_tools: bool,
    ) -> Invocation:
        """Return the invocation of a model with the options of one call.

        Raises MarithError for an unknown option, before anything is loaded.
        """
        names = (*ANSWER_OPTIONS, *(_TOOL_OPTIONS if calls_tools else ()))
        request_fields = {name: options[name] for name in names if name in options}
        rest = {k: v for k, v in options.items() if k not in request_fields and k not in _IGNORED}
        if rest:
            model.check_call(rest, names)
        chosen = model.overridden(rest, stop)
        n = answers_of(model, options)
        if not request_fields:
            return cls(chosen, n)
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
        return cls(chosen, n, request_options)

    @staticmethod
    def key(model: LangChainOptions, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a call as a part of the key of cached answers.

        A class is represented by its grammar, and a function by a unique name, because several
        classes or functions may have the same name.
        """
        named = dict(options)
        if isinstance(format_ := named.get("response_format"), type):
            named["response_format"] = to_grammar(None, format_)
        if functions := named.get("constraints"):
            chosen = model.overridden({"constraints": functions})
            named["constraints"] = chosen.identity()["constraints"]
        return named

    def submit(self, prompts: Sequence[Prompt], started: float) -> list[marith.Ticket]:
        """Submit `n` requests for each prompt, or none if one is refused. Return their tickets.

        The timeout counts from `started`.
        """
        samples = [self.options.sample(i) for i in range(self.n)]
        tickets: list[marith.Ticket] = []
        try:
            for prompt in prompts:
                for options in samples:
                    ticket = options.submit(prompt, started=started, **self.request_options)
                    tickets.append(ticket)
        except BaseException:
            _cancel(tickets)
            raise
        return tickets

    async def asubmit(self, prompts: Sequence[Prompt], started: float) -> list[marith.Ticket]:
        """Submit in a thread, because weights may have to be loaded.

        Waits at most until the deadline.
        """
        submitted = run_in_executor(None, self.submit, prompts, started)
        return await self.options.deadline(started).wait_for(submitted)


def collect(tickets: Sequence[marith.Ticket]) -> list[marith.Completion]:
    """Return all completions. If one fails, the others are cancelled."""
    try:
        with translated():
            return [ticket.result() for ticket in tickets]
    finally:
        _cancel(tickets)


async def acollect(tickets: Sequence[marith.Ticket]) -> list[marith.Completion]:
    """Return all completions, without blocking the event loop."""
    try:
        with translated():
            return [await ticket for ticket in tickets]
    finally:
        _cancel(tickets)


Piece = tuple[marith.Chunk, marith.Completion | None]


def pieces(ticket: marith.Ticket) -> Generator[Piece, None, None]:
    """Yield the chunks, the last one with the completion.

    Closing the generator cancels the request.
    """
    try:
        with translated():
            for chunk in ticket:
                yield chunk, ticket.result() if chunk.finish_reason else None
    finally:
        _cancel([ticket])


async def apieces(ticket: marith.Ticket) -> AsyncGenerator[Piece, None]:
    """Yield the chunks as they come, without blocking the event loop."""
    try:
        with translated():
            async for chunk in ticket:
                yield chunk, await ticket if chunk.finish_reason else None
    finally:
        _cancel([ticket])


def _cancel(tickets: Sequence[marith.Ticket]) -> None:
    for ticket in tickets:
        ticket.cancel()
