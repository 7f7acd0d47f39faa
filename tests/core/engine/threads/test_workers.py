"""No thread of a caller computes, and how many threads compute is the engine's own affair."""

from __future__ import annotations

import os
import subprocess
import sys
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

    assert workers.apart(lambda: 42) == 42
    with pytest.raises(KeyError, match="broken"):
        workers.apart(fail)
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


# Whoever has computed by several threads before a fork waits for them for ever after it.
FORKED = """
import os, torch
from marith import Engine, Stop
with Engine.load("pocket") as engine:
    rude = 'prompted(adapter="pocket-rude")'
    terms = {"C": 'classifier("pocket-toxicity", label="civil")', "rude": rude}
    engine.generate("Hello!", "M + 0.1*rude + 0.1*C", terms, stop=Stop(2))
    counts = set()
    model = engine._panel.base.checkpoint.model
    model.register_forward_pre_hook(lambda *_: counts.add(torch.get_num_threads()))
    engine.score("Hello!", "Good day.")
    child = os.fork()
    if child == 0:
        torch.ones(1 << 20).exp()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), torch.get_num_threads(), *counts)
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_caller_that_has_used_an_engine_may_still_fork_and_compute() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-c", FORKED]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=True
    )
    child, callers, passes = done.stdout.split()
    assert (child, callers) == ("7", "3")
    assert passes == ("3" if workers._set_number() is None else "1")


# The workers of an idle engine are gone, those of its caller are the same.
IDLE = """
import os, time, torch
from marith import Engine, Stop
from marith.testing import inflate, tiny_model, tiny_tokenizer
tasks = lambda: set(os.listdir("/proc/self/task"))
with Engine.load(inflate(tiny_model(), 1024, 2, 1024), tokenizer=tiny_tokenizer()) as engine:
    torch.ones(1 << 20).exp()
    before = during = tasks()
    def look(*_):  # between two passes of the engine's thread, where its workers wait
        global during
        during = during | tasks()
    engine._panel.base.checkpoint.model.register_forward_pre_hook(look)
    engine.generate("a b", stop=Stop(40))
    end = time.monotonic() + 30
    while tasks() - before and time.monotonic() < end:
        time.sleep(0.01)
    print(len(during - before), len(tasks() - before), before <= tasks())
"""


@needs_runtime
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="this system lists no threads")
def test_an_idle_engine_keeps_no_workers_and_its_caller_does() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-c", IDLE]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=100, check=True
    )
    during, after, callers = done.stdout.split()
    assert int(during) >= 2, "a wide model takes all threads"
    assert (after, callers) == ("0", "True")


# A load that its caller has given up is still at it when the interpreter ends.
LEFT = """
import threading, time
import torch
from marith import Engine
from marith.engine.threads import workers
Engine
begun = threading.Event()
def compute():
    begun.set()
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        torch.zeros(64, 64) @ torch.zeros(64, 64)
threading.Thread(target=workers.apart, args=(compute,), daemon=True).start()
begun.wait()
"""


def test_no_thread_computes_when_the_interpreter_ends() -> None:
    subprocess.run([sys.executable, "-c", LEFT], check=True, capture_output=True, timeout=100)
