"""A formula as LangChain's text model: a string asks, a string answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LangSmithParams
from langchain_core.language_models.llms import BaseLLM
from langchain_core.outputs import Generation, GenerationChunk, LLMResult
from pydantic import ConfigDict

import marith
from langchain_marith.asking import (
    PROVIDER,
    Asked,
    Asking,
    acollect,
    apieces,
    collect,
    pieces,
)


class MarithLLM(Asking, BaseLLM):
    """A text model that samples from a formula; a prompt is read as a user's message.

    A batch of prompts is in flight together. An unknown option raises.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    @property
    def _llm_type(self) -> str:
        return "marith"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=[*self.stop, *(stop or ())], **kwargs)
        return {**params, "ls_provider": PROVIDER}

    def generate(self, prompts: list[str], *args: Any, **kwargs: Any) -> LLMResult:
        """As LangChain's own, but a call's options are part of the key of cached answers."""
        return super(MarithLLM, self._told(kwargs)).generate(prompts, *args, **kwargs)

    async def agenerate(self, prompts: list[str], *args: Any, **kwargs: Any) -> LLMResult:
        """As LangChain's own, but a call's options are part of the key of cached answers."""
        return await super(MarithLLM, self._told(kwargs)).agenerate(prompts, *args, **kwargs)

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        asked = self._for_call(stop, kwargs)
        return _result(asked, collect(asked.submit(prompts)))

    async def _agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        asked = self._for_call(stop, kwargs)
        tickets = await asked.asubmit(prompts)
        return _result(asked, await acollect(tickets))

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[GenerationChunk]:
        asked = self._for_call(stop, kwargs)
        (ticket,) = asked.submit([prompt])
        for text, completion in pieces(ticket):
            chunk = GenerationChunk(text=text, generation_info=_info(asked, completion))
            if run_manager:
                run_manager.on_llm_new_token(text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[GenerationChunk]:
        asked = self._for_call(stop, kwargs)
        (ticket,) = await asked.asubmit([prompt])
        async with aclosing(apieces(ticket)) as told:
            async for text, completion in told:
                chunk = GenerationChunk(text=text, generation_info=_info(asked, completion))
                if run_manager:
                    await run_manager.on_llm_new_token(text, chunk=chunk)
                yield chunk

    def _told(self, kwargs: dict[str, Any]) -> Self:
        """This model with a call's own options, which are taken out of `kwargs`."""
        own = {name: kwargs.pop(name) for name in [*kwargs] if name in self._identifying_params}
        return self.model_copy(update=self.over(own).chosen())


def _result(asked: Asked, completions: list[marith.Completion]) -> LLMResult:
    return LLMResult(
        generations=[
            [Generation(text=completion.text, generation_info=_info(asked, completion))]
            for completion in completions
        ],
        llm_output={"token_usage": _usage(*completions), "model_name": asked.options.model},
    )


def _info(asked: Asked, completion: marith.Completion | None) -> dict[str, Any] | None:
    if completion is None:
        return None
    return {**asked.metadata(completion), "token_usage": _usage(completion)}


def _usage(*completions: marith.Completion) -> dict[str, int]:
    usages = [completion.usage for completion in completions]
    return {
        "prompt_tokens": sum(usage.prompt_tokens for usage in usages),
        "completion_tokens": sum(usage.completion_tokens for usage in usages),
        "total_tokens": sum(usage.total_tokens for usage in usages),
    }
