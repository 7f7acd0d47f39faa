"""Tenants share the lanes of an engine by what they were served; of one, nobody overtakes."""

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


def job(tenant: str | None, lanes: int = 1, prompt: int = 9, length: int = 5) -> Any:
    """A job that is served `lanes * (prompt + 1)` at its beginning, and then by its text."""
    plan = SimpleNamespace(lanes=lanes)
    prepared = SimpleNamespace(tenant=tenant, plan=plan, prompt_tokens=prompt)
    return SimpleNamespace(prepared=prepared, length=length)


def turn(running: Any, tokens: int = 0) -> Any:
    return SimpleNamespace(job=running, text=[0] * tokens, served=0)


def queue_of(*jobs: Any) -> WaitingJobs:
    waiting = WaitingJobs()
    for one in jobs:
        waiting.append(one, ())
    return waiting


def begin(waiting: WaitingJobs, most: int = 1) -> list[Any]:
    jobs = waiting.first(most)
    for one in jobs:
        waiting.begin(one, runs=True)
    return [turn(one) for one in jobs]


def order(waiting: WaitingJobs, most: int) -> str:
    return "".join(one.prepared.tenant or "-" for one in waiting.first(most))


def test_jobs_of_one_tenant_keep_their_order() -> None:
    jobs = [job(None, lanes, prompt) for lanes, prompt in ((3, 5), (1, 90), (2, 1))]
    waiting = queue_of(*jobs)
    assert waiting.first(2) == jobs[:2]
    assert [*waiting] == jobs
    begin(waiting)
    assert waiting.first(9) == jobs[1:]
    waiting.append(after := job(None), (), follows=True)
    assert waiting.first(1) == [after]
    assert [*waiting] == [after, *jobs[1:]]
    waiting.remove({id(jobs[1])})
    assert waiting.first(9) == [after, jobs[2]]
    assert len(waiting) == 2


def test_a_tenant_that_comes_late_waits_for_no_queue_of_another() -> None:
    waiting = queue_of(*[job("a") for _ in range(9)])
    running = begin(waiting)
    for _ in range(3):
        waiting.append(job("b"), running)
    assert order(waiting, 6) in ("ababab", "bababa", "baabab")


def test_long_prompts_and_many_lanes_cost_turns() -> None:
    prompts = queue_of(*[job("a", prompt=29) for _ in range(4)], *[job("b")] * 9)
    assert order(prompts, 8).count("b") == 6
    lanes = queue_of(*[job("a", lanes=3) for _ in range(4)], *[job("b") for _ in range(9)])
    assert order(lanes, 8).count("b") == 6


def test_texts_cost_turns_by_their_tokens_and_not_by_their_steps() -> None:
    """A query scores 64 positions a step, and drafts make several tokens of one."""
    waiting = queue_of(*[job("a") for _ in range(4)], *[job("b") for _ in range(9)])
    first, other = begin(waiting, 2)
    first.text += [0] * 20
    waiting.serve([first, other])
    first.text.pop()  # a draft is refused
    waiting.serve([first, other])
    first.text += [0]
    waiting.serve([first, other])
    assert order(waiting, 3) == "bba"


def test_a_job_that_fails_before_it_runs_costs_nothing() -> None:
    waiting = queue_of(job("a", prompt=999), job("a"), job("b"))
    waiting.begin(waiting.first(1)[0], runs=False)
    assert order(waiting, 2) == "ab"


def test_a_tenant_that_had_nothing_to_do_saved_no_turns() -> None:
    waiting = queue_of(job("a"), job("b"))
    begin(waiting, 2)
    beside = [turn(job("c"))]
    waiting.append(job("c"), ())
    waiting.begin(waiting.first(9)[-1], runs=True)
    for _ in range(50):  # "b" has left; "a" and "c" go on
        waiting.append(job("a"), beside)
        waiting.begin(next(one for one in waiting if one.prepared.tenant == "a"), runs=True)
        beside[0].text += [0] * 10
        waiting.serve(beside)
    for _ in range(3):
        waiting.append(job("a"), beside)
        waiting.append(job("b"), beside)
    assert order(waiting, 6) in ("ababab", "bababa", "abbaba", "baabab")


def test_a_tenant_that_lets_its_line_run_empty_keeps_its_debt() -> None:
    waiting = queue_of(job("a", prompt=99), job("b"))
    begin(waiting, 2)
    for _ in range(5):  # "a" has had its ten turns, and left; it comes again
        waiting.append(job("b"), [turn(job("b"))])
    waiting.append(job("a"), [turn(job("b"))])
    assert order(waiting, 6) == "bbbbba"
    begin(waiting, 6)
    waiting.append(job("a"), ())  # nobody else is here: there is no debt to anybody
    waiting.append(job("b"), ())
    assert order(waiting, 2) == "ab"


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 30), st.integers(1, 20)),
    min_size=30, max_size=60,
)  # fmt: skip


@given(ARRIVALS, st.integers(4, 12), st.integers(1, 8), st.randoms(use_true_random=False))
def test_a_tenant_whose_jobs_wait_falls_behind_by_no_more_than_what_runs(
    sizes: list[tuple[int, int, int, int]], most: int, burst: int, random: Any
) -> None:
    """ "a" always has jobs that wait; "b" comes in bursts of as many jobs, and waits for their end.

    So "b" is never served more than "a" by more than what its lanes had begun.
    """
    waiting, running = WaitingJobs(), []
    served = {"a": 0, "b": 0}
    highest = 0
    for pause, lanes, prompt, length in sizes * 4:
        while sum(one.prepared.tenant == "a" for one in waiting) < 4:
            waiting.append(job("a", lanes, prompt, length), running)
        with_b = {one.job.prepared.tenant for one in running} | {w.prepared.tenant for w in waiting}
        if "b" not in with_b:
            for _ in range(burst):
                waiting.append(job("b", 1 + random.randrange(4), prompt, length), running)
        for _ in range(1 + pause):
            for one in running:
                one.text.append(0)
                served[one.job.prepared.tenant] += one.job.prepared.plan.lanes
            waiting.serve(running)
            running = [one for one in running if len(one.text) < one.job.length]
            free = most - sum(one.job.prepared.plan.lanes for one in running)
            for one in waiting.first(most):
                free -= one.prepared.plan.lanes
                if free < 0:
                    break
                waiting.begin(one, runs=True)
                served[one.prepared.tenant] += one.prepared.plan.lanes * (
                    one.prepared.prompt_tokens + 1
                )
                running.append(turn(one))
        highest = max(highest, served["b"] - served["a"])
    # A prompt of 4 lanes is at most 124, and the lanes in use read at most 20 tokens each.
    assert highest <= 124 + most * 20


@pytest.mark.parametrize("lanes", [1, 2])
def test_the_engine_lets_tenants_take_turns(lanes: int) -> None:
    begun: list[str] = []

    def request(tenant: str) -> Request:
        def note(rows: Any, text: list[int], places: list[int]) -> Any:
            if not text:
                begun.append(tenant)
            return rows

        return Request(
            "a", "M", None, Sampling(seed=1), Stop(3), speculation=None, cache_salt=tenant,
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
    assert max(len([*same]) for tenant, same in groupby(begun[:8])) <= 2
