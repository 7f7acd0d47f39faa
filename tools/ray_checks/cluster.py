"""A cluster on this machine's loopback, its replicas, and clients that ask them."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import ray
from ray import serve

from tools.ray_checks.checking import until

ROOT = Path(__file__).parents[2]
PERSONAS = """
[terms]
rude = "You are rude."
kind = "You are kind."
[formulas]
polite = "M - 0.5*rude + 0.3*kind"
"""
PORT, ALONE_PORT = 8141, 8142
REPLICAS, ALONE = f"http://127.0.0.1:{PORT}", f"http://127.0.0.1:{ALONE_PORT}"
SESSION = "x-session-id"


def example() -> Any:
    """Return docs/examples/ray_serve.py as a module that Ray's workers need not have."""
    path = ROOT / "docs" / "examples" / "ray_serve.py"
    spec = importlib.util.spec_from_file_location("ray_serve", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def cluster() -> Iterator[None]:
    """Start Ray with four cores of this machine, whatever number it has."""
    ray.init(
        num_cpus=4,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=100_000_000,
        log_to_driver=False,
        logging_level="ERROR",
    )
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def replicas(name: str, deployed: Any) -> Iterator[None]:
    """Run an application of Ray Serve in the block. Proxies keep the router of a name."""
    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    serve.run(deployed, name=name, route_prefix="/")
    try:
        yield
    finally:
        serve.delete(name)


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Run `marith serve` as one process over the same file, in the block."""
    command = [sys.executable, "-m", "marith", "serve", str(file), "--port", str(ALONE_PORT)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until(lambda: is_ready(ALONE), 60, "a server that is ready")
        yield
    finally:
        process.terminate()
        process.wait(40)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready").status_code == 200
    except httpx.TransportError:
        return False


def chat(seed: int, **fields: Any) -> dict[str, Any]:
    """Return the body of a request."""
    question = {"role": "user", "content": f"Tell me of day {seed}."}
    return {"model": "polite", "messages": [question], "seed": seed, "temperature": 1, **fields}


def answer(url: str, body: dict[str, Any], session: str = "") -> dict[str, Any]:
    """Return a whole answer. If the server fails, ask again, up to five times."""
    headers = {SESSION: session} if session else {}
    for tried in range(6):
        time.sleep(tried)
        try:
            given = httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=60)
        except httpx.TransportError:
            continue
        if given.status_code < 500:
            given.raise_for_status()
            return {**given.json(), "tries": tried + 1}
    raise AssertionError("no answer after six tries")


def text_of(whole: dict[str, Any]) -> str:
    return str(whole["choices"][0]["message"]["content"])


class Streamed:
    """An answer in events, read until it ends: its text, its times, and how it ended."""

    def __init__(self, url: str, body: dict[str, Any]) -> None:
        self._url, self._body = url, body
        self.text, self.finish, self.done, self.error = "", "", False, ""
        self.times: list[float] = []

    def read(self) -> Streamed:
        """Read all events. Meanwhile `times` grows with each event."""
        asked = {"json": {**self._body, "stream": True}, "timeout": 60.0}
        try:
            with httpx.stream("POST", f"{self._url}/v1/chat/completions", **asked) as answer:
                self.status = answer.status_code
                for line in answer.iter_lines():
                    self._take(line)
        except httpx.TransportError as broken:
            self.error = type(broken).__name__
        return self

    def _take(self, line: str) -> None:
        data = line.removeprefix("data: ")
        if data == line:
            return
        self.times.append(time.monotonic())
        if data == "[DONE]":
            self.done = True
            return
        event = json.loads(data)
        if "error" in event:
            self.error = event["error"]["message"]
        for choice in event.get("choices", ()):
            self.text += choice["delta"].get("content") or ""
            self.finish = choice["finish_reason"] or self.finish


def replica_processes(name: str = "ServeReplica") -> list[psutil.Process]:
    """Return the processes of this cluster's replicas, or of its actors with another name."""
    mine = psutil.Process().children(recursive=True)
    return [process for process in mine if _title(process).startswith(f"ray::{name}")]


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def kill(process: psutil.Process) -> None:
    os.kill(process.pid, signal.SIGKILL)
