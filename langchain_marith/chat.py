"""A formula as LangChain's chat model."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, closing
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import (
    BaseChatModel,
    LanguageModelInput,
    ModelProfile,
)
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import run_in_executor
from langchain_core.tools import BaseTool
from pydantic import ConfigDict

import marith
from langchain_marith.ai_messages import ChunkWriter, to_message
from langchain_marith.exceptions import translated
from langchain_marith.invocation import (
    TEXTS,
    Invocation,
    LangChainOptions,
    Prompt,
    acollect,
    apieces,
    collect,
    pieces,
    require_one_answer,
)
from langchain_marith.messages import to_dicts
from langchain_marith.structured_output import Method, Schema, model_and_parser, with_parser
from langchain_marith.tool_definitions import TOOLS_AND_FORM, ModelWithTools, to_definitions
from marith.openai_format import to_tools


class ChatMarith(LangChainOptions, BaseChatModel):
    """A chat model that samples from a formula over language models.

    A `ChatMarith` is cheap to make: all models of a process share their engines. A call may
    override every option, and may have `tools`, `tool_choice`, `strict`, `parallel_tool_calls`,
    `response_format`, `grammar`, `logprobs`, `top_logprobs` and `n`. An unknown option raises
    ValueError. Errors are instances of both marith's and LangChain's classes.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    streaming: bool = False

    @property
    def _llm_type(self) -> str:
        return "marith-chat"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return a model that may call tools. The calls follow the schemas of the tools.

        `tool_choice` is "auto", "none", "required" ("any" and True mean the same as "required"), or
        the name of the tool that must be called. If `parallel_tool_calls` is False, an answer has
        at most one call. If `strict` is False, objects may have properties that their schemas do
        not name. Raises RequestError for an invalid tool or choice.
        """
        with translated():
            definitions = to_definitions(tools)
            # This raises errors now, and not at each call.
            to_tools(definitions, to_definitions, tool_choice, parallel_tool_calls, strict)
        options = {
            "tool_choice": tool_choice,
            "strict": strict,
            "parallel_tool_calls": parallel_tool_calls,
        }
        tool_options = {name: value for name, value in options.items() if value is not None}
        bound = {"tools": definitions, **tool_options, **kwargs}
        return ModelWithTools(bound=self, kwargs=bound, config={})

    def with_structured_output(
        self,
        schema: Schema | None = None,
        *,
        method: Method = "json_schema",
        include_raw: bool = False,
        strict: bool | None = None,
        show_schema: bool = True,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Return a model whose answers are objects of a schema, which decoding enforces.

        For a pydantic class, answers are its instances. For an Enum, answers are its members. For a
        TypedDict, a JSON schema or a tool, answers are dicts. With the method "json_schema" the
        answer is the object. Unless `show_schema` is False, the chat template then shows the model
        the schema in the same way as a tool. With "function_calling" the answer is a call of a
        tool. With "json_mode" the answer is any object, or follows the schema if there is one. A
        stream yields the object as far as it is complete. Raises OutputParserException for an
        answer that was cut off at `max_tokens`; with `include_raw` the exception is under
        "parsing_error", next to "raw" and "parsed".
        """
        with translated():
            for name in kwargs:
                problem = f"with_structured_output takes no option {name!r}"
                advice = f"; {TOOLS_AND_FORM}" if name == "tools" else ""
                raise marith.RequestError(problem + advice)
            model, parser = model_and_parser(self, schema, method, strict, show_schema)
        return with_parser(model, parser, include_raw)

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Return the number of tokens of messages and `tools` under the model's chat template.

        An empty list has 0 tokens. Loads the model.
        """
        with translated():
            engine = self.engine()
            # LangChain's `trim_messages` also counts the tokens of an empty list.
            if not messages:
                return 0
            return engine.count_tokens(
                to_dicts(messages), to_definitions(tools or ()), self.chat_template_kwargs
            )

    def _resolve_model_profile(self) -> ModelProfile:
        """Return what the model can do, and the length of its context if its files state it."""
        profile = ModelProfile(
            text_inputs=True,
            image_inputs=False,
            audio_inputs=False,
            video_inputs=False,
            text_outputs=True,
            tool_calling=True,
            tool_choice=True,
            tool_call_streaming=True,
            structured_output=True,
            temperature=True,
        )
        if context := self.known_context():
            profile["max_input_tokens"] = context
        for key in profile.keys() - ModelProfile.__annotations__.keys():
            # Earlier releases of LangChain warn of keys that they do not know.
            del profile[key]  # type: ignore[misc]
        return profile

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        options, tickets = self._submit(messages, stop, kwargs)
        return _result(options, collect(tickets))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        options, tickets = await self._asubmit(messages, stop, kwargs)
        return _result(options, await acollect(tickets))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        require_one_answer("stream", self, kwargs)
        options, (ticket,) = self._submit(messages, stop, kwargs)
        # LangChain passes a run manager only when it streams events. In all other streams, it calls
        # the callback handlers itself.
        writer = ChunkWriter(options, self.output_version, collects=bool(run_manager))
        with closing(pieces(ticket)) as answer:
            for piece, completion in answer:
                for chunk in writer.chunks(piece, completion):
                    if run_manager:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        require_one_answer("astream", self, kwargs)
        options, (ticket,) = await self._asubmit(messages, stop, kwargs)
        writer = ChunkWriter(options, self.output_version, collects=bool(run_manager))
        async with aclosing(apieces(ticket)) as answer:
            async for piece, completion in answer:
                for chunk in writer.chunks(piece, completion):
                    if run_manager:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    def _get_llm_string(self, stop: list[str] | None = None, **kwargs: Any) -> str:
        with translated():
            key = Invocation.key(self, kwargs)
        return super()._get_llm_string(stop, **key)

    def _get_invocation_params(
        self, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the parameters of a call that LangChain's traces show.

        A `formula`, `terms` or `faithful_to` of the call is shown in place of the model's own. The
        texts in it are hidden.
        """
        called = {name: kwargs.pop(name) for name in TEXTS if name in kwargs}
        if not called:
            return super()._get_invocation_params(stop, **kwargs)
        model = self.model_copy(update=self.overridden(called).values())
        return super(ChatMarith, model)._get_invocation_params(stop, **kwargs)

    def _submit(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[marith.Options, list[marith.Ticket]]:
        """Start the requests of a conversation on the engine. The timeout counts from here."""
        started = time.monotonic()
        with translated():
            invocation, prompt = self._read(messages, stop, options)
            return invocation.options, invocation.submit([prompt], started)

    async def _asubmit(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[marith.Options, list[marith.Ticket]]:
        """Start the requests of a conversation without blocking the event loop."""
        started = time.monotonic()
        with translated():
            invocation, prompt = await run_in_executor(None, self._read, messages, stop, options)
            return invocation.options, await invocation.asubmit([prompt], started)

    def _read(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, options: dict[str, Any]
    ) -> tuple[Invocation, Prompt]:
        return Invocation.of(self, stop, options, calls_tools=True), to_dicts(messages)


def _result(options: marith.Options, completions: list[marith.Completion]) -> ChatResult:
    messages = [to_message(options, completion) for completion in completions]
    return ChatResult(generations=[ChatGeneration(message=message) for message in messages])
