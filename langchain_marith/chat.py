"""A formula as LangChain's chat model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    convert_to_openai_messages,
)
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
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


class ChatMarith(Asking, BaseChatModel):
    """A chat model that samples from a formula over language models.

    A cheap value: engines are shared by all models of one process. An unknown option
    raises; a prompt longer than the context raises LangChain's ContextOverflowError.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    streaming: bool = False

    @property
    def _llm_type(self) -> str:
        return "marith-chat"

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """How many tokens the messages have under the model's chat template. Loads the model."""
        if tools:
            raise ValueError(f"ChatMarith calls no tools yet, so {len(tools)} cannot be counted")
        return self.engine().count_tokens(_to_dicts(messages))

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=[*self.stop, *(stop or ())], **kwargs)
        return {**params, "ls_provider": PROVIDER}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        asked = self._asked(stop, kwargs)
        tickets = asked.submit([_to_dicts(messages)])
        return _result(asked, collect(tickets))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        asked = self._asked(stop, kwargs)
        tickets = await asked.asubmit([_to_dicts(messages)])
        return _result(asked, await acollect(tickets))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        asked = self._asked(stop, kwargs)
        (ticket,) = asked.submit([_to_dicts(messages)])
        for text, completion in pieces(ticket):
            chunk = _chunk(asked, text, completion)
            if run_manager:
                run_manager.on_llm_new_token(text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        asked = self._asked(stop, kwargs)
        (ticket,) = await asked.asubmit([_to_dicts(messages)])
        async with aclosing(apieces(ticket)) as told:
            async for text, completion in told:
                chunk = _chunk(asked, text, completion)
                if run_manager:
                    await run_manager.on_llm_new_token(text, chunk=chunk)
                yield chunk

    def _asked(self, stop: list[str] | None, options: dict[str, Any]) -> Asked:
        """`stream` is LangChain's own switch between the two ways to ask."""
        return self._for_call(stop, {k: v for k, v in options.items() if k != "stream"})


def _to_dicts(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Role and content; an assistant's calls and a tool's answer as OpenAI writes them."""
    dicts: list[dict[str, Any]] = convert_to_openai_messages(messages)
    return dicts


def _result(asked: Asked, completions: list[marith.Completion]) -> ChatResult:
    (completion,) = completions
    message = AIMessage(
        content=completion.text,
        usage_metadata=_usage(completion),
        response_metadata=asked.metadata(completion),
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunk(asked: Asked, text: str, completion: marith.Completion | None) -> ChatGenerationChunk:
    """A piece of text. What is said once is on the last one: LangChain adds chunks up."""
    if completion is None:
        return ChatGenerationChunk(message=AIMessageChunk(content=text))
    message = AIMessageChunk(
        content=text,
        usage_metadata=_usage(completion),
        response_metadata=asked.metadata(completion),
        chunk_position="last",
    )
    return ChatGenerationChunk(message=message)


def _usage(completion: marith.Completion) -> UsageMetadata:
    usage = completion.usage
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        input_token_details=InputTokenDetails(cache_read=usage.cached_tokens),
    )
