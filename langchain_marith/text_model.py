"""A formula as LangChain's text model: a string asks, a string answers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LangSmithParams
from langchain_core.language_models.llms import BaseLLM
from langchain_core.outputs import Generation, GenerationChunk, LLMResult
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict, PrivateAttr

import marith
from langchain_marith.ai_messages import metadata
from langchain_marith.invocation import (
    ANSWERING,
    PROVIDER,
    Asked,
    Asking,
    acollect,
    apieces,
    collect,
    pieces,
)
from marith.openai_format import from_logprobs, from_usage


class MarithLLM(Asking, BaseLLM):
    """A text model that samples from a formula; a prompt is read as a user's message.

    A batch of prompts is in flight together. Every option may be given again for a call, and so
    may `grammar`, `response_format`, `logprobs` and `top_logprobs`. An unknown option raises
    ValueError; errors are marith's and LangChain's at once.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    _told: dict[str, Any] = PrivateAttr(default_factory=dict)  # a call's, which is no field

    @property
    def _llm_type(self) -> str:
        return "marith"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """Everything that a text hangs on: the key of cached answers."""
        return {**super()._identifying_params, **self._told}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        given = stop if isinstance(stop, list) else []  # what is no list is refused when asked
        params = super()._get_ls_params(stop=[*self.stop, *given], **kwargs)
        named = kwargs.get("model", self.speaks_as)
        return {**params, "ls_provider": PROVIDER, "ls_model_name": named}

    def generate(self, prompts: list[str], *args: Any, **kwargs: Any) -> LLMResult:
        """As LangChain's own, but a call's options are part of the key of cached answers."""
        return super(MarithLLM, self._for_call(kwargs)).generate(prompts, *args, **kwargs)

    async def agenerate(self, prompts: list[str], *args: Any, **kwargs: Any) -> LLMResult:
        """As LangChain's own, but a call's options are part of the key of cached answers."""
        return await super(MarithLLM, self._for_call(kwargs)).agenerate(prompts, *args, **kwargs)

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        asked, tickets = self._ask(prompts, stop, kwargs)
        return _result(asked, collect(tickets))

    async def _agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        asked, tickets = await self._aask(prompts, stop, kwargs)
        return _result(asked, await acollect(tickets))

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[GenerationChunk]:
        asked, (ticket,) = self._ask([prompt], stop, kwargs)
        with closing(pieces(ticket)) as told:
            for piece, completion in told:
                chunk = _chunk(asked, piece, completion)
                if run_manager:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[GenerationChunk]:
        asked, (ticket,) = await self._aask([prompt], stop, kwargs)
        async with aclosing(apieces(ticket)) as told:
            async for piece, completion in told:
                chunk = _chunk(asked, piece, completion)
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    def _ask(
        self, prompts: list[str], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[Asked, list[marith.Ticket]]:
        """Put prompts to the engine. The timeout counts from here."""
        begun = time.monotonic()
        asked = Asked.of(self, stop, options, calls_tools=False)
        return asked, asked.submit(prompts, begun)

    async def _aask(
        self, prompts: list[str], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[Asked, list[marith.Ticket]]:
        """The same off the event loop."""
        begun = time.monotonic()
        asked = await run_in_executor(None, Asked.of, self, stop, options, calls_tools=False)
        return asked, await asked.asubmit(prompts, begun)

    def _for_call(self, kwargs: dict[str, Any]) -> Self:
        """This model with a call's own options: fields are taken out of `kwargs`, others noted."""
        own = {name: kwargs.pop(name) for name in [*kwargs] if name in self.option_names()}
        model = self.model_copy(update=self.over(own).values())
        model._told = {name: kwargs[name] for name in ANSWERING if name in kwargs}
        return model


def _result(asked: Asked, completions: list[marith.Completion]) -> LLMResult:
    generations = [
        [Generation(text=c.text, generation_info=_info(asked, c) | from_logprobs(c.logprobs))]
        for c in completions
    ]
    usage = {
        "token_usage": from_usage(*(completion.usage for completion in completions)),
        "model_name": asked.options.speaks_as,
    }
    return LLMResult(generations=generations, llm_output=usage)


def _chunk(
    asked: Asked, piece: marith.Chunk, completion: marith.Completion | None
) -> GenerationChunk:
    """A piece of text. What is said once is on the last one: LangChain adds chunks up."""
    info = from_logprobs(piece.logprobs) | ({} if completion is None else _info(asked, completion))
    return GenerationChunk(text=piece.text, generation_info=info or None)


def _info(asked: Asked, completion: marith.Completion) -> dict[str, Any]:
    """How a text came about, and what was thought before it."""
    thought = {"reasoning_content": completion.reasoning} if completion.reasoning else {}
    return {**metadata(asked, completion), **thought, "token_usage": from_usage(completion.usage)}
