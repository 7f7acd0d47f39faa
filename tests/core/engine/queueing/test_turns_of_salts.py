"""Salts share the lanes of an engine by what they were served; within a salt nobody overtakes."""

from __future__ import annotations

from itertools import groupby
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.holding import engine as loaded
from support.holding import held

from marith import Request, Sampling, Stop
from marith.engine.queueing.job_queue import WaitingJobs


def job(salt: str | None, lanes: int = 1, prompt: int = 10, length: int = 5) -> Any:
    plan = SimpleNamespace(lanes=lanes)
    prepared = SimpleNamespace(salt=salt, plan=plan, prompt_tokens=prompt)
    return SimpleNamespace(prepared=prepared, left=length)


def queue_of(*jobs: Any) -> WaitingJobs:
    waiting = WaitingJobs()
    for one in jobs:
        waiting.append(one, ())
    return waiting


def salts(jobs: list[Any]) -> str:
    return "".join(one.prepared.salt for one in jobs)


def test_jobs_of_one_salt_keep_their_order() -> None:
    jobs = [job(None, lanes, prompt) for lanes, prompt in ((3, 5), (1, 90), (2, 1))]
    waiting = queue_of(*jobs)
    assert waiting.first(2) == jobs[:2]
    assert [*waiting] == jobs
    waiting.begin(jobs[:1])
    assert waiting.first(9) == jobs[1:]
    assert len(waiting) == 2


def test_a_salt_that_comes_late_waits_for_no_queue_of_another() -> None:
    waiting = queue_of(*[job("a") for _ in range(9)])
    waiting.begin(waiting.first(1))
    for _ in range(3):
        waiting.append(job("b"), ())
    assert salts(waiting.first(6)) in ("ababab", "bababa", "baabab")


def test_long_prompts_long_answers_and_many_lanes_cost_turns() -> None:
    prompts = queue_of(*[job("a", prompt=29) for _ in range(4)], *[job("b", prompt=9)] * 9)
    assert salts(prompts.first(8)).count("b") == 6
    lanes = queue_of(*[job("a", lanes=3) for _ in range(4)], *[job("b") for _ in range(9)])
    assert salts(lanes.first(8)).count("b") == 6
    answers = queue_of(*[job("a") for _ in range(4)], *[job("b") for _ in range(9)])
    answers.begin([])
    first = answers.first(2)
    answers.begin(first)
    for _ in range(22):  # the answer of "a" goes on for two more prompts
        answers.serve([first[0].prepared])
    assert salts(answers.first(3)) == "bba"


def test_a_salt_that_had_nothing_to_do_saved_no_turns() -> None:
    waiting = queue_of(job("a"), job("b"))
    waiting.begin(waiting.first(2))
    for _ in range(50):  # "b" has left; "a" and "c" go on
        waiting.append(job("a"), [job("c").prepared])
        waiting.begin(waiting.first(1))
        waiting.serve([job("c").prepared] * 11)
    for _ in range(3):
        waiting.append(job("a"), [job("c").prepared])
        waiting.append(job("b"), [job("c").prepared])
    assert salts(waiting.first(6)) in ("ababab", "bababa", "abbaba", "baabab")


JOBS = st.builds(job, st.just("?"), st.integers(1, 4), st.integers(1, 30), st.integers(1, 20))


@given(st.lists(JOBS, min_size=40, max_size=40), st.integers(4, 12), st.integers(1, 20))
def test_what_two_salts_are_served_stays_close(jobs: list[Any], most: int, first: int) -> None:
    """While jobs of both wait, neither is ahead by more than its running jobs and one prompt."""
    for index, one in enumerate(jobs):
        one.prepared.salt = "a" if index < first else "b"
    waiting, running = queue_of(*jobs), []
    served = {"a": 0.0, "b": 0.0}
    for _ in range(400):
        waiting.serve([one.prepared for one in running])
        for one in running:
            served[one.prepared.salt] += one.prepared.plan.lanes
            one.left -= 1
        running = [one for one in running if one.left]
        free = most - sum(one.prepared.plan.lanes for one in running)
        chosen = []
        for one in waiting.first(most):
            free -= one.prepared.plan.lanes
            if free < 0:
                break
            chosen.append(one)
        waiting.begin(chosen)
        for one in chosen:
            served[one.prepared.salt] += one.prepared.plan.lanes * (one.prepared.prompt_tokens + 1)
        running += chosen
        if {one.prepared.salt for one in waiting} != {"a", "b"}:
            break
        # A prompt of 4 lanes is at most 124, and the lanes in use read at most 20 tokens each.
        assert abs(served["a"] - served["b"]) <= 124 + most * 20


@pytest.mark.parametrize("lanes", [1, 2])
def test_the_engine_lets_salts_take_turns(lanes: int) -> None:
    begun: list[str] = []

    def request(salt: str) -> Request:
        def note(rows: Any, text: list[int], places: list[int]) -> Any:
            if not text:
                begun.append(salt)
            return rows

        return Request(
            "a", "M", None, Sampling(seed=1), Stop(3), speculation=None, cache_salt=salt,
            constraints=[note],
        )  # fmt: skip

    with loaded(max_lanes=lanes) as engine:
        with held(engine) as holding:
            tickets = [engine.submit(request("a"))]
            holding.wait(20)
            tickets += [engine.submit(request("a")) for _ in range(8)]
            tickets += [engine.submit(request("b")) for _ in range(4)]
        texts = {ticket.result(60).text for ticket in tickets}
    assert len(texts) == 1, "no text depends on whose turn it was"
    assert sorted(begun) == [*"aaaaaaaaabbbb"]
    assert "".join(begun).rindex("b") <= 9, begun
    assert max(len([*same]) for salt, same in groupby(begun[:8])) <= 2
