"""A formula as LangChain's text model."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.llms import BaseLLM
from langchain_core.outputs import Generation, GenerationChunk, LLMResult
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict, PrivateAttr

import marith
from langchain_marith.ai_messages import metadata, reasoning_kwargs
from langchain_marith.exceptions import translated
from langchain_marith.invocation import (
    ANSWER_OPTIONS,
    Invocation,
    LangChainOptions,
    acollect,
    apieces,
    collect,
    pieces,
    require_one_answer,
)
from marith.openai_format import from_logprobs, from_usage, total_usage


class MarithLLM(LangChainOptions, BaseLLM):
    """A text model that samples from a formula. A prompt is read as a user's message.

    A batch of prompts runs at the same time. A call may override every option, and may have
    `grammar`, `response_format`, `logprobs`, `top_logprobs` and `n`. An unknown option raises
    ValueError. Errors are instances of both marith's and LangChain's classes.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    # The options of one call that are not fields of the model.
    _answer_options: dict[str, Any] = PrivateAttr(default_factory=dict)
    # True while the model is written to a file.
    _saves: bool = PrivateAttr(default=False)

    @property
    def _llm_type(self) -> str:
        return "marith"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """The options that determine a text: the key of cached answers."""
        if self._saves:
            return {**self.identity(), "n": self.n}
        return {**super()._identifying_params, **self._answer_options}

    def save(self, file_path: Path | str) -> None:
        """Write the model to a file as LangChain does, with the texts of its terms."""
        whole = self.model_copy()
        whole._saves = True
        super(MarithLLM, whole).save(file_path)

    def generate(self, prompts: list[str], *args: Any, **kwargs: Any) -> LLMResult:
        """Generate as LangChain does. The call's options are part of the key of cached answers."""
        return super(MarithLLM, self._for_call(kwargs)).generate(prompts, *args, **kwargs)

    async def agenerate(self, prompts: list[str], *args: Any, **kwargs: Any) -> LLMResult:
        """Generate as LangChain does. The call's options are part of the key of cached answers."""
        return await super(MarithLLM, self._for_call(kwargs)).agenerate(prompts, *args, **kwargs)

    # Type checkers see the signatures of LangChain's own methods.
    if not TYPE_CHECKING:

        def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 (its name)
            """Stream as LangChain does. Traces show the options of the call as the model's."""
            called = super(MarithLLM, self._for_call(kwargs))
            yield from called.stream(input, config, **kwargs)

        async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 (its name)
            """Stream as LangChain does. Traces show the options of the call as the model's."""
            called = super(MarithLLM, self._for_call(kwargs))
            async with aclosing(called.astream(input, config, **kwargs)) as arriving:
                async for piece in arriving:
                    yield piece

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        invocation, tickets = self._submit(prompts, stop, kwargs)
        return _result(invocation, collect(tickets))

    async def _agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        invocation, tickets = await self._asubmit(prompts, stop, kwargs)
        return _result(invocation, await acollect(tickets))

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[GenerationChunk]:
        require_one_answer("stream", self, kwargs)
        invocation, (ticket,) = self._submit([prompt], stop, kwargs)
        with closing(pieces(ticket)) as answer:
            for piece, completion in answer:
                chunk = _chunk(invocation.options, piece, completion)
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
        require_one_answer("astream", self, kwargs)
        invocation, (ticket,) = await self._asubmit([prompt], stop, kwargs)
        async with aclosing(apieces(ticket)) as answer:
            async for piece, completion in answer:
                chunk = _chunk(invocation.options, piece, completion)
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    def _submit(
        self, prompts: list[str], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[Invocation, list[marith.Ticket]]:
        """Start the requests of prompts on the engine. The timeout counts from here."""
        started = time.monotonic()
        with translated():
            invocation = Invocation.of(self, stop, options, calls_tools=False)
            return invocation, invocation.submit(prompts, started)

    async def _asubmit(
        self, prompts: list[str], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[Invocation, list[marith.Ticket]]:
        """Start the requests of prompts without blocking the event loop."""
        started = time.monotonic()
        with translated():
            invocation = await run_in_executor(
                None, Invocation.of, self, stop, options, calls_tools=False
            )
            return invocation, await invocation.asubmit(prompts, started)

    def _for_call(self, kwargs: dict[str, Any]) -> Self:
        """Return the model with a call's options. Fields of the model are removed from `kwargs`."""
        fields = {name: kwargs.pop(name) for name in [*kwargs] if name in self.call_names()}
        model = self.model_copy(update=self.overridden(fields).values())
        answer_options = {name: kwargs[name] for name in ANSWER_OPTIONS if name in kwargs}
        with translated():
            model._answer_options = Invocation.key(self, answer_options)
        return model


def _result(invocation: Invocation, completions: list[marith.Completion]) -> LLMResult:
    """Return the generations of each prompt, in order."""
    options, n = invocation.options, invocation.n
    answers = [completions[i : i + n] for i in range(0, len(completions), n)]
    generations = [[_generation(options, completion) for completion in each] for each in answers]
    usage = total_usage([completion.usage for completion in completions], n)
    output = {"token_usage": from_usage(usage), "model_name": options.speaks_as}
    return LLMResult(generations=generations, llm_output=output)


def _generation(options: marith.Options, completion: marith.Completion) -> Generation:
    info = _info(options, completion) | from_logprobs(completion.logprobs)
    return Generation(text=completion.text, generation_info=info)


def _chunk(
    options: marith.Options, piece: marith.Chunk, completion: marith.Completion | None
) -> GenerationChunk:
    """Return a chunk of text. Only the last one has the costs, because LangChain adds up chunks."""
    info = {} if completion is None else _info(options, completion)
    info |= from_logprobs(piece.logprobs)
    return GenerationChunk(text=piece.text, generation_info=info or None)


def _info(options: marith.Options, completion: marith.Completion) -> dict[str, Any]:
    """Return the costs of a text, its finish reason, and the reasoning before it."""
    usage = {"token_usage": from_usage(completion.usage)}
    return metadata(options, completion) | reasoning_kwargs(completion) | usage
