"""Does generation stop when its caller cancels, and does the next call still work?"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.methods import (
    ASYNC_METHODS,
    TIMEOUT,
    answer_text,
    argument_for,
    ask,
    in_thread,
)
from llamaindex_marith.testing.observers import Callbacks

WATCHED = 0.3  # seconds after a cancel in which CPU time is measured


class Cancelling(LLMUnderTest):
    """A caller who stops reading stops the model. `lasting` generates for a second or more."""

    @pytest.mark.parametrize("method", ["stream_complete", "stream_chat"])
    async def test_a_stream_that_is_closed_stops(self, method: str) -> None:
        llm, expected = self.lasting(), await answer_text(self.llm(), "chat", self.question)
        callbacks = Callbacks()
        llm.callback_manager = CallbackManager([callbacks])

        def read_one_part() -> None:
            stream = getattr(llm, method)(argument_for(method, self.question))
            next(stream)
            stream.close()

        await in_thread(read_one_part, TIMEOUT)
        await self._assert_stopped(expected)
        assert callbacks.calls == ["start", "failed"]

    @pytest.mark.parametrize("method", ["astream_complete", "astream_chat"])
    async def test_a_stream_that_is_closed_by_who_waited_stops(self, method: str) -> None:
        llm, expected = self.lasting(), await answer_text(self.llm(), "chat", self.question)
        callbacks = Callbacks()
        llm.callback_manager = CallbackManager([callbacks])
        stream: Any = await getattr(llm, method)(argument_for(method, self.question))
        await anext(stream)
        await stream.aclose()
        await self._assert_stopped(expected)
        assert callbacks.calls == ["start", "failed"]

    @pytest.mark.parametrize("method", ASYNC_METHODS)
    async def test_a_task_that_is_cancelled_stops(self, method: str) -> None:
        llm, expected = self.lasting(), await answer_text(self.llm(), "chat", self.question)
        task = asyncio.create_task(ask(llm, method, self.question))
        await asyncio.sleep(0.1)
        assert not task.done(), "done within 0.1 s: it blocked the event loop, or is too short"
        task.cancel()
        start = time.perf_counter()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert time.perf_counter() - start < WATCHED
        await self._assert_stopped(expected)

    async def _assert_stopped(self, expected: str) -> None:
        """Assert that the process is soon idle, and that the next question is answered."""
        await asyncio.sleep(0.1)
        start = time.process_time()
        await asyncio.sleep(WATCHED)
        busy = time.process_time() - start
        assert busy < WATCHED / 2, f"{busy:.2f} s of CPU time in {WATCHED} s after the cancel"
        assert await answer_text(self.llm(), "chat", self.question) == expected
