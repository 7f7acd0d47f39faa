"""In a forked child every call and every load raises EngineClosed; a spawned process loads anew."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.forked_children import SECONDS, fork, result_of, shared_text, text_of
from support.held_passes import hold_passes

import marith
from langchain_marith import ChatMarith
from marith import Engine, Request, Stop
from marith.engine.engine import loading
from marith.engine.threads import workers
from marith.engine.threads.workers import FORKED

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")
CHAT = [{"role": "user", "content": "Hello!"}]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.shared("pocket") as engine:
        yield engine


@pytest.fixture(scope="module")
def want(engine: Engine) -> str:
    return text_of(engine)


async def _streamed(engine: Engine) -> list[Any]:
    return [chunk async for chunk in engine.astream("Hello!")]


CALLS: dict[str, Callable[[Engine], object]] = {
    "generate": text_of,
    "generate with a timeout": lambda engine: text_of(engine, 20.0),
    "generate lists": lambda engine: engine.generate(["a", "b"], n=2),
    "stream": lambda engine: [*engine.stream("Hello!")],
    "agenerate": lambda engine: asyncio.run(engine.agenerate("Hello!")),
    "astream": lambda engine: asyncio.run(_streamed(engine)),
    "submit": lambda engine: engine.submit(Request("Hello!")),
    "submit inspected": lambda engine: marith.submit_with_inspection(
        engine, Request("Hello!", inspect=True)
    ),
    "rank": lambda engine: engine.rank("Hello!", ["a", "b"]),
    "score": lambda engine: engine.score("Hello!", " you"),
    "score nothing": lambda engine: engine.score("Hello!", ""),
    "submit_scoring": lambda engine: engine.submit_scoring("Hello!", " you"),
    "next_logprobs": lambda engine: engine.next_logprobs("Hello!"),
    "inspect": lambda engine: marith.inspect(engine, "Hello!", " you"),
    "rendered prompts": lambda engine: marith.rendered_prompts(engine, "Hello!"),
    "calibrate": lambda engine: engine.calibrate("M", ["Hello!"]),
    "encode": lambda engine: engine.encode("Hello!"),
    "decode": lambda engine: engine.decode([5]),
    "count_tokens": lambda engine: engine.count_tokens(CHAT),
    "status": Engine.status,
    "load": lambda _: Engine.load("pocket"),
    "load what does not exist": lambda _: Engine.load("/nowhere"),
    "shared": lambda _: Engine.shared("pocket"),
    "an adapter that loads": lambda _: ChatMarith(model="pocket").invoke("Hello!"),
    "an adapter of the engine": lambda engine: ChatMarith(engine=engine).invoke("Hello!"),
}


def refused(call: Callable[[], object]) -> str:
    try:
        return f"returned {call()!r}"
    except marith.EngineClosed as error:
        return str(error)


def all_refused(engine: Engine) -> dict[str, str]:
    """What each call says, where that is anything else."""
    said = {name: refused(lambda call=call: call(engine)) for name, call in CALLS.items()}
    return {name: text for name, text in said.items() if text != FORKED}


@needs_fork
def test_every_call_and_every_load_in_a_forked_child_raises(engine: Engine, want: str) -> None:
    def child() -> tuple[dict[str, str], dict[str, str], bool, str]:
        others = result_of(fork(lambda: all_refused(engine)))  # of the child's own child
        said = all_refused(engine)
        engine.close()
        return said, others, engine.closed, repr(engine)

    expected = {}, {}, True, "<Engine, of the parent process>"
    assert result_of(fork(child)) == expected
    assert not engine.closed
    assert text_of(engine, 20.0) == want


@needs_fork
def test_a_child_waits_for_no_lock_and_for_no_request_of_its_parent(
    engine: Engine, want: str
) -> None:
    """Other threads of the parent hold all locks for good when it forks, as the child sees them."""
    locked, go_on = threading.Event(), threading.Event()

    def hold(ticket: Any, future: Any) -> None:
        locks = loading, engine._loop.admission.lock, ticket._changed, future._condition
        with locks[0], locks[1], locks[2], locks[3]:
            locked.set()
            go_on.wait(SECONDS)

    with hold_passes(engine) as begun:  # so that neither has ended when the process forks
        ticket, other = (engine.submit(Request("Tell me a story.", stop=Stop(9))) for _ in "ab")
        begun.wait(20)
        future = engine.submit_scoring("Hello!", "you are")
        chunks = iter(other)
        thread = threading.Thread(target=hold, args=(ticket, future))
        thread.start()
        locked.wait(20)

        async def awaited() -> object:
            return await ticket

        def child() -> list[str]:
            waits: list[Callable[[], object]] = [
                ticket.result, lambda: list(ticket), lambda: asyncio.run(awaited()), ticket.cancel,
                lambda: next(chunks), future.result, lambda: text_of(engine), engine.status,
                lambda: Engine.load("pocket"),
            ]  # fmt: skip
            said = [refused(wait) for wait in waits]
            engine.close()
            workers.outwait()
            return said

        said = result_of(fork(child))
        go_on.set()
        thread.join()
    assert set(said) == {FORKED}
    assert ticket.result(60).tokens
    assert "".join(chunk.text for chunk in chunks)
    assert future.result(60).logprobs
    assert text_of(engine) == want


def test_a_process_of_its_own_loads_anew(want: str) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(shared_text) == want


BEFORE = """
import os, marith
from support.forked_children import fork, shared_text, result_of
text = result_of(fork(shared_text))
marith.Engine.shared("pocket").close()
child = os.fork()
if child == 0:
    raise SystemExit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text)
"""


@needs_fork
def test_a_child_loads_before_its_parent_does_and_ends_as_any_process(want: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEFORE], capture_output=True, text=True,
        env=environment, timeout=120,
    )  # fmt: skip
    assert done.stdout == f"7 {want}\n", done.stderr
