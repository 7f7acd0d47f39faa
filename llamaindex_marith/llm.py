"""A formula as LlamaIndex's language model."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.generic_utils import messages_to_prompt as generic
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.constants import DEFAULT_NUM_OUTPUTS
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool
from llama_index.core.tools.function_tool import sync_to_async
from pydantic import ConfigDict, InstanceOf, field_serializer, field_validator

import marith
from llamaindex_marith.chat_call import ChatCall
from llamaindex_marith.chat_messages import to_dicts
from llamaindex_marith.chat_responses import ResponseBuilder, to_chat, to_completion
from llamaindex_marith.structured_predict import StructuredPrediction
from llamaindex_marith.tool_selection import selections, to_definitions

# This quotes a value as marith's own errors do.
shown = marith.errors.shown


class Marith(marith.Options, StructuredPrediction):
    """A language model that samples from a formula over language models.

    A `Marith` is cheap to make: all models of a process share their engines. `complete` sends its
    prompt as a user's message, after the system prompt. A call may override every option, and may
    have `grammar` (the form of the answer), `logprobs` (the number of likeliest tokens to list at
    each place) and, in a chat, `tools`, `tool_choice`, `tool_required`, `allow_parallel_tool_calls`
    and `strict`. An unknown option raises ValueError. `faithful` finds retrieved text by
    LlamaIndex's own templates, and by `faithful_to` if it is set.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    grammar: InstanceOf[marith.Grammar] | None = None

    # Type checkers see the signature that pydantic makes from the fields.
    if not TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """Check all options. Raises an error of marith, and not of pydantic."""
            with marith.errors.valid_options():
                marith.errors.require_no_positional(type(self).__name__, args)
                super().__init__(**kwargs)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex stores the model."""
        return "Marith"

    @property
    def metadata(self) -> LLMMetadata:
        """The limits of prompts and answers.

        Loads the model only if the model's files do not state its context.
        """
        return LLMMetadata(
            context_window=self.known_context() or self._loaded_context(),
            num_output=DEFAULT_NUM_OUTPUTS if self.max_tokens is None else self.max_tokens,
            is_chat_model=True,
            is_function_calling_model=True,
            model_name=self.speaks_as,
        )

    def to_payload(self) -> dict[str, Any]:
        """Return what observers see: all options that determine a text. Loads nothing."""
        return {
            "class_name": self.class_name(),
            "model_name": self.speaks_as,
            "grammar": self._grammar_as_data(self.grammar),
            **self.identity(),
        }

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text in the model's vocabulary. Loads the model.

        Use it as `Settings.tokenizer`.
        """
        return self.engine().encode(text)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer a prompt."""
        return to_completion(self._answer(self._question(prompt, formatted), kwargs, in_chat=False))

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        """Answer a prompt, and yield the text as it comes."""
        answers = self._answers(self._question(prompt, formatted), kwargs, in_chat=False)
        return (to_completion(answer) for answer in answers)

    @llm_completion_callback()
    async def acomplete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        """Answer a prompt without blocking the event loop."""
        question = self._question(prompt, formatted)
        return to_completion(await self._aanswer(question, kwargs, in_chat=False))

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseAsyncGen:
        """Answer a prompt, and yield the text as it comes, without blocking the event loop."""
        question = self._question(prompt, formatted)
        answers = await self._aanswers(question, kwargs, in_chat=False)
        return (to_completion(answer) async for answer in answers)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer a conversation."""
        return self._answer(messages, kwargs)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Answer a conversation, and yield the text as it comes."""
        return self._answers(messages, kwargs)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer a conversation without blocking the event loop."""
        return await self._aanswer(messages, kwargs)

    @llm_chat_callback()
    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> ChatResponseAsyncGen:
        """Answer a conversation, and yield the text, without blocking the event loop."""
        return await self._aanswers(messages, kwargs)

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """Return the calls of an answer, or of a partial answer.

        Raises ValueError for a call that `max_tokens` cut off, and for an answer without a call
        unless `error_on_no_tool_call` is False.
        """
        return selections(response, error_on_no_tool_call)

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return a chat's messages and options as plain data, which observers see."""
        if isinstance(user_msg, str):
            user_msg = _user(user_msg)
        options = {
            "tools": to_definitions(tools),
            "tool_choice": tool_choice,
            "tool_required": tool_required,
            "allow_parallel_tool_calls": allow_parallel_tool_calls,
        }
        messages = [*(chat_history or ()), *([user_msg] if user_msg else ())]
        return {"messages": messages, **options, **kwargs}

    def _question(self, prompt: str, formatted: bool) -> list[ChatMessage]:
        """Return a prompt as a conversation. A formatted prompt is not changed."""
        wrap = None if formatted else self.completion_to_prompt
        text = wrap(prompt) if wrap else prompt
        question = [_user(text)]
        return question if formatted else self._extend_messages(question)

    def _answer(
        self, messages: Sequence[ChatMessage], options: dict[str, Any], in_chat: bool = True
    ) -> ChatResponse:
        call, ticket = self._submit(messages, options, in_chat)
        return to_chat(call.options, ticket.result())

    async def _aanswer(
        self, messages: Sequence[ChatMessage], options: dict[str, Any], in_chat: bool = True
    ) -> ChatResponse:
        call, ticket = await self._asubmit(messages, options, in_chat)
        return to_chat(call.options, await ticket)

    def _answers(
        self, messages: Sequence[ChatMessage], options: dict[str, Any], in_chat: bool = True
    ) -> Generator[ChatResponse, None, None]:
        call, ticket = self._submit(messages, options, in_chat)

        def responses() -> Generator[ChatResponse, None, None]:
            builder = ResponseBuilder(call.options)
            try:
                for chunk in ticket:
                    completion = ticket.result() if chunk.finish_reason else None
                    yield builder.add(chunk, completion)
            finally:
                ticket.cancel()

        return responses()

    async def _aanswers(
        self, messages: Sequence[ChatMessage], options: dict[str, Any], in_chat: bool = True
    ) -> AsyncGenerator[ChatResponse, None]:
        call, ticket = await self._asubmit(messages, options, in_chat)

        async def responses() -> AsyncGenerator[ChatResponse, None]:
            builder = ResponseBuilder(call.options)
            try:
                async for chunk in ticket:
                    completion = await ticket if chunk.finish_reason else None
                    yield builder.add(chunk, completion)
            finally:
                ticket.cancel()

        return responses()

    def _submit(
        self, messages: Sequence[ChatMessage], options: dict[str, Any], in_chat: bool
    ) -> tuple[ChatCall, marith.Ticket]:
        """Start the request of a conversation on the engine. The timeout counts from here."""
        started = time.monotonic()
        call, prompt = self._read(messages, options, in_chat)
        return call, call.submit(prompt, started)

    async def _asubmit(
        self, messages: Sequence[ChatMessage], options: dict[str, Any], in_chat: bool
    ) -> tuple[ChatCall, marith.Ticket]:
        """Start the request of a conversation without blocking the event loop."""
        started = time.monotonic()
        call, prompt = await sync_to_async(self._read)(messages, options, in_chat)
        return call, await call.asubmit(prompt, started)

    def _read(
        self, messages: Sequence[ChatMessage], options: dict[str, Any], in_chat: bool
    ) -> tuple[ChatCall, list[dict[str, Any]]]:
        call = ChatCall.of(self, self.grammar, options, in_chat)
        if in_chat and self.messages_to_prompt not in (None, generic):
            messages = [_user(self.messages_to_prompt(messages))]
        prompt = to_dicts(messages)
        return call.for_prompt(prompt), prompt

    def _loaded_context(self) -> int:
        length = self.engine().context_length
        return self.known_context(length) or length

    @field_validator("grammar", mode="before")
    @classmethod
    def _grammar_from_data(cls, grammar: Any) -> Any:
        as_data = isinstance(grammar, dict) and grammar.keys() == {"kind", "text"}
        return marith.Grammar(**grammar) if as_data else grammar

    @field_serializer("grammar")
    def _grammar_as_data(self, grammar: marith.Grammar | None) -> dict[str, str] | None:
        return None if grammar is None else {"kind": grammar.kind, "text": grammar.text}


def _user(text: Any) -> ChatMessage:
    """Return a prompt as a user's message. Raises RequestError for a prompt that is not a text."""
    if not isinstance(text, str):
        raise marith.RequestError(f"a prompt is a text, not {shown(text)}")
    return ChatMessage(role=MessageRole.USER, content=text)
