"""Texts on an engine whose steps run at fixed shapes, alone and all together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from typing import Any

import pytest
from support.checked_engine import wait_until_idle
from support.held_passes import endless_model
from support.pauses import pausing, seldom
from support.small_engine import FlatTimes, assume_times

from marith import Completion, Engine, Request, Sampling, Stop
from marith.scoring.passes.rectangle.rectangle_lanes import RectangleLanes
from tools.fixed_shapes import captured_of, fixed_shapes, runner_of

TERMS = {"x": "q w e", "y": "z z"}
FORMULAS = "M", "2*x - M", "M + 0.5*x - 0.3*y"
LENGTHS = 2, 30, 9, 420, 14, 90, 5, 700  # letters of a prompt
TOKENS = 40, 3, 25, 12, 60, 8
FORKS = 4  # texts of one prompt


@dataclass
class Rows:
    """The rows of each step of fixed shape, and how often lanes began, and rows were swapped.

    `drafted` counts the positions of drafts that were evaluated.
    """

    steps: list[list[int]] = field(default_factory=list)
    begun: int = 0
    swaps: int = 0
    drafted: int = 0

    @property
    def gaps(self) -> int:
        """The number of steps that read rows between the rows of their texts."""
        return sum(rows[-1] - rows[0] >= len(rows) for rows in self.steps)


@contextmanager
def engine_at_fixed_shapes(device: str) -> Iterator[Engine]:
    """Yield an engine over a tiny model whose steps are those of a GPU, on a GPU as graphs."""
    model, tokenizer = endless_model(4000)
    limits = {"max_lanes": 48, "max_batched_tokens": 200}
    with fixed_shapes(), Engine.load(model.to(device), tokenizer=tokenizer, **limits) as engine:
        assume_times(engine, FlatTimes)
        engine._loop._text_later = True
        yield engine


def requests(seed: int, speculation: Any) -> list[Request]:
    """Return requests of mixed lengths. Some of them continue one prompt, long enough to share."""
    draw = Random(seed)
    prompts = [" ".join(draw.choices("abcdefghij", k=length)) for length in LENGTHS * 2]
    prompts += [" ".join(draw.choices("klmnop", k=60))] * FORKS
    return [
        Request(prompt, FORMULAS[i % 3], TERMS, Sampling(seed=i), Stop(TOKENS[i % 6]), speculation,
                logprobs=0 if i % 2 else None)
        for i, prompt in enumerate(prompts)
    ]  # fmt: skip


def require_texts_alone(engine: Engine, seed: int, speculation: Any) -> None:
    """Assert that texts that join, end, pause and are canceled beside others are those alone.

    Steps read some rows between the rows of their texts, because lanes move seldom.
    """
    asked, draw = requests(seed, speculation), Random(seed)
    alone = [engine.submit(replace(one, cache_salt="alone")).result(60) for one in asked]
    draw.shuffle(order := [*range(len(asked))])
    wait_until_idle(engine)
    found: dict[int, Completion] = {}
    # An iterator that is dropped cancels its request.
    streams = []
    with _watched(engine) as rows, pausing(engine, seldom(seed, running=8)):
        tickets = {}
        for i in order:
            tickets[i] = engine.submit(asked[i])
            if draw.random() < 0.7:
                # The next request joins when this text has some tokens.
                streams.append(iter(tickets[i]))
                list(islice(streams[-1], draw.randint(1, 4)))
            if draw.random() < 0.4:
                leaving = engine.submit(replace(asked[draw.choice(order)], stop=Stop(200)))
                list(islice(leaving, draw.randint(0, 3)))
                leaving.cancel()
        found = {i: ticket.result(120) for i, ticket in tickets.items()}
        wait_until_idle(engine)
    assert any(one.stats.paused for one in found.values())
    for i, expected in enumerate(alone):
        assert found[i].tokens == expected.tokens
        rows.drafted += sum(stage.evaluated for stage in found[i].stats.stages)
        for one, other in zip(found[i].logprobs or (), expected.logprobs or (), strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=2e-3)
    assert rows.gaps
    assert rows.swaps <= rows.begun
    assert bool(rows.drafted) == bool(speculation)


@contextmanager
def _watched(engine: Engine) -> Iterator[Rows]:
    """Note what happens to the rows of the base model within the context."""
    lanes, captured, rows = runner_of(engine).lanes, captured_of(engine), Rows()
    assert isinstance(lanes, RectangleLanes)
    plain: Any = lanes.take, lanes.cache.swap, captured.step

    def take(owner: Any, *given: Any) -> Any:
        rows.begun += owner not in lanes.held
        return plain[0](owner, *given)

    def swap(*given: Any) -> None:
        rows.swaps += 1
        plain[1](*given)

    def step(at: list[int], *given: Any) -> Any:
        rows.steps.append(at)
        return plain[2](at, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "take", take)
        patch.setattr(lanes.cache, "swap", swap)
        patch.setattr(captured, "step", step)
        yield rows
    assert captured_of(engine) is captured
