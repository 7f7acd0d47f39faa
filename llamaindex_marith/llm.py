"""A formula as LlamaIndex's language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    TextBlock,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.tools.function_tool import sync_to_async
from pydantic import ConfigDict

import marith

_ROLES = {MessageRole.CHATBOT: "assistant", MessageRole.MODEL: "assistant"}


class Marith(marith.Options, CustomLLM):
    """A language model that samples from a formula over language models.

    A cheap value: engines are shared by all models of one process. `complete` asks
    as a user's message, after the system prompt. An unknown option raises.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex stores it."""
        return "Marith"

    @property
    def metadata(self) -> LLMMetadata:
        """What prompts are cut to. Loads the model, unless `context_length` is given."""
        return LLMMetadata(
            context_window=self.context_length or self.engine().context_length,
            num_output=self.max_tokens,
            is_chat_model=True,
            model_name=self.model,
        )

    def to_payload(self) -> dict[str, Any]:
        """What observers are told, without loading the model."""
        return {"class_name": self.class_name(), "model_name": self.model, **self.chosen()}

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer a prompt."""
        return self._answer(self._asked(prompt, formatted), kwargs)

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        """Answer a prompt as the text comes."""
        return self._answers(self._asked(prompt, formatted), kwargs)

    @llm_completion_callback()
    async def acomplete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponse:
        """Answer a prompt without holding up the event loop."""
        return await self._aanswer(self._asked(prompt, formatted), kwargs)

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseAsyncGen:
        """Answer a prompt as the text comes, without holding up the event loop."""
        return await self._aanswers(self._asked(prompt, formatted), kwargs)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer a conversation."""
        return _as_chat(self._answer(messages, kwargs))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Answer a conversation as the text comes."""
        return (_as_chat(answer) for answer in self._answers(messages, kwargs))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer a conversation without holding up the event loop."""
        return _as_chat(await self._aanswer(messages, kwargs))

    @llm_chat_callback()
    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> ChatResponseAsyncGen:
        """Answer a conversation as the text comes, without holding up the event loop."""
        answers = await self._aanswers(messages, kwargs)
        return (_as_chat(answer) async for answer in answers)

    def _asked(self, prompt: str, formatted: bool) -> list[ChatMessage]:
        """A prompt as a conversation; one that is formatted says all there is to say."""
        text = (
            prompt
            if formatted or not self.completion_to_prompt
            else (self.completion_to_prompt(prompt))
        )
        question = [ChatMessage(role=MessageRole.USER, content=text)]
        return question if formatted else self._extend_messages(question)

    def _answer(
        self, messages: Sequence[ChatMessage], options: dict[str, Any]
    ) -> CompletionResponse:
        said = self.over(options)
        completion = _submit(said, messages).result()
        return _response(said, completion.text, None, completion)

    async def _aanswer(
        self, messages: Sequence[ChatMessage], options: dict[str, Any]
    ) -> CompletionResponse:
        said = self.over(options)
        completion = await (await sync_to_async(_submit)(said, messages))
        return _response(said, completion.text, None, completion)

    def _answers(
        self, messages: Sequence[ChatMessage], options: dict[str, Any]
    ) -> CompletionResponseGen:
        said = self.over(options)
        ticket = _submit(said, messages)

        def told() -> CompletionResponseGen:
            text = ""
            try:
                for chunk in ticket:
                    text += chunk.text
                    completion = ticket.result() if chunk.finish_reason else None
                    yield _response(said, text, chunk.text, completion)
            finally:
                ticket.cancel()

        return told()

    async def _aanswers(
        self, messages: Sequence[ChatMessage], options: dict[str, Any]
    ) -> CompletionResponseAsyncGen:
        said = self.over(options)
        ticket = await sync_to_async(_submit)(said, messages)

        async def told() -> CompletionResponseAsyncGen:
            text = ""
            try:
                async for chunk in ticket:
                    text += chunk.text
                    completion = await ticket if chunk.finish_reason else None
                    yield _response(said, text, chunk.text, completion)
            finally:
                ticket.cancel()

        return told()


def _submit(said: marith.Options, messages: Sequence[ChatMessage]) -> marith.Ticket:
    return said.engine().submit(said.request([_to_dict(message) for message in messages]))


def _response(
    said: marith.Options, text: str, delta: str | None, completion: marith.Completion | None
) -> CompletionResponse:
    """The text so far; the last one also says what it cost and why it ended."""
    if completion is None:
        return CompletionResponse(text=text, delta=delta)
    usage = {
        "prompt_tokens": completion.usage.prompt_tokens,
        "completion_tokens": completion.usage.completion_tokens,
        "total_tokens": completion.usage.total_tokens,
    }
    stats = completion.stats
    raw = {
        "usage": {**usage, "cached_tokens": completion.usage.cached_tokens},
        "finish_reason": completion.finish_reason,
        "model": said.model,
        "composition": {"formula": said.formula, "passes": stats.passes, "calls": stats.calls},
    }
    return CompletionResponse(text=text, delta=delta, raw=raw, additional_kwargs=usage)


def _as_chat(answer: CompletionResponse) -> ChatResponse:
    return ChatResponse(
        message=ChatMessage(role=MessageRole.ASSISTANT, content=answer.text),
        delta=answer.delta,
        raw=answer.raw,
        additional_kwargs=answer.additional_kwargs,
    )


def _to_dict(message: ChatMessage) -> dict[str, Any]:
    """Role and content, and which call a tool answers. Raises ValueError for what is no text."""
    for block in message.blocks:
        if not isinstance(block, TextBlock):
            raise ValueError(f"only text can be read, not a {type(block).__name__}")
    given = {"role": _ROLES.get(message.role, message.role.value), "content": message.content or ""}
    if message.additional_kwargs.get("tool_calls"):
        raise ValueError("Marith reads no tool calls yet")
    call = message.additional_kwargs.get("tool_call_id")
    return given if call is None else {**given, "tool_call_id": call}


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, marith.Formula) else value
