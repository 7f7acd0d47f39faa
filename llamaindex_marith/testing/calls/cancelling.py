"""Does the model fall silent when nobody listens any more, and answer the next who asks?"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.observers import Callbacks
from llamaindex_marith.testing.ways import HANGS, WAITING, ask, in_thread, in_words, says

WATCHED = 0.3  # seconds: for so long it is watched whether the model is still at work


class Cancelling(LLMUnderTest):
    """To stop reading is to stop the model. `lasting` speaks for a second or more."""

    @pytest.mark.parametrize("way", ["stream_complete", "stream_chat"])
    async def test_a_stream_that_is_closed_stops(self, way: str) -> None:
        llm, truth = self.lasting(), await says(self.llm(), "chat", self.question)
        callbacks = Callbacks()
        llm.callback_manager = CallbackManager([callbacks])

        def dropped() -> None:
            stream = getattr(llm, way)(in_words(way, self.question))
            next(stream)
            stream.close()

        await in_thread(dropped, HANGS)
        await self._silent(truth)
        assert callbacks.calls == ["start", "failed"]

    @pytest.mark.parametrize("way", ["astream_complete", "astream_chat"])
    async def test_a_stream_that_is_closed_by_who_waited_stops(self, way: str) -> None:
        llm, truth = self.lasting(), await says(self.llm(), "chat", self.question)
        callbacks = Callbacks()
        llm.callback_manager = CallbackManager([callbacks])
        stream: Any = await getattr(llm, way)(in_words(way, self.question))
        await anext(stream)
        await stream.aclose()
        await self._silent(truth)
        assert callbacks.calls == ["start", "failed"]

    @pytest.mark.parametrize("way", WAITING)
    async def test_a_task_that_is_cancelled_stops(self, way: str) -> None:
        llm, truth = self.lasting(), await says(self.llm(), "chat", self.question)
        task = asyncio.create_task(ask(llm, way, self.question))
        await asyncio.sleep(0.1)
        assert not task.done(), "it was done within 0.1 seconds: it held up the loop, or is short"
        task.cancel()
        begun = time.perf_counter()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert time.perf_counter() - begun < WATCHED
        await self._silent(truth)

    async def _silent(self, truth: str) -> None:
        """Hold that the process has nothing to do soon, and that another question is answered."""
        await asyncio.sleep(0.1)
        begun = time.process_time()
        await asyncio.sleep(WATCHED)
        busy = time.process_time() - begun
        assert busy < WATCHED / 2, f"{busy:.2f} seconds of work in {WATCHED} after all had left"
        assert await says(self.llm(), "chat", self.question) == truth
