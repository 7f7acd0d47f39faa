"""The memory of the process stays level: many requests, and threads that come and go."""

from __future__ import annotations

import gc
import random
import statistics
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import psutil
import torch
from support.checked_engine import FORMULAS, CheckedEngine, request, wait_until_idle
from support.held_passes import endless_engine, scorer_of

from marith import Sampling, Stop

WORDS = tuple("abcdefghijklmnopqrst")


def resident() -> float:
    return float(psutil.Process().memory_info().rss)


def level(samples: list[float]) -> None:
    """The last half of the samples stays within 5 % of its middle."""
    late = samples[len(samples) // 2 :]
    middle = statistics.median(late)
    assert max(abs(sample - middle) for sample in late) <= 0.05 * middle


def test_memory_stays_level_while_many_threads_come_and_go(checked: CheckedEngine) -> None:
    samples: list[float] = []

    def caller(number: int) -> None:
        draw = random.Random(number)
        for i in range(20):
            asked = request(checked, draw.choice(FORMULAS), 10_000 + 100 * number + i)
            ticket = checked.engine.submit(asked)
            if i % 2:
                list(islice(ticket, draw.randint(0, 4)))
                ticket.cancel()
            else:
                ticket.result(120)
            samples.append(resident())

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(caller, range(32)))
    level(samples)


def held() -> tuple[int, int]:
    """Objects that the collector knows and nothing has let go of, and the bytes of its tensors."""
    gc.collect()
    known = gc.get_objects()
    tensors = {each.data_ptr(): each for each in known if type(each) is torch.Tensor}
    return len(known), sum(each.nbytes for each in tensors.values())


def test_held_memory_stays_level_over_many_requests() -> None:
    with endless_engine(context_length=256) as engine:

        def ask(count: int) -> tuple[int, int]:
            for i in range(count):
                prompt = " ".join(WORDS[(i + k) % 20] for k in range(4 + i % 40))
                engine.generate(prompt, "2*x - M", {"x": "q q"}, Sampling(seed=i), Stop(1 + i % 7))
            wait_until_idle(engine)
            return held()

        ask(300)  # until as many lanes are kept as ever are
        objects, size = ask(100)
        more, larger = ask(100)
        lanes = scorer_of(engine).runner.lanes
        assert len(list(lanes)) <= lanes.most_idle + 2
    assert abs(more - objects) < 100, "an object a request"
    assert larger <= 1.05 * size
