"""Does the event loop run while a model generates, and do concurrent calls mix up answers?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.methods import (
    ASYNC_METHODS,
    SYNC_METHODS,
    answer_text,
    argument_for,
    ask,
    call,
    listed,
    text_of,
)
from llamaindex_marith.testing.tooling import TOOLS, Voyage, template

CALLERS = 4


class Waiting(LLMUnderTest):
    """An async call does not block the event loop, and concurrent calls do not mix."""

    @pytest.mark.parametrize("method", ASYNC_METHODS)
    async def test_the_loop_turns_while_an_answer_is_made(self, method: str) -> None:
        llm = self.lasting()
        await ask(self.llm(), method, self.question)  # loads the weights
        await assert_loop_runs(lambda: ask(llm, method, self.question))

    @pytest.mark.parametrize("method", ["achat_with_tools", "astream_chat_with_tools"])
    async def test_the_loop_turns_while_tools_are_called(self, method: str) -> None:
        self.offered_tools()
        chat = getattr(self.llm(max_tokens=200), method)
        await call(chat, TOOLS, user_msg=self.question, tool_required=True)
        await assert_loop_runs(
            lambda: call(chat, TOOLS, user_msg=self.question, tool_required=True)
        )

    @pytest.mark.parametrize("method", ["astructured_predict", "astream_structured_predict"])
    async def test_the_loop_turns_while_an_object_is_made(self, method: str) -> None:
        self.offered_tools()
        predict = getattr(self.llm(max_tokens=200), method)
        await call(predict, Voyage, template(self.question))
        await assert_loop_runs(lambda: call(predict, Voyage, template(self.question)))

    @pytest.mark.parametrize("method", ASYNC_METHODS)
    async def test_many_at_once_hear_what_each_hears_alone(self, method: str) -> None:
        llm, questions = self.llm(), self._questions()
        expected = [await answer_text(llm, method, question) for question in questions]
        assert len(set(expected)) > 1, f"the answer to every question is {expected[0]!r}"
        texts = await asyncio.gather(*(answer_text(llm, method, each) for each in questions))
        assert texts == expected

    @pytest.mark.parametrize("method", SYNC_METHODS)
    async def test_many_threads_hear_what_each_hears_alone(self, method: str) -> None:
        self.offered(self.supports_threads, "threads")
        llm, questions = self.llm(), self._questions()
        expected = [await answer_text(llm, method, question) for question in questions]

        def ask_in_thread(question: str) -> str:
            return text_of(listed(getattr(llm, method)(argument_for(method, question)))[-1])

        calls = (asyncio.to_thread(ask_in_thread, question) for question in questions)
        assert await asyncio.gather(*calls) == expected

    def _questions(self) -> list[str]:
        return [f"{self.question} {'More, please. ' * count}".strip() for count in range(CALLERS)]


async def assert_loop_runs(work: Callable[[], Awaitable[Any]]) -> None:
    """Assert that `work` never blocks the event loop for half of the time that it takes."""
    gaps: list[float] = []  # seconds between two turns of the loop

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            gaps.append((now := time.perf_counter()) - last)
            last = now

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0.005)
    gaps.clear()
    start = time.perf_counter()
    await work()
    took = time.perf_counter() - start
    await asyncio.sleep(0.005)
    ticker.cancel()
    assert took >= 0.02, f"too short an answer for the suite, override `lasting`: {took:.3f} s"
    longest = max(gaps)
    assert longest < took / 2, f"the event loop was blocked for {longest:.2f} of {took:.2f} seconds"
