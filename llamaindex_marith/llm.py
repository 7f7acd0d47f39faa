"""A formula as LlamaIndex's language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    LogProb,
    MessageRole,
    TextBlock,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.tools.function_tool import sync_to_async
from pydantic import ConfigDict

import marith

_ROLES = {MessageRole.CHATBOT: "assistant", MessageRole.MODEL: "assistant"}
_ANSWERING = ("grammar", "logprobs")
_NEVER = -9999.0  # as OpenAI writes it: JSON knows no infinity


class Marith(marith.Options, CustomLLM):
    """A language model that samples from a formula over language models.

    A cheap value: engines are shared by all models of one process. `complete` asks
    as a user's message, after the system prompt. Every option may be given again for a call,
    and so may `grammar` (a `marith.Grammar`) and `logprobs` (of how many of the likeliest tokens
    in each place, beside the token's own). What stands in `<think>` is no part of the text, but
    the answer's `additional_kwargs["reasoning"]`. An unknown option raises ValueError.
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
            model_name=self.speaks_as,
        )

    def to_payload(self) -> dict[str, Any]:
        """What observers are told, without loading the model: all that a text hangs on."""
        told = {name: value for name, value in self.chosen().items() if name != "file"}
        return {"class_name": self.class_name(), "model_name": self.speaks_as, **told}

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
        said, ticket = self._ask(messages, options)
        return _whole(said, ticket.result())

    async def _aanswer(
        self, messages: Sequence[ChatMessage], options: dict[str, Any]
    ) -> CompletionResponse:
        said, ticket = await sync_to_async(self._ask)(messages, options)
        return _whole(said, await ticket)

    def _answers(
        self, messages: Sequence[ChatMessage], options: dict[str, Any]
    ) -> CompletionResponseGen:
        said, ticket = self._ask(messages, options)

        def told() -> CompletionResponseGen:
            telling = _Telling(said)
            try:
                for chunk in ticket:
                    completion = ticket.result() if chunk.finish_reason else None
                    yield telling.heard(chunk, completion)
            finally:
                ticket.cancel()

        return told()

    async def _aanswers(
        self, messages: Sequence[ChatMessage], options: dict[str, Any]
    ) -> CompletionResponseAsyncGen:
        said, ticket = await sync_to_async(self._ask)(messages, options)

        async def told() -> CompletionResponseAsyncGen:
            telling = _Telling(said)
            try:
                async for chunk in ticket:
                    completion = await ticket if chunk.finish_reason else None
                    yield telling.heard(chunk, completion)
            finally:
                ticket.cancel()

        return told()

    def _ask(
        self, messages: Sequence[ChatMessage], options: dict[str, Any]
    ) -> tuple[marith.Options, marith.Ticket]:
        """Put a conversation to the engine. No event loop waits for this: weights may load."""
        said = self.over({k: v for k, v in options.items() if k not in _ANSWERING})
        prompt = [_to_dict(message) for message in messages]
        asked = {name: options.get(name) for name in _ANSWERING}
        return said, said.submit(prompt, **asked)


@dataclass(slots=True)
class _Telling:
    """A stream so far: each of its answers holds all that came, as LlamaIndex has it."""

    said: marith.Options
    text: str = ""
    thought: str = ""

    def heard(
        self, chunk: marith.Chunk, completion: marith.Completion | None
    ) -> CompletionResponse:
        """The text with one piece more; the last one also says what it cost and why it ended."""
        self.text += chunk.text
        self.thought += chunk.reasoning
        if completion is not None:
            whole = _whole(self.said, completion)
            return whole.model_copy(update={"text": self.text, "delta": chunk.text})
        thought = {"reasoning": self.thought} if self.thought else {}
        return CompletionResponse(text=self.text, delta=chunk.text, additional_kwargs=thought)


def _whole(said: marith.Options, completion: marith.Completion) -> CompletionResponse:
    """A finished text, what was thought before it, what it cost and why it ended."""
    usage = {
        "prompt_tokens": completion.usage.prompt_tokens,
        "completion_tokens": completion.usage.completion_tokens,
        "total_tokens": completion.usage.total_tokens,
    }
    details = {
        "cached_tokens": completion.usage.cached_tokens,
        "reasoning_tokens": completion.usage.reasoning_tokens,
    }
    stats = completion.stats
    raw = {
        "usage": {**usage, **details},
        "finish_reason": completion.finish_reason,
        "model": said.speaks_as,
        "composition": {"formula": said.formula, "passes": stats.passes, "calls": stats.calls},
    }
    thought = {"reasoning": completion.reasoning} if completion.reasoning else {}
    logprobs = completion.logprobs
    return CompletionResponse(
        text=completion.text,
        raw=raw,
        logprobs=None if logprobs is None else [_logprobs(token) for token in logprobs],
        additional_kwargs={**usage, **thought},
    )


def _logprobs(token: marith.TokenLogprob) -> list[LogProb]:
    """A token's own log-probability, and after it those of the likeliest others in its place."""
    others = (other for other in token.top if other.token != token.token)
    return [
        LogProb(token=each.text, logprob=max(each.logprob, _NEVER), bytes=list(each.data))
        for each in (token, *others)
    ]


def _as_chat(answer: CompletionResponse) -> ChatResponse:
    return ChatResponse(
        message=ChatMessage(role=MessageRole.ASSISTANT, content=answer.text),
        delta=answer.delta,
        raw=answer.raw,
        logprobs=answer.logprobs,
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
