"""Many callers at once: nobody starves, nothing leaks, and too much is refused in a sentence."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from support.holding import endless
from support.house import FORMULAS, House, request, wait_until_idle

import marith
from marith import Engine, Request, Sampling, Stop
from marith.scoring.passes.chunked_prefill import CHUNK, FEW_TOKENS
from marith.testing import tiny_model, tiny_tokenizer

WORDS = tuple("abcdefghijklmnopqrst")


def test_many_threads_cancelling_at_random_leave_texts_right_and_nothing_behind(
    house: House,
) -> None:
    finished: list[tuple[Request, marith.Completion]] = []

    def caller(number: int) -> None:
        draw = random.Random(number)
        for i in range(4):
            asked = request(house, draw.choice(FORMULAS), 10_000 + 100 * number + i)
            ticket = house.engine.submit(asked)
            if i % 2:
                reader = iter(ticket)
                for _ in range(draw.randint(0, 4)):
                    next(reader, None)
                draw.choice([reader.close, ticket.cancel])()
            else:
                finished.append((asked, ticket.result(120)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(caller, range(8)))
    assert len(finished) == 16
    for asked, got in finished:
        want = house.reference.decode(asked)
        assert (got.text, got.tokens, got.finish_reason) == want
    wait_until_idle(house.engine)
    busy = []
    for scorer in house.engine._registry.scorers():
        for holder in (getattr(scorer, "runner", None), getattr(scorer, "judge", None)):
            if holder is not None:
                busy.append(holder.lanes.busy)
    assert busy == [0, 0, 0]  # two language models and a classifier


def test_a_long_prompt_holds_up_the_others_by_no_more_than_a_chunk() -> None:
    engine, read = endless(), defaultdict(int)
    base = engine._registry.base.runner.passes.reader
    base.register_forward_pre_hook(
        lambda _, args, given: read.__setitem__(
            engine.status().steps, read[engine.status().steps] + given["input_ids"].numel()
        ),
        with_kwargs=True,
    )
    with engine:
        short = engine.submit(Request("a b", stop=Stop(3000)))
        first = next(iter(short))
        assert first.tokens
        before = engine.status().steps
        long = " ".join(WORDS[k % 7] for k in range(1000))
        engine.generate(long, stop=Stop(1))
        took = engine.status().steps - before
    assert took >= 1000 // CHUNK
    assert max(read.values()) <= CHUNK + FEW_TOKENS + 1


def test_more_than_the_queue_holds_is_refused_and_the_rest_is_served() -> None:
    with endless(max_lanes=1, max_queue=2) as engine:
        running = engine.submit(Request("a", stop=Stop(3000)))
        waiting = [engine.submit(Request("b", stop=Stop(2))) for _ in range(2)]
        with pytest.raises(marith.Busy, match="2 requests wait already"):
            engine.submit(Request("c"))
        running.cancel()
        assert [len(ticket.result(60).tokens) for ticket in waiting] == [2, 2]
        assert engine.generate("c", stop=Stop(2)).text


def test_a_cancelled_request_leaves_the_queue_too() -> None:
    with endless(max_lanes=1, max_queue=1) as engine:
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
    with endless(max_lanes=4) as engine:
        first = [engine.submit(Request("a", stop=Stop(300))) for _ in range(3)]
        wide = engine.submit(Request("b", "M + x + y + z", terms, stop=Stop(1)))
        for ticket in [engine.submit(Request("c", stop=Stop(1))) for _ in range(20)]:
            assert ticket.result(60).tokens
            assert wide._end is not None  # it needs all lanes, so none came in beside it
        assert all(ticket.result(60) for ticket in first)


def test_a_checkpoint_that_loads_holds_up_nobody_else(house: House) -> None:
    from marith.engine.engine import loading

    want = house.engine.generate("a b", "2*x - M", house.terms, Sampling(seed=4), Stop(5))
    held, done = threading.Event(), threading.Event()

    def load() -> None:
        with loading:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=load)
    thread.start()
    held.wait(60)
    got = house.engine.submit(
        Request("a b", "2*x - M", house.terms, Sampling(seed=4), Stop(5))
    ).result(60)
    done.set()
    thread.join()
    assert got.text == want.text


def test_a_second_turn_reuses_the_first() -> None:
    chat = " ".join(WORDS)
    with endless() as engine:
        first = engine.generate(chat, "2*x - M", {"x": "q q"}, Sampling(seed=1), Stop(12))
        prompt = f"{chat} {' '.join(first.text)} {chat}"
        second = engine.generate(prompt, "2*x - M", {"x": "q q"}, Sampling(seed=1), Stop(12))
        assert second.usage.cached_tokens >= 20 + 11
        assert second.stats.cached == second.usage.cached_tokens * 2 + 2  # x reads two words more
    with endless() as engine:
        fresh = engine.generate(prompt, "2*x - M", {"x": "q q"}, Sampling(seed=1), Stop(12))
    assert (fresh.text, fresh.usage.cached_tokens) == (second.text, 0)


def test_a_model_that_was_trained_after_loading_is_refused() -> None:
    model = tiny_model(seed=1)
    with Engine.load(model, tokenizer=tiny_tokenizer()) as engine:
        assert engine.generate("a", stop=Stop(2)).usage
        with torch.no_grad():
            model.lm_head.weight.mul_(2)
        with pytest.raises(marith.ModelError, match="changed after"):
            engine.generate("a", stop=Stop(2))
    with Engine.load(model, tokenizer=tiny_tokenizer()) as engine:
        assert engine.generate("a", stop=Stop(2)).usage


@pytest.mark.parametrize(
    "limits", [{"max_queue": -1}, {"cache_bytes": 1.5}, {"max_lanes": 0}, {"max_queue": True}]
)
def test_limits_are_whole_numbers(limits: dict[str, int]) -> None:
    with pytest.raises(marith.RequestError, match=next(iter(limits))):
        endless(**limits)
