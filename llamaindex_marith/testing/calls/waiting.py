"""Does the event loop turn while a model speaks, and do many who ask at once hear the same?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.tooling import TOOLS, Voyage, template
from llamaindex_marith.testing.ways import WAITING, WAYS, ask, call, in_words, listed, says, text_of

MANY = 4


class Waiting(LLMUnderTest):
    """Who waits holds nobody up."""

    @pytest.mark.parametrize("way", WAITING)
    async def test_the_loop_turns_while_an_answer_is_made(self, way: str) -> None:
        llm = self.lasting()
        await ask(self.llm(), way, self.question)  # weights load
        await turning(lambda: ask(llm, way, self.question))

    @pytest.mark.parametrize("way", ["achat_with_tools", "astream_chat_with_tools"])
    async def test_the_loop_turns_while_tools_are_called(self, way: str) -> None:
        self.offered_tools()
        method = getattr(self.llm(max_tokens=200), way)
        await call(method, TOOLS, user_msg=self.question, tool_required=True)
        await turning(lambda: call(method, TOOLS, user_msg=self.question, tool_required=True))

    @pytest.mark.parametrize("way", ["astructured_predict", "astream_structured_predict"])
    async def test_the_loop_turns_while_an_object_is_made(self, way: str) -> None:
        self.offered_tools()
        method = getattr(self.llm(max_tokens=200), way)
        await call(method, Voyage, template(self.question))
        await turning(lambda: call(method, Voyage, template(self.question)))

    @pytest.mark.parametrize("way", WAITING)
    async def test_many_at_once_hear_what_each_hears_alone(self, way: str) -> None:
        llm, questions = self.llm(), self._questions()
        alone = [await says(llm, way, each) for each in questions]
        assert len(set(alone)) > 1, f"whatever is asked, the answer is {alone[0]!r}"
        assert await asyncio.gather(*(says(llm, way, each) for each in questions)) == alone

    @pytest.mark.parametrize("way", [way for way in WAYS if way not in WAITING])
    async def test_many_threads_hear_what_each_hears_alone(self, way: str) -> None:
        self.offered(self.supports_threads, "threads")
        llm, questions = self.llm(), self._questions()
        alone = [await says(llm, way, each) for each in questions]

        def asked(question: str) -> str:
            return text_of(listed(getattr(llm, way)(in_words(way, question)))[-1])

        at_once = await asyncio.gather(*(asyncio.to_thread(asked, each) for each in questions))
        assert at_once == alone

    def _questions(self) -> list[str]:
        return [f"{self.question} {'More, please. ' * count}".strip() for count in range(MANY)]


async def turning(work: Callable[[], Awaitable[Any]]) -> None:
    """Hold that the loop is never silent for half of the time that the work takes."""
    silences: list[float] = []

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            silences.append((now := time.perf_counter()) - last)
            last = now

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0.005)
    silences.clear()
    begun = time.perf_counter()
    await work()
    took = time.perf_counter() - begun
    await asyncio.sleep(0.005)
    ticker.cancel()
    assert took >= 0.02, f"too short an answer to tell, override `lasting`: {took:.3f} s"
    longest = max(silences)
    assert longest < took / 2, f"the loop stood still for {longest:.2f} of {took:.2f} seconds"
