"""The memory of the process stays level: a thousand requests, and thirty-two threads that leave."""

from __future__ import annotations

import random
import statistics
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import psutil
from support.house import FORMULAS, House, request

from marith import Engine, Sampling, Stop
from marith.testing import tiny_model, tiny_tokenizer

WORDS = tuple("abcdefghijklmnopqrst")


def resident() -> float:
    return float(psutil.Process().memory_info().rss)


def level(samples: list[float]) -> None:
    """The last half of the samples stays within 5 % of its middle."""
    late = samples[len(samples) // 2 :]
    middle = statistics.median(late)
    assert max(abs(sample - middle) for sample in late) <= 0.05 * middle


def test_memory_stays_level_over_a_thousand_requests() -> None:
    samples = []
    model = tiny_model(seed=1, sharpness=1.0, context_length=256)
    with Engine.load(model, tokenizer=tiny_tokenizer()) as engine:
        for i in range(1000):
            prompt = " ".join(WORDS[(i + k) % 20] for k in range(4 + i % 40))
            engine.generate(prompt, "2*x - M", {"x": "q q"}, Sampling(seed=i), Stop(1 + i % 7))
            samples.append(resident())
    level(samples)


def test_memory_stays_level_while_many_threads_come_and_go(house: House) -> None:
    samples: list[float] = []

    def caller(number: int) -> None:
        draw = random.Random(number)
        for i in range(20):
            asked = request(house, draw.choice(FORMULAS), 10_000 + 100 * number + i)
            ticket = house.engine.submit(asked)
            if i % 2:
                list(islice(ticket, draw.randint(0, 4)))
                ticket.cancel()
            else:
                ticket.result(120)
            samples.append(resident())

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(caller, range(32)))
    level(samples)
