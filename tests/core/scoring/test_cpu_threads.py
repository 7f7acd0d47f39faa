"""How many OpenMP threads a model computes with, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from marith.scoring import cpu_threads
from marith.scoring.weights.checkpoint import threads_for, threads_of

WIDE = 512
needs_runtime = pytest.mark.skipif(
    cpu_threads._of_the_runtime("omp_set_num_threads") is None,
    reason="this OpenMP cannot be asked for a thread's own number",
)


def test_a_small_model_takes_one_thread_and_a_wide_one_takes_all() -> None:
    small = nn.Sequential(nn.Linear(WIDE, WIDE - 1), nn.LayerNorm(WIDE))
    wide = nn.Sequential(nn.Linear(WIDE, WIDE), nn.LayerNorm(WIDE))
    assert threads_for(small) == 1
    assert threads_for(wide) is None
    assert threads_for(nn.LayerNorm(WIDE)) is None, "there is no matrix to judge by"
    assert threads_for(nn.Linear(4, 4, device="meta")) is None, "not on a CPU"


@needs_runtime
def test_the_number_of_openmp_threads_is_set_for_one_thread_only() -> None:
    before, counts = torch.get_num_threads(), []

    def take(count: int | None) -> None:
        cpu_threads.take_threads(count)
        counts.append(torch.get_num_threads())

    for count in (before + 1, None):
        thread = threading.Thread(target=take, args=(count,))
        thread.start()
        thread.join()
    assert counts == [before + 1, before]
    assert torch.get_num_threads() == before


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    cpu_threads.take_threads(3)
    yield
    cpu_threads.take_threads(before)


@needs_runtime
@pytest.mark.usefixtures("three_threads")
def test_a_small_model_computes_with_one_thread_and_the_number_is_restored() -> None:
    with threads_of(nn.Linear(4, 4)):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
