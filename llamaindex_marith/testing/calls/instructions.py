"""Does the model read the whole prompt: system prompts, wrappers, conversations?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import ChatPromptTemplate
from llama_index.core.types import BaseOutputParser

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.methods import (
    COMPLETION_METHODS,
    answer_text,
    ask,
    call,
    each_chat_method,
    each_completion_method,
    each_predict_method,
    system,
    text_of,
    user,
)
from llamaindex_marith.testing.observers import Counter, usage_of
from llamaindex_marith.testing.tooling import template

OTHER = "What do bees do all day? Tell me a great deal about it, and leave nothing out."


class Shouting(BaseOutputParser):
    """An output parser without instructions, which writes answers in capitals."""

    def parse(self, output: str) -> str:
        """The output in capitals."""
        return output.upper()


class Prompts(LLMUnderTest):
    """The model reads all of the application's prompt, and reads it once."""

    @each_chat_method
    async def test_a_system_message_is_read(self, method: str) -> None:
        chat, question = getattr(self.llm(), method), user(self.question)
        plain = (await call(chat, [question]))[-1]
        prompts = [system(text) for text in self.system_prompts]
        answers = [(await call(chat, [prompt, question]))[-1] for prompt in prompts]
        self._assert_read(plain, answers)

    @each_chat_method
    async def test_a_conversation_is_read_whole(self, method: str) -> None:
        chat, question = getattr(self.llm(), method), user(self.question)
        plain = (await call(chat, [question]))[-1]
        replies = [
            ChatMessage(role="assistant", content=text)
            for text in ("Bananas.", "It is forbidden to speak of that.", '{"a": [1, 2, 3]}')
        ]
        answers = [(await call(chat, [question, reply, question]))[-1] for reply in replies]
        self._assert_read(plain, answers)

    @each_completion_method
    async def test_the_system_prompt_is_read_by_completions(self, method: str) -> None:
        plain = (await ask(self.llm(), method, self.question))[-1]
        llms = [self.llm(system_prompt=text) for text in self.system_prompts]
        answers = [(await ask(llm, method, self.question))[-1] for llm in llms]
        self._assert_read(plain, answers)

    @pytest.mark.parametrize("method", COMPLETION_METHODS[1:])
    async def test_completions_with_a_system_prompt_agree(self, method: str) -> None:
        for text in self.system_prompts:
            llm = self.llm(system_prompt=text, max_tokens=12)
            whole = await answer_text(llm, "complete", self.question)
            assert await answer_text(llm, method, self.question) == whole

    @each_predict_method
    async def test_the_system_prompt_is_read_once_by_templates(self, method: str) -> None:
        text = self.system_prompts[0]
        answer = await self._predict(method, template(self.question), system_prompt=text)
        assert answer == await self._answer_to([system(text), user(self.question)])

    @each_predict_method
    async def test_a_template_of_messages_is_read_as_they_are(self, method: str) -> None:
        messages = [system(self.system_prompts[1]), user(self.question)]
        answer = await self._predict(method, ChatPromptTemplate(messages))
        assert answer == await self._answer_to(messages)

    @each_completion_method
    async def test_a_completions_wrapper_is_what_is_read(self, method: str) -> None:
        wrapped: list[str] = []

        def wrapper(prompt: str) -> str:
            wrapped.append(prompt)
            return self.question

        llm = self.llm(completion_to_prompt=wrapper)
        text = await answer_text(llm, method, OTHER)
        assert wrapped, "completion_to_prompt was not called"
        assert OTHER in wrapped[0]
        assert text == await answer_text(llm, "complete", self.question, formatted=True)

    @each_completion_method
    async def test_a_formatted_prompt_is_left_alone(self, method: str) -> None:
        def wrapper(prompt: str) -> str:
            raise AssertionError(f"a formatted prompt was wrapped: {prompt!r}")

        llm = self.llm(completion_to_prompt=wrapper, system_prompt=self.system_prompts[1])
        expected = await answer_text(self.llm(), "complete", self.question, formatted=True)
        assert await answer_text(llm, method, self.question, formatted=True) == expected

    @each_chat_method
    async def test_a_conversations_wrapper_is_what_is_read(self, method: str) -> None:
        wrapped: list[Sequence[ChatMessage]] = []

        def wrapper(messages: Sequence[ChatMessage]) -> str:
            wrapped.append(messages)
            return self.question

        llm = self.llm(messages_to_prompt=wrapper)
        text = await answer_text(llm, method, OTHER)
        assert wrapped, "messages_to_prompt was not called"
        assert OTHER in str(wrapped[0][-1].content)
        assert text == await answer_text(llm, method, self.question)

    @pytest.mark.parametrize("method", ["predict", "apredict"])
    async def test_an_output_parser_reads_the_answer(self, method: str) -> None:
        plain = await call(getattr(self.llm(), method), template(self.question))
        llm = self.llm(output_parser=Shouting())
        assert await call(getattr(llm, method), template(self.question)) == [plain[0].upper()]

    async def _predict(self, method: str, prompt: Any, **options: Any) -> tuple[str, int]:
        """The text that answers a template, and how many tokens its prompt had (0 if unknown)."""
        counter = Counter()
        llm = self.llm(callback_manager=counter.manager(), **options)
        texts = await call(getattr(llm, method), prompt)
        return "".join(texts), counter.counts[0] if self.supports_usage else 0

    async def _answer_to(self, messages: list[ChatMessage]) -> tuple[str, int]:
        """The same for messages, by the method that LlamaIndex would use for this LLM."""
        llm = self.llm()
        if llm.metadata.is_chat_model:
            parts = await call(llm.chat, messages)
        else:
            to_prompt: Any = llm.messages_to_prompt
            parts = await call(llm.complete, to_prompt(messages), formatted=True)
        return text_of(parts[-1]), usage_of(parts[-1])["prompt"] if self.supports_usage else 0

    def _assert_read(self, plain: Any, answers: list[Any]) -> None:
        """Assert that these answers had longer prompts than `plain`, and that one text differs."""
        if self.supports_usage:
            shortest = usage_of(plain)["prompt"]
            counts = [usage_of(answer)["prompt"] for answer in answers]
            assert min(counts) > shortest, f"prompts of {counts} tokens, and {shortest} without it"
        texts = {text_of(answer) for answer in answers}
        assert texts != {text_of(plain)}, "the answer is the same without it"
