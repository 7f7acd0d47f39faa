"""The methods that ask an LLM, called alike: whole or streaming, sync or async."""

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

COMPLETION_METHODS = ("complete", "stream_complete", "acomplete", "astream_complete")
CHAT_METHODS = ("chat", "stream_chat", "achat", "astream_chat")
METHODS = (*COMPLETION_METHODS, *CHAT_METHODS)
STREAMING_METHODS = tuple(method for method in METHODS if "stream" in method)
ASYNC_METHODS = tuple(method for method in METHODS if method.startswith("a"))
SYNC_METHODS = tuple(method for method in METHODS if method not in ASYNC_METHODS)
TOOL_METHODS = tuple(f"{method}_with_tools" for method in CHAT_METHODS)
PREDICT_METHODS = ("predict", "stream", "apredict", "astream")
TIMEOUT = 60.0  # seconds: longer than any answer here takes

# The method whose answer each method must give too.
REFERENCE = {method: "chat" if method in CHAT_METHODS else "complete" for method in METHODS}

each_method = pytest.mark.parametrize("method", METHODS)
each_other_method = pytest.mark.parametrize(
    "method", [method for method in METHODS if method != REFERENCE[method]]
)
each_chat_method = pytest.mark.parametrize("method", CHAT_METHODS)
each_completion_method = pytest.mark.parametrize("method", COMPLETION_METHODS)
each_streaming_method = pytest.mark.parametrize("method", STREAMING_METHODS)
each_predict_method = pytest.mark.parametrize("method", PREDICT_METHODS)
each_tool_method = pytest.mark.parametrize("method", TOOL_METHODS)


def user(text: str) -> ChatMessage:
    """A user message."""
    return ChatMessage(role=MessageRole.USER, content=text)


def system(text: str) -> ChatMessage:
    """A system message."""
    return ChatMessage(role=MessageRole.SYSTEM, content=text)


def argument_for(method: str, question: str) -> Any:
    """The argument that passes a question to this method."""
    return [user(question)] if method in CHAT_METHODS else question


def text_of(answer: Any) -> str:
    """The text of an answer, or of a part of a stream."""
    if hasattr(answer, "message"):
        return str(answer.message.content or "")
    return str(getattr(answer, "text", answer))


async def ask(llm: LLM, method: str, question: str, **options: Any) -> list[Any]:
    """The one answer of this method to a question, or all parts of its stream."""
    return await call(getattr(llm, method), argument_for(method, question), **options)


async def answer_text(llm: LLM, method: str, question: str, **options: Any) -> str:
    """The whole text with which this method answers a question."""
    return text_of((await ask(llm, method, question, **options))[-1])


async def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> list[Any]:
    """What a function returns, as a list: its one answer, or all parts of its stream.

    An async function is awaited. A sync one runs in a thread without an event loop, as in
    applications.
    """
    if function.__name__.startswith("a"):
        return await asyncio.wait_for(_awaited(function, *arguments, **options), TIMEOUT)
    parts: list[Any] = await in_thread(lambda: listed(function(*arguments, **options)), TIMEOUT)
    return parts


async def _awaited(function: Callable[..., Any], *arguments: Any, **options: Any) -> list[Any]:
    answer = await function(*arguments, **options)
    if isinstance(answer, AsyncIterator):
        return [part async for part in answer]
    return [answer]


def listed(answer: Any) -> list[Any]:
    """All parts of a stream, or one answer, as a list."""
    return list(answer) if isinstance(answer, Iterator) else [answer]


async def in_thread(work: Callable[[], Any], seconds: float) -> Any:
    """What `work` returns or raises in a thread of its own; fails after so many seconds.

    The thread is a daemon: one that hangs does not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def finish(value: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))

    def target() -> None:
        try:
            result: tuple[Any, BaseException | None] = work(), None
        except BaseException as error:  # the caller raises it, whatever it is
            result = None, error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish, *result)

    threading.Thread(target=copy_context().run, args=(target,), daemon=True).start()
    try:
        value, error = await asyncio.wait_for(done, seconds)
    except TimeoutError:
        pytest.fail(f"hangs: nothing was returned and nothing was raised in {seconds:g} seconds")
    if error is not None:
        raise error
    return value


async def in_own_loop(work: Callable[[], Any], seconds: float) -> Any:
    """What a coroutine function returns or raises in an event loop of its own, which may hang."""
    return await in_thread(lambda: asyncio.run(work()), seconds)


@contextmanager
def expect_error(*kinds: type[BaseException], case: str) -> Iterator[None]:
    """Assert that the block raises one of `kinds`; `case` says what should raise it."""
    try:
        yield
    except kinds:
        return
    except Exception as error:
        names = " or ".join(kind.__name__ for kind in kinds)
        pytest.fail(f"{case}: raises {type(error).__name__} instead of {names}: {error}")
    pytest.fail(f"{case}: nothing was raised")
