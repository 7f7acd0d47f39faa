"""No thread of a caller computes, and how many threads compute is the engine's own affair."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from marith.engine.threads import workers

WIDE = 512
needs_runtime = pytest.mark.skipif(
    workers._set_number() is None, reason="this OpenMP cannot be asked for a thread's own number"
)


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


def test_a_small_model_takes_one_thread_and_a_wide_one_takes_all() -> None:
    small = nn.Sequential(nn.Linear(WIDE, WIDE - 1), nn.LayerNorm(WIDE))
    wide = nn.Sequential(nn.Linear(WIDE, WIDE), nn.LayerNorm(WIDE))
    assert workers.threads_for(small) == 1
    assert workers.threads_for(wide) is None
    assert workers.threads_for(nn.LayerNorm(WIDE)) is None, "there is no matrix to judge by"
    assert workers.threads_for(nn.Linear(4, 4, device="meta")) is None, "not on a CPU"


@needs_runtime
def test_a_number_of_threads_holds_for_one_thread_alone() -> None:
    before, counts = torch.get_num_threads(), []

    def take(count: int | None) -> None:
        workers.take_threads(count)
        counts.append(torch.get_num_threads())

    for count in (before + 1, None):
        thread = threading.Thread(target=take, args=(count,))
        thread.start()
        thread.join()
    assert counts == [before + 1, before]
    assert torch.get_num_threads() == before
