"""Every way to ask an LLM, asked alike: whole or in parts, from a thread or from a loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.llms import LLM

COMPLETIONS = ("complete", "stream_complete", "acomplete", "astream_complete")
CHATS = ("chat", "stream_chat", "achat", "astream_chat")
WAYS = (*COMPLETIONS, *CHATS)
STREAMS = tuple(way for way in WAYS if "stream" in way)
WAITING = tuple(way for way in WAYS if way.startswith("a"))
TOOLED = tuple(f"{way}_with_tools" for way in CHATS)
PREDICTIONS = ("predict", "stream", "apredict", "astream")
HANGS = 60.0  # seconds: long for any answer here

FIRST = {way: "chat" if way in CHATS else "complete" for way in WAYS}

each_way = pytest.mark.parametrize("way", WAYS)
each_other_way = pytest.mark.parametrize("way", [way for way in WAYS if way != FIRST[way]])
each_chat = pytest.mark.parametrize("way", CHATS)
each_completion = pytest.mark.parametrize("way", COMPLETIONS)
each_stream = pytest.mark.parametrize("way", STREAMS)
each_prediction = pytest.mark.parametrize("way", PREDICTIONS)
each_tooled = pytest.mark.parametrize("way", TOOLED)


def user(text: str) -> ChatMessage:
    """What a user says."""
    return ChatMessage(role=MessageRole.USER, content=text)


def system(text: str) -> ChatMessage:
    """What the application says."""
    return ChatMessage(role=MessageRole.SYSTEM, content=text)


def in_words(way: str, question: str) -> Any:
    """A question as this way of asking takes it."""
    return [user(question)] if way in CHATS else question


def text_of(answer: Any) -> str:
    """What an answer says."""
    if hasattr(answer, "message"):
        return str(answer.message.content or "")
    return str(getattr(answer, "text", answer))


async def ask(llm: LLM, way: str, question: str, **options: Any) -> list[Any]:
    """One answer, or all parts of a stream, to a question in the words of this way."""
    return await call(getattr(llm, way), in_words(way, question), **options)


async def says(llm: LLM, way: str, question: str, **options: Any) -> str:
    """What an LLM answers in the end."""
    return text_of((await ask(llm, way, question, **options))[-1])


async def call(method: Callable[..., Any], *given: Any, **options: Any) -> list[Any]:
    """What a method answers, in a list: its one answer, or all parts of its stream.

    What waits is awaited; what does not is called by a thread without a loop, as applications do.
    """
    if method.__name__.startswith("a"):
        return await asyncio.wait_for(_waited(method, *given, **options), HANGS)
    parts: list[Any] = await in_thread(lambda: listed(method(*given, **options)), HANGS)
    return parts


async def _waited(method: Callable[..., Any], *given: Any, **options: Any) -> list[Any]:
    answer = await method(*given, **options)
    if isinstance(answer, AsyncIterator):
        return [part async for part in answer]
    return [answer]


def listed(answer: Any) -> list[Any]:
    """The parts of a stream, or the one answer there is."""
    return list(answer) if isinstance(answer, Iterator) else [answer]


async def in_thread(work: Callable[[], Any], seconds: float) -> Any:
    """What `work` returns or raises in a thread of its own, which nobody waits for in the end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def tell(value: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))

    def worked() -> None:
        try:
            came: tuple[Any, BaseException | None] = work(), None
        except BaseException as error:  # whatever it is, the caller raises it
            came = None, error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, *came)

    threading.Thread(target=copy_context().run, args=(worked,), daemon=True).start()
    try:
        value, error = await asyncio.wait_for(done, seconds)
    except TimeoutError:
        pytest.fail(f"hangs: nothing came and nothing was raised in {seconds:g} seconds")
    if error is not None:
        raise error
    return value


async def in_time(work: Callable[[], Any], seconds: float) -> Any:
    """What a coroutine comes to in a loop of its own, which may be blocked for ever."""
    return await in_thread(lambda: asyncio.run(work()), seconds)


@contextmanager
def refusal(*kinds: type[BaseException], of: str) -> Iterator[None]:
    """Hold that what happens here raises one of `kinds`; `of` says what should be refused."""
    try:
        yield
    except kinds:
        return
    except Exception as error:
        names = " or ".join(kind.__name__ for kind in kinds)
        pytest.fail(f"{of}: raises {type(error).__name__} instead of {names}: {error}")
    pytest.fail(f"{of}: nothing was raised")
