"""Closing an engine returns to its caller, and leaves no request waiting."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from support.held_passes import hold_passes, overshoot, thread_of, tiny_engine

import marith
from marith import Request, Stop
from marith.engine import loop
from marith.testing import lanes_in_use

LONG = Stop(3000)


def test_close_returns_before_a_long_step_ends_and_logs_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop, "CLOSE_WITHIN", 0.2)
    engine = tiny_engine(max_lanes=2)
    thread = thread_of(engine)
    with caplog.at_level(logging.WARNING), hold_passes(engine) as begun:
        running = engine.submit(Request("a", "2*x - M", {"x": "q"}, stop=LONG))
        begun.wait(20)
        waits = engine.submit(Request("b", stop=LONG))
        assert overshoot(engine.close, 0, tries=1) < 2.0
        assert overshoot(engine.close, 0) < 0.1  # later nothing is waited for
        for ticket in (running, waits):
            with pytest.raises(marith.EngineClosed, match="while the request ran"):
                ticket.result(10)
        with pytest.raises(marith.EngineClosed, match="the engine is closed"):
            engine.generate("a")
        assert thread.is_alive()
        assert not engine.status().idle
    thread.join(20)  # the step has ended, and its lanes are free
    assert not thread.is_alive()
    assert lanes_in_use(engine) == 0
    messages = [record.getMessage() for record in caplog.records]
    [warning] = [said for said in messages if "did not end within 0.2 seconds" in said]
    assert 'computes 2*prompted("…") - prompted() (' in warning  # never a system prompt
    assert "threading.py:" in warning  # where it stands: it waits for the event of this test


def test_an_engine_thread_that_ends_with_an_error_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: int | None) -> str:
        raise MemoryError("no more")

    monkeypatch.setattr(loop, "take_threads", fail)
    with (
        tiny_engine(max_lanes=2) as engine,
        pytest.raises(marith.EngineClosed, match="MemoryError"),
    ):
        engine.generate("a")
    record = caplog.records[-1]
    assert record.levelno == logging.ERROR
    assert 'raise MemoryError("no more")' in record.getMessage()


# Two engines; the one that is closed first at the end of the program cannot be closed.
FAULTY = """
import atexit, marith, threading
from marith.engine.admission import Admission
from marith.engine.threads import workers
workers.END_WITHIN = 0.2
first = marith.Engine.load()
[thread] = [each for each in threading.enumerate() if each.name == workers.ENGINE]
last = marith.Engine.load()
close, failing = Admission.close, []
def fail(queue, why):
    if queue is (failing or [queue])[0]:
        failing.append(queue)
        raise KeyboardInterrupt("gone")
    close(queue, why)
Admission.close = fail
atexit._run_exitfuncs()
print(first.closed, thread.is_alive(), last.closed)
import os
os._exit(0)
"""


def test_an_engine_that_cannot_be_closed_does_not_keep_others_open() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAULTY], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False", "False"]
    assert "KeyboardInterrupt: gone" in done.stderr
