"""Does each way tell what a call cost, as LlamaIndex reads it?"""

from __future__ import annotations

import math

import pytest

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.observers import Counter, counts_in, usage_of
from llamaindex_marith.testing.tooling import TOOLS, template
from llamaindex_marith.testing.ways import (
    CHATS,
    FIRST,
    ask,
    call,
    each_other_way,
    each_prediction,
    each_tooled,
    each_way,
    says,
    text_of,
)


class TokenUsage(LLMUnderTest):
    """Tokens of prompts and of answers, and how likely they were."""

    @each_way
    async def test_usage_adds_up_and_is_told_twice_alike(self, way: str) -> None:
        self.offered(self.supports_usage, "usage")
        answer = (await ask(self.llm(), way, self.question))[-1]
        told = usage_of(answer)
        assert told["prompt"] > 0
        assert told["answer"] > 0
        assert told["total"] == told["prompt"] + told["answer"]
        assert counts_in(answer.additional_kwargs) == told

    @each_other_way
    async def test_every_way_costs_the_same(self, way: str) -> None:
        self.offered(self.supports_usage, "usage")
        llm = self.llm()
        whole = usage_of((await ask(llm, FIRST[way], self.question))[-1])
        assert usage_of((await ask(llm, way, self.question))[-1]) == whole

    @each_way
    async def test_a_token_counter_counts_what_usage_says(self, way: str) -> None:
        self.offered(self.supports_usage, "usage")
        counter = Counter()
        llm = self.llm(callback_manager=counter.manager())
        told = usage_of((await ask(llm, way, self.question))[-1])
        assert counter.counts == (told["prompt"], told["answer"])

    @each_prediction
    async def test_a_token_counter_counts_templates(self, way: str) -> None:
        self.offered(self.supports_usage, "usage")
        counter = Counter()
        llm = self.llm(callback_manager=counter.manager())
        first = "chat" if llm.metadata.is_chat_model else "complete"
        told = usage_of((await ask(self.llm(), first, self.question))[-1])
        await call(getattr(llm, way), template(self.question))
        assert counter.counts == (told["prompt"], told["answer"])

    @each_tooled
    async def test_a_token_counter_counts_calls_of_tools(self, way: str) -> None:
        self.offered(self.supports_usage, "usage")
        self.offered_tools()
        counter = Counter()
        llm = self.llm(callback_manager=counter.manager())
        parts = await call(getattr(llm, way), TOOLS, user_msg=self.question)
        told = usage_of(parts[-1])
        assert counter.counts == (told["prompt"], told["answer"])

    @each_way
    async def test_a_longer_prompt_costs_more(self, way: str) -> None:
        self.offered(self.supports_usage, "usage")
        llm = self.llm(max_tokens=4)
        short = usage_of((await ask(llm, way, self.question))[-1])
        long = usage_of((await ask(llm, way, f"{self.question} {self.question}"))[-1])
        assert long["prompt"] > short["prompt"]
        assert short["answer"] <= 4

    @each_way
    async def test_each_token_is_told_with_its_likelihood(self, way: str) -> None:
        self.offered(self.supports_logprobs, "logprobs")
        answer = (await ask(self.llm(), way, self.question, **self.logprobs(2)))[-1]
        assert answer.logprobs, "there are no logprobs"
        for place in answer.logprobs:
            assert 1 <= len(place) <= 3
            assert all(math.isfinite(each.logprob) and each.logprob <= 1e-6 for each in place)
        text = b"".join(bytes(place[0].bytes) for place in answer.logprobs).decode()
        assert text_of(answer).strip() in text
        assert text_of(answer).strip()

    @each_way
    async def test_logprobs_do_not_change_the_text(self, way: str) -> None:
        self.offered(self.supports_logprobs, "logprobs")
        llm = self.llm()
        plain = (await ask(llm, way, self.question))[-1]
        assert plain.logprobs is None, "logprobs that nobody asked for"
        assert await says(llm, way, self.question, **self.logprobs(1)) == text_of(plain)

    @pytest.mark.parametrize("way", CHATS)
    async def test_thoughts_are_told_apart(self, way: str) -> None:
        self.offered(self.supports_reasoning, "reasoning")
        llm, question = self.thinking()
        parts = await ask(llm, way, question)
        blocks = [b for b in parts[-1].message.blocks if b.block_type == "thinking"]
        thought = "".join(block.content or "" for block in blocks)
        assert thought
        assert thought not in text_of(parts[-1])
        assert text_of(parts[-1])
        if "stream" in way:
            deltas = [part.additional_kwargs.get("thinking_delta") or "" for part in parts]
            assert "".join(deltas) == thought
