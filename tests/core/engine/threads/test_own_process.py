"""Threads of a process, the bits that it computes, and its end, tested with one program."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import own_process
from support.own_process import bits

from marith import Engine
from marith.scoring.cpu_threads import _of_the_runtime

THREADS = {"OMP_NUM_THREADS": "3", "OMP_WAIT_POLICY": "PASSIVE"}  # as an application has them


@dataclass(frozen=True)
class Program:
    """What the program printed, and how it ended."""

    bits: str
    found: dict[str, Any]
    status: int


def burn(until: threading.Event) -> None:
    """Keep a core busy, without the interpreter's lock."""
    while not until.is_set():
        hashlib.sha256(bytes(1 << 22))


@pytest.fixture(scope="module")
def program() -> Program:
    """Threads of this process keep every core busy while the other loads its model."""
    environment = {**os.environ, **THREADS, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(Path(own_process.__file__))]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        first, known = process.stdout.readline(), threading.Event()
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        busy = [threading.Thread(target=burn, args=(known,)) for _ in range(cores)]
        for thread in busy:
            thread.start()
        second = process.stdout.readline()
        known.set()
        for thread in busy:
            thread.join()
        rest, errors = process.communicate(timeout=120)
    assert (first, rest.count("\n")) == ("ready\n", 1), errors
    return Program(second.strip(), json.loads(rest), process.returncode)


def test_two_processes_compute_the_same_bits(program: Program) -> None:
    with Engine.load("pocket") as engine:
        assert program.bits == bits(engine)


def test_a_small_model_takes_one_thread_and_leaves_its_caller_all(program: Program) -> None:
    taken = program.found["taken"]
    threads = program.found["threads"]  # three, or the machine's cores where those are fewer
    assert taken["caller"] == threads
    assert taken["passes"] == [threads if _of_the_runtime("omp_set_num_threads") is None else 1]


@pytest.mark.skipif(
    _of_the_runtime("omp_set_num_threads") is None,
    reason="this OpenMP cannot be asked for a thread's own number",
)
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="this system lists no threads")
def test_an_idle_engine_keeps_no_workers_and_neither_does_its_caller(program: Program) -> None:
    idle = program.found["idle"]
    assert idle["during"] >= program.found["threads"] - 1, "a wide model takes all threads"
    assert (idle["after"], idle["callers"]) == (0, 0)


def test_no_thread_computes_when_the_interpreter_ends(program: Program) -> None:
    assert program.status == 0


def test_neither_reading_nor_running_an_adapter_needs_peft(program: Program) -> None:
    assert program.found["peft"] is False
