"""Many futures of an event loop are completed by few calls of it, and none is forgotten."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref

import pytest

from marith.engine.threads.loop_waker import LoopWaker, waker_of


async def test_every_future_is_completed_whichever_thread_wakes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, calls = asyncio.get_running_loop(), 0
    real = loop.call_soon_threadsafe

    def counted(*given: object) -> asyncio.Handle:
        nonlocal calls
        calls += 1
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    futures = [loop.create_future() for _ in range(2000)]
    for future in futures[::7]:
        future.cancel()  # whoever waited has gone

    def wake(mine: list[asyncio.Future[None]]) -> None:
        for future in mine:
            waker_of(loop).wake(future)
            if future is mine[len(mine) // 2]:
                time.sleep(0.01)  # the loop completes some meanwhile

    threads = [threading.Thread(target=wake, args=(futures[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 10)
    for thread in threads:
        thread.join()
    assert calls < len(futures) / 2


@pytest.mark.parametrize("woken", ["before", "after", "both"])
def test_a_loop_that_has_closed_waits_for_nothing_and_is_forgotten(woken: str) -> None:
    loop = asyncio.new_event_loop()
    waker, future = waker_of(loop), loop.create_future()
    if woken != "after":
        waker.wake(future)
    loop.close()
    if woken != "before":
        waker.wake(future)
    assert not future.done()
    gone = weakref.ref(loop)
    del loop, future, waker
    gc.collect()
    assert gone() is None


def test_what_is_woken_while_others_are_completed_is_not_forgotten() -> None:
    """A call that is under way finds what comes meanwhile, or another call does."""
    loop = asyncio.new_event_loop()
    waker = LoopWaker(loop)
    first, second = loop.create_future(), loop.create_future()
    first.add_done_callback(lambda _: waker.wake(second))
    waker.wake(first)
    loop.run_until_complete(asyncio.wait_for(asyncio.gather(first, second), 5))
    loop.close()


async def test_a_task_that_nobody_else_holds_is_woken() -> None:
    loop = asyncio.get_running_loop()
    ended: list[int] = []

    async def sleep(i: int, waiting: asyncio.Future[None]) -> None:
        await waiting
        ended.append(i)

    def begin(i: int) -> None:
        future = loop.create_future()
        asyncio.ensure_future(sleep(i, future))  # noqa: RUF006
        loop.call_soon(lambda: (waker_of(loop).wake(future), gc.collect()))

    for i in range(5):
        begin(i)
    gc.collect()
    await asyncio.sleep(0.05)
    assert sorted(ended) == [*range(5)]
