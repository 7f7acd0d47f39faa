"""What a forked child of this process finds, told to the parent."""

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
    """Begin to do some work in a child, which ends with it, or is killed."""
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


def told_by(child: Child) -> Any:
    """What the child's work returned, or its traceback. Raises EOFError for one that was killed."""
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
    """What the process's own engine says, loaded by the first call."""
    engine = Engine.shared("pocket")
    texts = {text_of(engine), text_of(engine, 25.0)}
    assert engine.score("Hello!", " you", timeout=25.0)
    return texts.pop() if len(texts) == 1 else repr(texts)
