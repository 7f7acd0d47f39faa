"""Does each method report the tokens of a call where LlamaIndex reads them?"""

from __future__ import annotations

import math

import pytest

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.methods import (
    CHAT_METHODS,
    REFERENCE,
    answer_text,
    ask,
    call,
    each_method,
    each_other_method,
    each_predict_method,
    each_tool_method,
    text_of,
)
from llamaindex_marith.testing.observers import Counter, counts_in, usage_of
from llamaindex_marith.testing.tooling import TOOLS, template


class TokenUsage(LLMUnderTest):
    """Token counts of prompts and of answers, log-probabilities and reasoning."""

    @each_method
    async def test_usage_adds_up_and_is_told_twice_alike(self, method: str) -> None:
        self.offered(self.supports_usage, "usage")
        answer = (await ask(self.llm(), method, self.question))[-1]
        counts = usage_of(answer)
        assert counts["prompt"] > 0
        assert counts["answer"] > 0
        assert counts["total"] == counts["prompt"] + counts["answer"]
        assert counts_in(answer.additional_kwargs) == counts

    @each_other_method
    async def test_every_way_costs_the_same(self, method: str) -> None:
        self.offered(self.supports_usage, "usage")
        llm = self.llm()
        expected = usage_of((await ask(llm, REFERENCE[method], self.question))[-1])
        assert usage_of((await ask(llm, method, self.question))[-1]) == expected

    @each_method
    async def test_a_token_counter_counts_what_usage_says(self, method: str) -> None:
        self.offered(self.supports_usage, "usage")
        counter = Counter()
        llm = self.llm(callback_manager=counter.manager())
        counts = usage_of((await ask(llm, method, self.question))[-1])
        assert counter.counts == (counts["prompt"], counts["answer"])

    @each_predict_method
    async def test_a_token_counter_counts_templates(self, method: str) -> None:
        self.offered(self.supports_usage, "usage")
        counter = Counter()
        llm = self.llm(callback_manager=counter.manager())
        reference = "chat" if llm.metadata.is_chat_model else "complete"
        counts = usage_of((await ask(self.llm(), reference, self.question))[-1])
        await call(getattr(llm, method), template(self.question))
        assert counter.counts == (counts["prompt"], counts["answer"])

    @each_tool_method
    async def test_a_token_counter_counts_calls_of_tools(self, method: str) -> None:
        self.offered(self.supports_usage, "usage")
        self.offered_tools()
        counter = Counter()
        llm = self.llm(callback_manager=counter.manager())
        parts = await call(getattr(llm, method), TOOLS, user_msg=self.question)
        counts = usage_of(parts[-1])
        assert counter.counts == (counts["prompt"], counts["answer"])

    @each_method
    async def test_a_longer_prompt_costs_more(self, method: str) -> None:
        self.offered(self.supports_usage, "usage")
        llm = self.llm(max_tokens=4)
        short = usage_of((await ask(llm, method, self.question))[-1])
        long = usage_of((await ask(llm, method, f"{self.question} {self.question}"))[-1])
        assert long["prompt"] > short["prompt"]
        assert short["answer"] <= 4

    @each_method
    async def test_each_token_is_told_with_its_likelihood(self, method: str) -> None:
        self.offered(self.supports_logprobs, "logprobs")
        answer = (await ask(self.llm(), method, self.question, **self.logprobs(2)))[-1]
        assert answer.logprobs, "there are no logprobs"
        for tokens in answer.logprobs:  # of one position: the answer's, then the likeliest
            assert 1 <= len(tokens) <= 3
            assert all(math.isfinite(each.logprob) and each.logprob <= 1e-6 for each in tokens)
        text = b"".join(bytes(tokens[0].bytes) for tokens in answer.logprobs).decode()
        assert text_of(answer).strip() in text
        assert text_of(answer).strip()

    @each_method
    async def test_logprobs_do_not_change_the_text(self, method: str) -> None:
        self.offered(self.supports_logprobs, "logprobs")
        llm = self.llm()
        plain = (await ask(llm, method, self.question))[-1]
        assert plain.logprobs is None, "the answer has logprobs without the option"
        assert await answer_text(llm, method, self.question, **self.logprobs(1)) == text_of(plain)

    @pytest.mark.parametrize("method", CHAT_METHODS)
    async def test_thoughts_are_told_apart(self, method: str) -> None:
        self.offered(self.supports_reasoning, "reasoning")
        llm, question = self.thinking()
        parts = await ask(llm, method, question)
        blocks = [b for b in parts[-1].message.blocks if b.block_type == "thinking"]
        reasoning = "".join(block.content or "" for block in blocks)
        assert reasoning
        assert reasoning not in text_of(parts[-1])
        assert text_of(parts[-1])
        if "stream" in method:
            deltas = [part.additional_kwargs.get("thinking_delta") or "" for part in parts]
            assert "".join(deltas) == reasoning
