"""No thread of a caller computes, and no caller keeps OpenMP threads while it waits."""

from __future__ import annotations

import threading

import pytest

from marith.engine.threads import workers


def test_a_worker_thread_returns_results_and_raises_errors() -> None:
    threads: list[threading.Thread] = []

    def fail() -> None:
        threads.append(threading.current_thread())
        raise KeyError("broken")

    assert workers.run_in_thread(lambda: 42) == 42
    with pytest.raises(KeyError, match="broken"):
        workers.run_in_thread(fail)
    assert threads[0] is not threading.current_thread()
    assert not threads[0].is_alive()
