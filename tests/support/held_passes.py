"""Engines whose passes can be held up or made to fail, and waits that are measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import ref

import pytest
import torch
from torch import Tensor

from marith import Completion, Engine, Request
from marith.errors import ModelError
from marith.testing import passes_of, tiny_model, tiny_tokenizer


def tiny_engine(**options: Any) -> Engine:
    """Return an engine over a model of two layers that seldom ends a text by itself."""
    model = tiny_model(seed=1, sharpness=1.0, context_length=4000)
    return Engine.load(model, tokenizer=tiny_tokenizer(), **options)


def endless_model(context_length: int) -> tuple[Any, Any]:
    """Return a model that never ends a text by itself, and its tokenizer."""
    model = tiny_model(seed=1, sharpness=1.0, context_length=context_length)
    tokenizer = tiny_tokenizer()
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    tokenizer.eos_token = None
    return model, tokenizer


def endless_engine(context_length: int = 4000, **limits: int) -> Engine:
    """Return an engine over a model that never ends a text by itself."""
    model, tokenizer = endless_model(context_length)
    return Engine.load(model, tokenizer=tokenizer, **limits)


def model_of(engine: Engine) -> Any:
    """Return the modules that the passes of an engine run."""
    passes: Any = passes_of(engine)
    return passes.reader


def thread_of(engine: Engine) -> threading.Thread:
    """Return the thread that runs the passes of an engine."""
    threads: list[threading.Thread] = []
    hook = model_of(engine).register_forward_pre_hook(
        lambda *_: threads.append(threading.current_thread())
    )
    engine.next_logprobs("a")
    hook.remove()
    return threads[0]


def scorer_of(engine: Engine) -> Any:
    """Return the scorer of the base model."""
    [scorer] = engine.open(Request("a", speculation=None)).lanes.scorers.values()
    return scorer


def loaded_objects(engine: Engine, request: Request) -> list[ref[Any]]:
    """Return the scorers of a request, and what they have loaded for its terms, without drafts."""
    lanes = engine.open(replace(request, speculation=None)).lanes
    found = (lane.adapter or getattr(lane, "counts", None) for lane in lanes.lanes.values())
    loaded = [each for each in found if each is not None]
    return [ref(each) for each in (*dict.fromkeys(lanes.scorers.values()), *loaded)]


@contextmanager
def hold_passes(engine: Engine) -> Iterator[threading.Event]:
    """Let no pass end within the context. The event is set once a pass has begun."""
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


def beside_nan(engine: Engine, spoiled: Request, other: Request) -> Completion:
    """Run two requests in one pass. The first ends with NaN; return the completion of the other."""
    with hold_passes(engine):
        bad, beside = engine.submit(spoiled), engine.submit(other)
    with pytest.raises(ModelError, match="NaN"):
        bad.result(30)
    return beside.result(30)


def raise_at_token(engine: Engine, token: int, error: BaseException) -> Any:
    """Let every pass over this token raise the error, until the returned handle is removed."""

    def fail(_: Any, args: Any, given: Any) -> None:
        if bool((given["input_ids"] == token).any()):
            raise error

    return model_of(engine).register_forward_pre_hook(fail, with_kwargs=True)


def nan_at_token(engine: Engine, token: int) -> Any:
    """Let every text with this token be NaN from there on, until the returned handle is removed."""

    def spoil(_: Any, args: tuple[Tensor, ...], embedded: Tensor) -> Tensor:
        return embedded.masked_fill((args[0] == token)[..., None], torch.nan)

    return model_of(engine).get_input_embeddings().register_forward_hook(spoil)


@contextmanager
def fail_passes(engine: Engine, error: BaseException) -> Iterator[None]:
    """Let every pass within the context raise the error."""

    def fail(*_: Any) -> None:
        raise error

    hook = model_of(engine).register_forward_pre_hook(fail)
    try:
        yield
    finally:
        hook.remove()


def overshoot(wait: Callable[[], object], timeout: float, tries: int = 3) -> float:
    """Return how many seconds a wait took beyond its timeout.

    That is the best of `tries`, since other programs use the machine too.
    """
    over = []
    for _ in range(tries):
        begun = time.monotonic()
        wait()
        over.append(time.monotonic() - begun - timeout)
    return min(over)


def becomes_true(true: Callable[[], bool], seconds: float = 20) -> bool:
    """Return True as soon as a condition is true, or False after so many `seconds`."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.001)
    return true()
