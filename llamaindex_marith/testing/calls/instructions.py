"""Does the model read all that it was told: system prompts, wrappers, conversations?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import ChatPromptTemplate
from llama_index.core.types import BaseOutputParser

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.observers import Counter, usage_of
from llamaindex_marith.testing.tooling import template
from llamaindex_marith.testing.ways import (
    COMPLETIONS,
    ask,
    call,
    each_chat,
    each_completion,
    each_prediction,
    says,
    system,
    text_of,
    user,
)

OTHER = "What do bees do all day? Tell me a great deal about it, and leave nothing out."


class Shouting(BaseOutputParser):
    """Asks for nothing and writes answers in capitals."""

    def parse(self, output: str) -> str:
        """In capitals."""
        return output.upper()


class Prompts(LLMUnderTest):
    """What the model reads is what the application said, once."""

    @each_chat
    async def test_a_system_message_is_read(self, way: str) -> None:
        llm, said = self.llm(), user(self.question)
        plain = (await call(getattr(llm, way), [said]))[-1]
        prompts = (system(text) for text in self.system_prompts)
        told = [(await call(getattr(llm, way), [each, said]))[-1] for each in prompts]
        self._read(plain, told)

    @each_chat
    async def test_a_conversation_is_read_whole(self, way: str) -> None:
        llm, said = self.llm(), user(self.question)
        plain = (await call(getattr(llm, way), [said]))[-1]
        replies = [
            ChatMessage(role="assistant", content=text)
            for text in ("Bananas.", "It is forbidden to speak of that.", '{"a": [1, 2, 3]}')
        ]
        told = [(await call(getattr(llm, way), [said, each, said]))[-1] for each in replies]
        self._read(plain, told)

    @each_completion
    async def test_the_system_prompt_is_read_by_completions(self, way: str) -> None:
        plain = (await ask(self.llm(), way, self.question))[-1]
        llms = [self.llm(system_prompt=text) for text in self.system_prompts]
        self._read(plain, [(await ask(llm, way, self.question))[-1] for llm in llms])

    @pytest.mark.parametrize("way", COMPLETIONS[1:])
    async def test_completions_with_a_system_prompt_agree(self, way: str) -> None:
        for text in self.system_prompts:
            llm = self.llm(system_prompt=text, max_tokens=12)
            whole = await says(llm, "complete", self.question)
            assert await says(llm, way, self.question) == whole

    @each_prediction
    async def test_the_system_prompt_is_read_once_by_templates(self, way: str) -> None:
        text = self.system_prompts[0]
        told = await self._told(way, template(self.question), system_prompt=text)
        assert told == await self._by_hand([system(text), user(self.question)])

    @each_prediction
    async def test_a_template_of_messages_is_read_as_they_are(self, way: str) -> None:
        messages = [system(self.system_prompts[1]), user(self.question)]
        told = await self._told(way, ChatPromptTemplate(messages))
        assert told == await self._by_hand(messages)

    @each_completion
    async def test_a_completions_wrapper_is_what_is_read(self, way: str) -> None:
        wrapped: list[str] = []

        def always(prompt: str) -> str:
            wrapped.append(prompt)
            return self.question

        llm = self.llm(completion_to_prompt=always)
        text = await says(llm, way, OTHER)
        assert wrapped, "completion_to_prompt was not called"
        assert OTHER in wrapped[0]
        assert text == await says(llm, "complete", self.question, formatted=True)

    @each_completion
    async def test_a_formatted_prompt_is_left_alone(self, way: str) -> None:
        def never(prompt: str) -> str:
            raise AssertionError(f"a formatted prompt was wrapped: {prompt!r}")

        llm = self.llm(completion_to_prompt=never, system_prompt=self.system_prompts[1])
        truth = await says(self.llm(), "complete", self.question, formatted=True)
        assert await says(llm, way, self.question, formatted=True) == truth

    @each_chat
    async def test_a_conversations_wrapper_is_what_is_read(self, way: str) -> None:
        wrapped: list[Sequence[ChatMessage]] = []

        def always(messages: Sequence[ChatMessage]) -> str:
            wrapped.append(messages)
            return self.question

        llm = self.llm(messages_to_prompt=always)
        text = await says(llm, way, OTHER)
        assert wrapped, "messages_to_prompt was not called"
        assert OTHER in str(wrapped[0][-1].content)
        assert text == await says(llm, way, self.question)

    @pytest.mark.parametrize("way", ["predict", "apredict"])
    async def test_an_output_parser_reads_the_answer(self, way: str) -> None:
        plain = await call(getattr(self.llm(), way), template(self.question))
        llm = self.llm(output_parser=Shouting())
        assert await call(getattr(llm, way), template(self.question)) == [plain[0].upper()]

    async def _told(self, way: str, asked: Any, **options: Any) -> tuple[str, int]:
        """The answer to a template, and how long its prompt was, if that is told."""
        counter = Counter()
        llm = self.llm(callback_manager=counter.manager(), **options)
        told = await call(getattr(llm, way), asked)
        return "".join(told), counter.counts[0] if self.supports_usage else 0

    async def _by_hand(self, messages: list[ChatMessage]) -> tuple[str, int]:
        """The same for messages, as LlamaIndex puts them to this kind of LLM."""
        llm = self.llm()
        if llm.metadata.is_chat_model:
            told = await call(llm.chat, messages)
        else:
            wrapped: Any = llm.messages_to_prompt
            told = await call(llm.complete, wrapped(messages), formatted=True)
        return text_of(told[-1]), usage_of(told[-1])["prompt"] if self.supports_usage else 0

    def _read(self, plain: Any, told: list[Any]) -> None:
        """Hold that answers were given to longer prompts, and not all in the same words."""
        if self.supports_usage:
            least = usage_of(plain)["prompt"]
            assert all(usage_of(each)["prompt"] > least for each in told), "read no more than that"
        assert {text_of(each) for each in told} != {text_of(plain)}, "it makes no difference"
