"""Run a function in a forked child of this process, and return its result."""

from __future__ import annotations

import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from marith import Engine, Sampling, Stop

SECONDS = 30  # after which a child that waits is killed
ASKED = ("Hello!", "2*M - polite", {"polite": "You are polite."}, Sampling(seed=3), Stop(6))
Child = tuple[int, int]  # a process, and the pipe through which it tells


def fork(work: Callable[[], Any]) -> Child:
    """Start a child that runs `work` and ends. It is killed after `SECONDS`."""
    told, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own, from 3.12 on: this process has threads
        child = os.fork()
    if child:
        os.close(tell)
        return child, told
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest's own waits for this thread
        signal.alarm(SECONDS)
        os.write(tell, pickle.dumps(work()))
    except BaseException:
        os.write(tell, pickle.dumps(traceback.format_exc()))
    finally:
        os._exit(0)


def result_of(child: Child) -> Any:
    """Return the result of the child's function, or its traceback.

    Raises EOFError if the child was killed.
    """
    process, told = child
    with os.fdopen(told, "rb") as pipe:
        text = pipe.read()
    os.waitpid(process, 0)
    if not text:
        raise EOFError("the child waited for ever")
    return pickle.loads(text)


def text_of(engine: Engine, timeout: float | None = None) -> str:
    return engine.generate(*ASKED, timeout=timeout).text


def shared_text(_: int = 0) -> str:
    """Return the text of the shared engine of this process, which the first call loads."""
    engine = Engine.shared("pocket")
    texts = {text_of(engine), text_of(engine, 25.0)}
    assert engine.score("Hello!", " you", timeout=25.0)
    return texts.pop() if len(texts) == 1 else repr(texts)
