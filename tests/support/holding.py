"""A model whose passes are held up, and waits that are measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import ref

from marith import Engine, Request
from marith.testing import passes_of, tiny_model, tiny_tokenizer


def engine(**options: Any) -> Engine:
    """An engine over a model of two layers that seldom ends a text by itself."""
    model = tiny_model(seed=1, sharpness=1.0, context_length=4000)
    return Engine.load(model, tokenizer=tiny_tokenizer(), **options)


def endless_model(context_length: int) -> tuple[Any, Any]:
    """A model that never ends a text by itself, and its tokenizer."""
    model = tiny_model(seed=1, sharpness=1.0, context_length=context_length)
    tokenizer = tiny_tokenizer()
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    tokenizer.eos_token = None
    return model, tokenizer


def endless(context_length: int = 4000, **limits: int) -> Engine:
    """An engine over a model that never ends a text by itself."""
    model, tokenizer = endless_model(context_length)
    return Engine.load(model, tokenizer=tokenizer, **limits)


def model_of(engine: Engine) -> Any:
    """The modules that the engine's passes run."""
    passes: Any = passes_of(engine)
    return passes.reader


def thread_of(engine: Engine) -> threading.Thread:
    """The thread that runs the engine's passes."""
    threads: list[threading.Thread] = []
    hook = model_of(engine).register_forward_pre_hook(
        lambda *_: threads.append(threading.current_thread())
    )
    engine.next_logprobs("a")
    hook.remove()
    return threads[0]


def scorer_of(engine: Engine) -> Any:
    """The scorer of the base model."""
    [scorer] = engine.open(Request("a", speculation=None)).lanes.scorers.values()
    return scorer


def used(engine: Engine, request: Request) -> list[ref[Any]]:
    """The scorers of a request, and what they have loaded for its terms, without drafts."""
    lanes = engine.open(replace(request, speculation=None)).lanes
    found = (lane.adapter or getattr(lane, "counts", None) for lane in lanes.lanes.values())
    loaded = [each for each in found if each is not None]
    return [ref(each) for each in (*dict.fromkeys(lanes.scorers.values()), *loaded)]


@contextmanager
def held(engine: Engine) -> Iterator[threading.Event]:
    """Whatever is asked, no pass ends in here; the event says that one has begun."""
    begun, release = threading.Event(), threading.Event()

    def hold(*_: Any) -> None:
        begun.set()
        release.wait(60)

    hook = model_of(engine).register_forward_pre_hook(hold)
    try:
        yield begun
    finally:
        release.set()
        hook.remove()


def raising(engine: Engine, token: int, error: BaseException) -> Any:
    """Passes over this token raise the error; a handle that ends this."""

    def fail(_: Any, args: Any, given: Any) -> None:
        if bool((given["input_ids"] == token).any()):
            raise error

    return model_of(engine).register_forward_pre_hook(fail, with_kwargs=True)


@contextmanager
def failing(engine: Engine, error: BaseException) -> Iterator[None]:
    """Whatever is asked, a pass in here raises the error."""

    def fail(*_: Any) -> None:
        raise error

    hook = model_of(engine).register_forward_pre_hook(fail)
    try:
        yield
    finally:
        hook.remove()


def overshoot(wait: Callable[[], object], timeout: float, tries: int = 3) -> float:
    """By how many seconds a wait went over its timeout, at best: machines have other work too."""
    over = []
    for _ in range(tries):
        begun = time.monotonic()
        wait()
        over.append(time.monotonic() - begun - timeout)
    return min(over)


def until(true: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether something becomes true within so many seconds."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.001)
    return true()
