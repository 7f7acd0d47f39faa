"""What slow readers and leaving clients cost others: `python -m tools.serve_guests [ROUNDS]`.

Four clients stream answers one after another beside 100 guests: ordinary ones, ones that read one
event in two seconds, and ones that leave after a random number of events and come again. Leaving
guests ask for more prompts in the same time, so they stand beside ordinary ones who ask for answers
of as random a length, and read them to the end. Printed is the time between two events of the four,
as ratios, and how many lanes are in use once all guests are gone.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from tools.serve_load import asked, asking, never_ending, serving

GUESTS, HOSTS, SECONDS = 100, 4, 20.0
KEYS = ("sk-of-hosts-1", "sk-of-guests-1", "sk-of-guests-2")  # one has at most 64 answers at once
FIRST = 6.0  # seconds until the guests are all there


async def stream(
    web: httpx.AsyncClient, number: int, at: int, kind: str, bias: object
) -> list[float]:
    """When each event of one answer came, as a reader of this kind takes them."""
    times: list[float] = []
    body = asked(number, at, bias)
    leaves = random.randrange(1, int(str(body["max_tokens"])))
    if kind == "short":
        body["max_tokens"] = leaves
    headers = {"authorization": f"Bearer {KEYS[0 if number < HOSTS else 1 + number % 2]}"}
    async with web.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            times.append(time.perf_counter())
            if kind == "slow":
                await asyncio.sleep(2)
            if kind == "leaving" and len(times) >= leaves:
                break
    return times


async def guest(web: httpx.AsyncClient, number: int, kind: str, bias: object) -> None:
    """One answer after another, until the process is ended."""
    for at in itertools.count():
        await stream(web, number, at, kind, bias)


async def guests(socket: str, kind: str) -> None:
    """All guests of one kind, in a process of their own that is ended from outside."""
    async with asking(socket, KEYS[1]) as web:
        bias = await never_ending(web)
        await asyncio.gather(*(guest(web, HOSTS + i, kind, bias) for i in range(GUESTS)))


async def between(web: httpx.AsyncClient, number: int, bias: object) -> list[float]:
    """The times between two events of the answers within the seconds of a phase."""
    end, gaps = time.perf_counter() + SECONDS, []
    for at in itertools.count():
        times = await stream(web, number, at, "ordinary", bias)
        gaps += [b - a for a, b in itertools.pairwise(times)]
        if time.perf_counter() > end:
            return gaps
    raise AssertionError


async def phase(socket: str, kind: str) -> float:
    """The median time between two events of the four, in ms, beside guests of a kind."""
    command = [sys.executable, "-m", "tools.serve_guests", "guests", socket, kind]
    beside = subprocess.Popen(command)  # noqa: S603
    try:
        await asyncio.sleep(FIRST)
        async with asking(socket, KEYS[0]) as web:
            bias = await never_ending(web)
            gaps = await asyncio.gather(*(between(web, i, bias) for i in range(HOSTS)))
        assert beside.poll() is None, "the guests have ended before the others"
    finally:
        beside.kill()
        beside.wait()
    return 1e3 * statistics.median(itertools.chain(*gaps))


async def lanes(socket: str) -> float:
    """How many lanes are in use."""
    async with asking(socket, KEYS[0]) as web:
        lines = (await web.get("/metrics")).text.splitlines()
    [line] = [line for line in lines if line.startswith("marith_lanes_in_flight ")]
    return float(line.split()[1])


async def gone_within(socket: str) -> float:
    """In how many seconds all lanes are back."""
    began = time.perf_counter()
    while await lanes(socket):
        assert time.perf_counter() < began + 60, "lanes stay in use"
        await asyncio.sleep(0.02)
    return time.perf_counter() - began


def main(rounds: int) -> None:
    """Serve, ask in phases, one kind of guests after another, and print what they cost."""
    with tempfile.TemporaryDirectory() as folder, serving("pocket", Path(folder), KEYS) as served:
        _, socket = served
        taken: dict[str, list[float]] = {"ordinary": [], "slow": [], "short": [], "leaving": []}
        for kind in [*taken] * rounds:
            taken[kind].append(asyncio.run(phase(socket, kind)))
            back = asyncio.run(gone_within(socket))
            print(f"{kind}: {taken[kind][-1]:.1f} ms an event; lanes back in {back:.2f} s")
        for kind, base in (("slow", "ordinary"), ("leaving", "short"), ("leaving", "ordinary")):
            ratio = statistics.median(taken[kind]) / statistics.median(taken[base])
            print(f"{kind}: {ratio:.2f} × {base} guests")


if __name__ == "__main__":
    if sys.argv[1:2] == ["guests"]:
        asyncio.run(guests(*sys.argv[2:4]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
