"""A forked child gets an engine that works, over the weights that its parent loaded."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from support.forking import fork, rounds, shared_text, text_of, told_by
from support.holding import held

import marith
from marith import Engine, Request, Stop
from marith.engine.engine import loading
from marith.engine.threads import forking

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.shared("pocket") as engine:
        yield engine


@pytest.fixture(scope="module")
def want(engine: Engine) -> str:
    return text_of(engine)


def test_a_child_says_what_its_parent_says_with_and_without_a_timeout(
    engine: Engine, want: str
) -> None:
    children = [fork(lambda: text_of(engine)), fork(lambda: text_of(engine, 20.0))]
    assert [told_by(child) for child in children] == [want, want]
    assert told_by(fork(shared_text)) == want
    assert text_of(engine, 20.0) == want


def test_a_childs_own_child_and_a_second_engine_work_too(engine: Engine, want: str) -> None:
    def child() -> tuple[str, str, str]:
        first = text_of(engine, 20.0)
        second = told_by(fork(lambda: text_of(engine, 20.0)))
        with Engine.load("pocket") as anew:
            return first, second, text_of(anew, 20.0)

    assert told_by(fork(child)) == (want, want, want)


def test_who_waits_in_a_child_for_the_parents_request_is_told(engine: Engine, want: str) -> None:
    def child() -> tuple[str, ...]:
        errors = []
        for wait in (lambda: ticket.result(20), lambda: list(ticket), lambda: future.result(20)):
            try:
                wait()
            except marith.EngineClosed as error:
                errors.append(str(error))
        assert engine.status().lanes == 0
        return (*errors, text_of(engine, 20.0))

    said: list[tuple[str, ...]] = []
    with held(engine) as begun:  # so that neither has ended when the process forks
        ticket = engine.submit(Request("Tell me a story.", stop=Stop(200)))
        begun.wait(20)
        future = engine.submit_scoring("Hello!", "you are" * 40)
        forks = threading.Thread(target=lambda: said.append(told_by(fork(child))))
        forks.start()
        forks.join(0.2)  # the fork waits for the step
    forks.join(60)
    *errors, text = said[0]
    assert (len(errors), len(set(errors)), text) == (3, 1, want)
    assert "forked" in errors[0]
    assert ticket.result(60).usage
    assert future.result(60).logprobs
    assert engine._registry.base.runner.lanes.busy == 0 or not engine.status().idle


def test_a_fork_waits_for_the_step_that_runs_and_for_no_load(engine: Engine, want: str) -> None:
    loads, done = threading.Event(), threading.Event()

    def load() -> None:
        with loading:
            loads.set()
            done.wait(30)

    thread = threading.Thread(target=load)
    thread.start()
    loads.wait(20)

    def child() -> str:
        with Engine.load("pocket") as anew:
            return text_of(anew, 20.0)

    assert told_by(fork(child)) == want
    done.set()
    thread.join()
    with held(engine) as begun:
        running = engine.submit(Request("Hello!", stop=Stop(3)))
        begun.wait(20)
        forked: list[str] = []
        waits = threading.Thread(
            target=lambda: forked.append(told_by(fork(lambda: text_of(engine, 20.0))))
        )
        waits.start()
        waits.join(0.2)
        assert waits.is_alive()  # no child sees half a pass
    waits.join(30)
    assert forked == [want]
    assert running.result(30).usage


def test_what_no_child_can_use_is_an_error_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine._thread, "device", "cuda")

    def child() -> tuple[bool, str]:
        try:
            return engine.closed, text_of(engine, 20.0)
        except marith.EngineClosed as error:
            return engine.closed, str(error)

    assert told_by(fork(child)) == (True, "cuda serves no forked process; use spawn")
    assert not engine.closed


def test_children_of_a_process_that_generates_say_the_same(engine: Engine, want: str) -> None:
    assert rounds(engine, want, 1.5) == []


class Follower:
    """Counts the forks for which it has been stopped and not been let go on."""

    def __init__(self) -> None:
        self.stops = 0

    def before_fork(self) -> None:
        self.stops += 1

    def after_fork(self) -> None:
        self.stops -= 1

    def in_child(self) -> None:
        self.stops = 0


def test_who_is_made_during_a_fork_is_not_let_go_on_by_it() -> None:
    one, other = Follower(), Follower()
    forking.register(one)
    forking._before_fork()
    forking.register(other)
    stops = one.stops
    forking._after_fork()
    assert (stops, one.stops, other.stops) == (1, 0, 0)
