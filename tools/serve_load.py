"""Measure `marith serve` under load: `python -m tools.serve_load [SECONDS] [CLIENTS] [MODEL]`.

CLIENTS in a process of their own ask for streams, each one after another. The program prints the
tokens per second, also of the engine alone with the same number of texts; the processor time of the
server's event loop for each streamed token; how late the loop was; and the memory, minute by
minute. The model `97M` is pocket at the cost of a Llama of 97 million parameters.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
from transformers import AutoModelForCausalLM, AutoTokenizer

import marith
from benchmarks.inflating import inflate
from marith import Engine, Request, Sampling, Stop

TOKENS = 128  # of an answer
# The limit of cached keys and values in bytes, so that memory can be seen to stay level.
CACHE = 300_000_000
PERSONAS = f"[model]\ncache_bytes = {CACHE}\n[formulas]\nplain = 'M'\n"
LARGER = {"hidden": 768, "layers": 13, "intermediate": 2048}


def prompt(number: int, at: int) -> str:
    """Return the message of a client's next chat."""
    return f"Tell me of day {number} and {at % 7}."


async def never_ending(web: httpx.AsyncClient) -> dict[str, float]:
    """Return a bias against the end token, so that every answer has `TOKENS` events."""
    end = (await web.get("/tokenizer_info")).json()["eos_token_id"]
    return {str(end): -100.0}


def asked(number: int, at: int, bias: object) -> dict[str, object]:
    """Return the body of a client's next chat, which streams `TOKENS` tokens."""
    return {
        "messages": [{"role": "user", "content": prompt(number, at)}],
        "max_tokens": TOKENS, "stream": True, "logit_bias": bias,
    }  # fmt: skip


def asking(socket: str) -> httpx.AsyncClient:
    """Return a client that is connected to a server's socket."""
    transport = httpx.AsyncHTTPTransport(uds=socket)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=300)


async def client(
    socket: str, end: float, number: int, counts: list[int], bias: dict[str, float]
) -> None:
    """Ask for one stream after another until the end. Lines are only counted, which is quick.

    Raises AssertionError for an answer that is refused or breaks off.
    """
    at = 0
    while time.monotonic() < end:
        body = json.dumps(asked(number, at, bias))
        reader, writer = await asyncio.open_unix_connection(socket)
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        path = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        writer.write(f"{path}{head}\r\n{body}".encode())
        whole = False
        async for line in reader:
            counts[0] += line.startswith(b'data: {"id"')
            whole = whole or line.startswith(b"data: [DONE]")
        assert whole, "an answer has no end"
        writer.close()
        counts[1] += 1
        at += 1


async def clients(socket: str, seconds: float, count: int) -> None:
    """Run all clients in this process, and print their counts as JSON."""
    async with asking(socket) as web:
        bias = await never_ending(web)
    counts, end = [0, 0], time.monotonic() + seconds
    await asyncio.gather(*(client(socket, end, i, counts, bias) for i in range(count)))
    print(json.dumps(counts))


def alone(model: str, seconds: float, count: int) -> float:
    """Return the tokens per second of the engine for `count` texts, without a server."""
    with Engine.load(model, cache_bytes=CACHE) as engine:
        sampling = Sampling(logit_bias={engine.end_tokens[0]: -100.0})
        counts, end = [0] * count, time.monotonic() + seconds

        def ask(number: int) -> None:
            at = 0
            while time.monotonic() < end:
                messages = [{"role": "user", "content": prompt(number, at)}]
                request = Request(messages, sampling=sampling, stop=Stop(TOKENS))
                counts[number] += len(engine.submit(request).result().tokens)
                at += 1

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(count)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / (time.monotonic() - began)


async def lateness(socket: str, server: psutil.Process, clients: psutil.Process) -> list[float]:
    """Return the times of `/health` in ms while the clients run: the delay of the event loop."""
    taken: list[float] = []
    minute, before = time.monotonic(), loop_seconds(server)
    async with asking(socket) as web:
        while clients.is_running() and clients.status() != psutil.STATUS_ZOMBIE:
            began = time.perf_counter()
            await web.get("/health")
            taken.append(1e3 * (time.perf_counter() - began))
            if time.monotonic() >= minute:
                used, before = loop_seconds(server) - before, loop_seconds(server)
                memory = server.memory_info().rss / 1e6
                print(f"  memory {memory:.0f} MB; the loop took {used:.1f} s", flush=True)
                minute += 60
            # Each request takes 0.3 ms of the loop, so they are few.
            await asyncio.sleep(0.1)
    return taken


@contextmanager
def serving(model: str, folder: Path) -> Iterator[tuple[psutil.Popen, str]]:
    """Yield a server of a model on a unix socket, with its process."""
    socket, log, file = str(folder / "socket"), folder / "log", folder / "marith.toml"
    file.write_text(PERSONAS, encoding="utf-8")
    command = [sys.executable, "-m", "marith", "serve", str(file), "-m", model]
    environment = {**os.environ, "MARITH_API_KEYS": ""}
    with log.open("w") as lines:
        server = psutil.Popen([*command, "--unix-socket", socket], stderr=lines, env=environment)
    try:
        while "marith serves" not in log.read_text():
            assert server.poll() is None, log.read_text()
            time.sleep(0.2)
        yield server, socket
    finally:
        server.terminate()
        server.wait(60)


def loop_seconds(process: psutil.Process) -> float:
    """Return the processor time so far of the thread that runs the event loop."""
    [found] = [one for one in process.threads() if one.id == process.pid]
    return float(found.user_time + found.system_time)


def load(socket: str, server: psutil.Popen, seconds: float, count: int) -> None:
    """Let the clients ask, and print the measurements."""
    command = [sys.executable, "-m", "tools.serve_load", "clients", socket]
    subprocess.run([*command, "20", str(count)], stdout=subprocess.DEVNULL, check=True)  # noqa: S603
    before, began = loop_seconds(server), time.monotonic()
    now = [*command, str(seconds), str(count)]
    running = subprocess.Popen(now, stdout=subprocess.PIPE, text=True)  # noqa: S603
    late = asyncio.run(lateness(socket, server, psutil.Process(running.pid)))
    tokens, answers = json.loads(running.communicate()[0])
    wall, used = time.monotonic() - began, loop_seconds(server) - before
    print(f"{count} clients, {wall:.0f} s: {answers} answers")
    print(f"{tokens / wall:.0f} events a second, {1e6 * used / tokens:.0f} µs of the loop each")
    made = answers * TOKENS
    print(f"{made / wall:.0f} tokens a second, {1e6 * used / made:.0f} µs of the loop each")
    cuts = statistics.quantiles(late, n=1000)
    print(f"/health: median {cuts[499]:.1f} ms, 99 % {cuts[989]:.1f}, 99.9 % {cuts[998]:.1f}")


def checkpoint(model: str, folder: Path) -> str:
    """Return the name of a model, or for `97M` the directory of the inflated pocket."""
    if model != "97M":
        return model
    pocket = str(Path(marith.__file__).parent / "pocket" / "weights" / "pocket")
    larger = inflate(AutoModelForCausalLM.from_pretrained(pocket), **LARGER)
    larger.save_pretrained(folder / model)
    AutoTokenizer.from_pretrained(pocket).save_pretrained(folder / model)
    print(f"97M: {sum(p.numel() for p in larger.parameters()) / 1e6:.0f} M parameters")
    return str(folder / model)


def main(seconds: float, count: int, name: str) -> None:
    """Measure a server under load, and then the engine alone."""
    with tempfile.TemporaryDirectory() as folder:
        model = checkpoint(name, Path(folder))
        with serving(model, Path(folder)) as (server, socket):
            print(f"{name} by marith serve")
            load(socket, server, seconds, count)
        print(f"the engine alone: {alone(model, min(seconds, 60), count):.0f} tokens a second")


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
