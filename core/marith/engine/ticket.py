"""What a caller holds while a request runs: chunks as they come, and the completion at the end."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from marith.errors import RequestError

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """The text that became certain in a step; the last one of a text says why it ended."""

    text: str
    tokens: tuple[int, ...] = ()
    finish_reason: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, counted in the base model's vocabulary.

    `prompt_tokens` is the prompt as the bare model reads it; of these `cached_tokens` had their
    keys and values at hand in every lane.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class StageStats:
    """How drafted tokens fared that were checked by one part of a formula.

    Of `evaluated` tokens `stood` were kept; `predicted` is the share that should have been, the
    mean of 1 − the total variation between what they were drawn from and that part (paper,
    lemma 3). What follows a token that was not kept is not evaluated.
    """

    part: str
    evaluated: int
    stood: int
    predicted: float

    @property
    def acceptance(self) -> float:
        """The share of the evaluated tokens that stood."""
        return self.stood / self.evaluated


@dataclass(frozen=True, slots=True)
class Stats:
    """What a completion cost.

    `passes` counts forward passes; `calls` counts evaluations of terms as the paper does, several
    positions at once being one call; `judgements` counts the candidates that classifiers judged.
    `cached` counts prompt tokens whose keys and values were at hand, over all lanes of language
    models. `drafted` and `accepted` count tokens proposed before every term had spoken; `stages`
    say by which part of the formula they were checked.
    """

    tokens: int
    passes: int
    calls: int
    seconds: float
    drafted: int = 0
    accepted: int = 0
    judgements: int = 0
    cached: int = 0
    stages: tuple[StageStats, ...] = ()

    @property
    def passes_per_token(self) -> float:
        """Forward passes for one token of text."""
        return self.passes / max(1, self.tokens)

    @property
    def calls_per_token(self) -> float:
        """Evaluations of terms for one token of text."""
        return self.calls / max(1, self.tokens)

    @property
    def judgements_per_token(self) -> float:
        """Candidates that classifiers judged for one token of text."""
        return self.judgements / max(1, self.tokens)

    @property
    def acceptance(self) -> float | None:
        """The share of drafted tokens that came into the text; None where nothing was drafted.

        Those that were discarded unchecked count too; see `stages` for how many stood of those
        that were evaluated.
        """
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished text: `tokens` are all that were sampled, without the one that ends a text.

    A stop string is not in `text`, though its tokens are in `tokens`.
    """

    text: str
    tokens: list[int]
    finish_reason: FinishReason
    usage: Usage
    stats: Stats


class Ticket:
    """A request in flight: iterable, async-iterable and awaitable, by one reader.

    To stop reading is to cancel: a ticket that is closed, cancelled or forgotten frees its lanes
    within one step. Its state is shared by the reader and the engine's thread, under one lock.
    """

    def __init__(self, keeper: object = None) -> None:
        self.cancelled = False
        self._keeper = keeper  # an engine lives as long as someone reads from it
        self._changed = threading.Condition()
        self._chunks: deque[Chunk] = deque()
        self._end: Completion | BaseException | None = None
        self._wakers: list[Callable[[], None]] = []

    def put(self, chunk: Chunk) -> None:
        """The engine's side: a chunk is ready."""
        with self._changed:
            self._chunks.append(chunk)
            self._wake()

    def end(self, end: Completion | BaseException) -> None:
        """The engine's side: the text is finished, or failed."""
        with self._changed:
            if self._end is None:
                self._end = end
            self._wake()

    def cancel(self) -> None:
        """Give the request up. A reader that still waits gets an error."""
        self.cancelled = True
        self.end(RequestError("the request was cancelled"))

    def result(self, timeout: float | None = None) -> Completion:
        """Wait for the completion. After `timeout` seconds: cancel, and raise TimeoutError."""
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: self._end is not None, timeout):
                    raise TimeoutError(f"no completion within {timeout} seconds")
                return self._completion()
        finally:
            self._leave()

    def __iter__(self) -> Iterator[Chunk]:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._chunks or self._end is not None)
                    if not self._chunks:
                        self._completion()
                        return
                    chunk = self._chunks.popleft()
                yield chunk
        finally:
            self._leave()

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        try:
            while True:
                await self._until(lambda: bool(self._chunks) or self._end is not None)
                if not self._chunks:
                    self._completion()
                    return
                yield self._chunks.popleft()
        finally:
            self._leave()

    def __await__(self) -> Generator[Any, None, Completion]:
        return self._finished().__await__()

    async def _finished(self) -> Completion:
        try:
            await self._until(lambda: self._end is not None)
            return self._completion()
        finally:
            self._leave()

    async def _until(self, ready: Callable[[], bool]) -> None:
        """Sleep in this task's loop; the engine's thread calls in at each change."""
        while not ready():
            await self._change(ready)

    async def _change(self, ready: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        changed = loop.create_future()

        def settle() -> None:
            if not changed.done():
                changed.set_result(None)

        def wake() -> None:
            with suppress(RuntimeError):  # a loop that has closed waits for nothing
                loop.call_soon_threadsafe(settle)

        with self._changed:
            if ready():
                return
            self._wakers.append(wake)
        await changed

    def _completion(self) -> Completion:
        if isinstance(self._end, BaseException):
            raise self._end
        assert self._end is not None
        return self._end

    def _leave(self) -> None:
        """The reader has gone: with the end in hand there is nothing to cancel."""
        if self._end is None:
            self.cancel()

    def _wake(self) -> None:
        self._changed.notify_all()
        wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()
