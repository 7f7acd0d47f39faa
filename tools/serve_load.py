"""What `marith serve` costs under load: `python -m tools.serve_load [SECONDS] [CLIENTS] [MODEL]`.

So many clients, in a process of their own, ask for streams one after another. Printed are tokens a
second, the processor time of the server's event loop for each streamed token, how long the loop
was late, and the memory at the beginning and at the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import psutil

TOKENS = 128  # of an answer


def thread_seconds(process: psutil.Process, thread: int) -> float:
    """The processor time of one thread so far."""
    [found] = [one for one in process.threads() if one.id == thread]
    return float(found.user_time + found.system_time)


async def never_ending(web: httpx.AsyncClient) -> dict[str, float]:
    """The bias without which pocket ends early: so every token has a text, which is an event."""
    end = (await web.get("/tokenizer_info")).json()["eos_token_id"]
    return {str(end): -100.0}


async def client(
    web: httpx.AsyncClient, end: float, number: int, counts: list[int], bias: dict[str, float]
) -> None:
    """Ask for one stream after another, until the end."""
    at = 0
    while time.monotonic() < end:
        body = {
            "messages": [{"role": "user", "content": f"Tell me of day {number} and {at % 7}."}],
            "max_tokens": TOKENS, "stream": True, "logit_bias": bias,
        }  # fmt: skip
        async with web.stream("POST", "/v1/chat/completions", json=body) as answer:
            async for line in answer.aiter_lines():
                counts[0] += line.startswith('data: {"id"')
        counts[1] += 1
        at += 1


async def clients(socket: str, seconds: float, count: int) -> None:
    """All clients, in this process; their counts are printed as JSON."""
    transport = httpx.AsyncHTTPTransport(uds=socket, limits=httpx.Limits(max_connections=None))
    counts, end = [0, 0], time.monotonic() + seconds
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", timeout=120
    ) as web:
        bias = await never_ending(web)
        await asyncio.gather(*(client(web, end, i, counts, bias) for i in range(count)))
    print(json.dumps(counts))


async def lateness(socket: str, process: psutil.Process) -> list[float]:
    """How long `/health` takes, in ms, as long as the clients run: what waits in the event loop."""
    taken: list[float] = []
    transport = httpx.AsyncHTTPTransport(uds=socket)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            began = time.perf_counter()
            await web.get("/health")
            taken.append(1e3 * (time.perf_counter() - began))
            await asyncio.sleep(0.02)
    return taken


def main(seconds: float, count: int, model: str) -> None:
    """Serve, ask, and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        socket, log = str(Path(folder) / "socket"), Path(folder) / "log"
        command = [sys.executable, "-m", "marith", "serve", "-m", model, "--unix-socket", socket]
        with log.open("w") as lines:
            server = psutil.Popen(command, stderr=lines)
        while "marith serves" not in log.read_text():
            time.sleep(0.2)
        asking = [sys.executable, "-m", "tools.serve_load", "clients", socket]
        subprocess.run([*asking, "5", str(count)], stdout=subprocess.DEVNULL, check=True)  # noqa: S603
        memory, loop = server.memory_info().rss, thread_seconds(server, server.pid)
        began = time.monotonic()
        now = [*asking, str(seconds), str(count)]
        asked = subprocess.Popen(now, stdout=subprocess.PIPE, text=True)  # noqa: S603
        late = asyncio.run(lateness(socket, psutil.Process(asked.pid)))
        tokens, answers = json.loads(asked.communicate()[0])
        wall, used = time.monotonic() - began, thread_seconds(server, server.pid) - loop
        print(f"{model}, {count} clients, {wall:.0f} s: {answers} answers")
        print(f"{tokens / wall:.0f} events a second, {1e6 * used / tokens:.0f} µs of the loop each")
        made = answers * TOKENS
        print(f"{made / wall:.0f} tokens a second, {1e6 * used / made:.0f} µs of the loop each")
        cuts = statistics.quantiles(late, n=1000)
        print(f"/health: median {cuts[499]:.1f} ms, 99 % {cuts[989]:.1f}, 99.9 % {cuts[998]:.1f}")
        print(f"memory: {memory / 1e6:.0f} MB, then {server.memory_info().rss / 1e6:.0f} MB")
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    if sys.argv[1:2] == ["clients"]:
        asyncio.run(clients(sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
    else:
        given = sys.argv[1:]
        main(
            float(given[0]) if given else 60.0,
            int(given[1]) if len(given) > 1 else 64,
            given[2] if len(given) > 2 else os.environ.get("MARITH_MODEL", "pocket"),
        )
