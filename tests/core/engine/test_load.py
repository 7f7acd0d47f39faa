"""Many callers at once: nobody starves, nothing leaks, and too many requests are refused."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from support.checked_engine import CheckedEngine
from support.held_passes import endless_engine

import marith
from marith import Engine, Request, Sampling, Stop
from marith.testing import tiny_model, tiny_tokenizer


def test_more_than_the_queue_holds_is_refused_and_the_rest_is_served() -> None:
    with endless_engine(max_lanes=1, max_queue=2) as engine:
        running = engine.submit(Request("a", stop=Stop(3000)))
        waiting = [engine.submit(Request("b", stop=Stop(2))) for _ in range(2)]
        with pytest.raises(marith.Busy, match="2 requests wait already"):
            engine.submit(Request("c"))
        running.cancel()
        assert [len(ticket.result(60).tokens) for ticket in waiting] == [2, 2]
        assert engine.generate("c", stop=Stop(2)).text


def test_a_cancelled_request_leaves_the_queue_too() -> None:
    with endless_engine(max_lanes=1, max_queue=1) as engine:
        running = engine.submit(Request("a", stop=Stop(3000)))
        engine.submit(Request("b")).cancel()
        end = time.monotonic() + 20
        while engine.status().waiting and time.monotonic() < end:
            time.sleep(0.001)
        waits = engine.submit(Request("c", stop=Stop(2)))
        running.cancel()
        assert len(waits.result(60).tokens) == 2


@pytest.mark.parametrize("timeout", [0, -1, True, "1", float("nan"), float("inf")])
def test_a_timeout_is_a_number_of_seconds(timeout: object) -> None:
    with pytest.raises(marith.RequestError, match="seconds"):
        Request("a", timeout=timeout)  # type: ignore[arg-type]  # wrong on purpose


def test_a_wide_request_is_not_overtaken_by_narrow_ones() -> None:
    terms = {name: name for name in "xyz"}
    with endless_engine(max_lanes=4) as engine:
        first = [engine.submit(Request("a", stop=Stop(300))) for _ in range(3)]
        wide = engine.submit(Request("b", "M + x + y + z", terms, stop=Stop(1)))
        for ticket in [engine.submit(Request("c", stop=Stop(1))) for _ in range(20)]:
            assert ticket.result(60).tokens
            assert wide._end is not None  # it needs all lanes, so none came in beside it
        assert all(ticket.result(60) for ticket in first)


def test_a_checkpoint_that_loads_holds_up_nobody_else(checked: CheckedEngine) -> None:
    from marith.engine.engine import loading

    want = checked.engine.generate("a b", "2*x - M", checked.terms, Sampling(seed=4), Stop(5))
    held, done = threading.Event(), threading.Event()

    def load() -> None:
        with loading:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=load)
    thread.start()
    held.wait(60)
    got = checked.engine.submit(
        Request("a b", "2*x - M", checked.terms, Sampling(seed=4), Stop(5))
    ).result(60)
    done.set()
    thread.join()
    assert got.text == want.text


def test_a_model_that_was_trained_after_loading_is_refused() -> None:
    model = tiny_model(seed=1)
    with Engine.load(model, tokenizer=tiny_tokenizer()) as engine:
        assert engine.generate("a", stop=Stop(2)).usage
        with torch.no_grad():
            model.lm_head.weight.mul_(2)
        with pytest.raises(marith.ModelError, match="modified after"):
            engine.generate("a", stop=Stop(2))
    with Engine.load(model, tokenizer=tiny_tokenizer()) as engine:
        assert engine.generate("a", stop=Stop(2)).usage


@pytest.mark.parametrize(
    "limits",
    [
        {"max_queue": -1},
        {"cache_bytes": 1.5},
        {"max_lanes": 0},
        {"max_queue": True},
        {"max_batched_tokens": 0},
    ],
)
def test_limits_are_whole_numbers(limits: dict[str, int]) -> None:
    with pytest.raises(marith.RequestError, match=next(iter(limits))):
        endless_engine(**limits)
