"""Record the functions of our packages that Python enters, as a tree of calls for each thread.

Comprehensions, lambdas, and the hash and the comparison of nodes are not counted, because Python
calls these at each look-up. Nor are the functions that a model calls while it computes, and the
cache's work on single layers.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from torch import nn
from transformers.cache_utils import CacheLayerMixin

import marith

CORE = Path(marith.__file__).parent
ADAPTERS = ("langchain_marith", "llamaindex_marith")
UNCOUNTED = {"__hash__", "__eq__"}
FORWARD = "a forward pass"
_MODULE = nn.Module.__call__.__code__


@dataclass(slots=True, eq=False)
class Call:
    """A function that was entered, its own calls, and the number of forward passes among these."""

    file: str
    function: str
    calls: list[Call] = field(default_factory=list)
    passes: int = 0

    def walk(self) -> Iterator[Call]:
        """Yield this call and all calls below it, in order, if they are in our files."""
        if self.file:
            yield self
        for call in self.calls:
            yield from call.walk()


class Recorder:
    """Records the calls of threads, as one tree for each thread."""

    def __init__(self) -> None:
        self.threads: list[Call] = []

    @contextmanager
    def new_threads(self) -> Iterator[None]:
        """Record the threads that start in the block, as long as they run."""
        threading.setprofile(self._begin)
        try:
            yield
        finally:
            threading.setprofile(None)

    @contextmanager
    def this_thread(self) -> Iterator[Call]:
        """Record the calls of this thread in the block."""
        root = Call("", "block")
        sys.setprofile(_into(root))
        try:
            yield root
        finally:
            sys.setprofile(None)

    def rounds(self) -> list[CallTrace]:
        """Return the rounds of the thread with the most passes, each from one pass to the next.

        The loop is the innermost call that contains all passes. A round begins with a call of the
        loop in which the model runs.
        """
        loop = max(self.threads, key=lambda thread: thread.passes)
        total = loop.passes
        while inner := next((call for call in loop.calls if call.passes == total), None):
            if inner.function == FORWARD:
                break
            loop = inner
        rounds: list[list[Call]] = []
        for call in list(loop.calls):
            if call.passes:
                rounds.append([])
            if rounds:
                rounds[-1].append(call)
        return [CallTrace.of(calls) for calls in rounds]

    def _begin(self, frame: FrameType, event: str, value: Any) -> None:
        """Begin a tree for a new thread, at its first event."""
        self.threads.append(Call("", "thread"))
        profile = _into(self.threads[-1])
        sys.setprofile(profile)
        profile(frame, event, value)


@dataclass(frozen=True, slots=True)
class CallTrace:
    """The functions that were entered between two moments: file and name, in order."""

    steps: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, calls: Iterable[Call]) -> CallTrace:
        """Return the trace of these calls and of all calls below them."""
        return cls(tuple((step.file, step.function) for call in calls for step in call.walk()))

    @property
    def calls(self) -> int:
        """The number of calls. A generator counts each time it continues."""
        return len(self.steps)

    @property
    def functions(self) -> int:
        """The number of different functions."""
        return len(set(self.steps))

    @property
    def files(self) -> list[str]:
        """The files, in the order in which they were first entered."""
        return list(dict.fromkeys(file for file, _ in self.steps))

    @property
    def entries(self) -> dict[str, int]:
        """The number of times that each room was entered from another room. The ideal is 1."""
        entries: dict[str, int] = {}
        before = ""
        for file, _ in self.steps:
            room = room_of(file)
            if room != before:
                entries[room] = entries.get(room, 0) + 1
            before = room
        return entries

    @property
    def switches(self) -> int:
        """The number of calls that were in another room than the call before."""
        return max(0, sum(self.entries.values()) - 1)


def _into(root: Call) -> Callable[[FrameType, str, Any], None]:
    stack = [root]

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            above = stack[-1]
            call = None if above.function == FORWARD else _entered(frame)
            if call is not None:
                above.calls.append(call)
                for containing in {*stack} if call.passes else ():
                    containing.passes += 1
            stack.append(call or above)
        # Frames that were entered before the recording have no entry.
        elif event == "return" and len(stack) > 1:
            stack.pop()

    return profile


def _entered(frame: FrameType) -> Call | None:
    """Return the call of a frame, or None if it is not counted."""
    code = frame.f_code
    if code is _MODULE:
        return Call("", FORWARD, passes=1)
    file = file_of(code)
    if not file or isinstance(frame.f_locals.get("self"), CacheLayerMixin):
        return None
    return Call(file, code.co_qualname)


@cache
def file_of(code: CodeType) -> str:
    """Return the path of a counted function's file in `core/marith` or the root, else ""."""
    if code.co_name.startswith("<") or code.co_name in UNCOUNTED:
        return ""
    path = Path(code.co_filename)
    if path.is_relative_to(CORE):
        return path.relative_to(CORE).as_posix()
    root = CORE.parents[1]
    ours = any(path.is_relative_to(root / adapter) for adapter in ADAPTERS)
    return path.relative_to(root).as_posix() if ours else ""


def room_of(file: str) -> str:
    """Return the first folder, or the file without a folder; `marith` for the package itself."""
    return "marith" if file == "__init__.py" else file.split("/")[0].removesuffix(".py")
