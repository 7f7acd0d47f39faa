"""No thread of a caller computes, and none keeps a team of threads while it waits."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import torch

from marith import Engine
from marith.engine.threads import workers
from marith.scoring.weights import cpu_threads


def test_what_is_computed_apart_comes_back_and_so_does_an_error() -> None:
    threads: list[threading.Thread] = []

    def fail() -> None:
        threads.append(threading.current_thread())
        raise KeyError("broken")

    assert workers.run_in_thread(lambda: 42) == 42
    with pytest.raises(KeyError, match="broken"):
        workers.run_in_thread(fail)
    assert threads[0] is not threading.current_thread()
    assert not threads[0].is_alive()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no list of threads")
@pytest.mark.skipif(
    cpu_threads._of_the_runtime("omp_pause_resource_all") is None,
    reason="this OpenMP cannot end a team",
)
def test_the_team_of_a_caller_ends_with_its_request() -> None:
    others: list[int] = []

    def call() -> None:
        before = len(os.listdir("/proc/self/task"))
        cpu_threads.take_threads(4)
        torch.ones(2**20).exp()
        made = len(os.listdir("/proc/self/task")) - before
        engine.generate("a", max_tokens=1)
        others.extend((made, len(os.listdir("/proc/self/task")) - before))

    with Engine.load("pocket") as engine:
        engine.generate("a", max_tokens=1)
        workers.run_in_thread(call)
    assert others == [3, 0]
