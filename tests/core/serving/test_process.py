"""`marith serve` as a process: what its signals do, and what it refuses before it listens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.http_server import CHAT, PERSONAS, client, wait_until
from support.signals import default_signals
from typer.testing import CliRunner

from marith.cli import app

pytestmark = pytest.mark.skipif(os.name != "posix", reason="this system has no signals")
MARITH = [sys.executable, "-m", "marith", "serve"]


@contextmanager
def process(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """A server that is ready, and where it listens."""
    (folder / "marith.toml").write_text(PERSONAS, encoding="utf-8")
    socket = folder / "socket"
    arguments = [str(folder / "marith.toml"), "--unix-socket", str(socket), *options]
    with (folder / "log").open("w", encoding="utf-8") as log:
        with default_signals():
            started = subprocess.Popen([*MARITH, *arguments], stderr=log, text=True)
        where = SimpleNamespace(socket=socket)
        try:
            wait_until(lambda: "marith serves unix:" in (folder / "log").read_text(), 60)
            yield started, where
        finally:
            started.kill()
            started.wait(20)


def body(**fields: Any) -> dict[str, Any]:
    return {"messages": CHAT, "model": "polite", "stream": True, "ignore_eos": True, **fields}


def test_running_requests_finish_after_sigterm(tmp_path: Path) -> None:
    with process(tmp_path) as (server, where), client(where) as web:
        assert web.get("/ready").status_code == 200
        with web.stream("POST", "/v1/chat/completions", json=body(max_tokens=300)) as answer:
            lines = answer.iter_lines()
            next(lines)
            server.send_signal(signal.SIGTERM)
            with client(where) as late:
                wait_until(lambda: late.get("/ready").status_code == 503)
                refused = late.post("/v1/chat/completions", json=body())
            assert refused.status_code == 503
            assert refused.headers["retry-after"]
            rest = [*lines]
        assert '"finish_reason":"length"' in rest[-4]
        assert server.wait(20) == 0
    written = (tmp_path / "log").read_text().splitlines()
    lines = [json.loads(line) for line in written if line.startswith("{")]
    assert any(line.get("completion_tokens") == 300 for line in lines)
    assert "day" not in "".join(line["path"] for line in lines)


def test_an_interrupt_ends_streams_with_an_error(tmp_path: Path) -> None:
    with process(tmp_path) as (server, where), client(where) as web:
        with web.stream("POST", "/v1/chat/completions", json=body(max_tokens=900)) as answer:
            lines = answer.iter_lines()
            next(lines)
            server.send_signal(signal.SIGINT)
            rest = [line for line in lines if line.startswith("data: ")]
        assert json.loads(rest[-2][6:])["error"]["code"] == "engine_closed"
        assert server.wait(10) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--host", "0.0.0.0"], "can be reached by other machines"),
        (["--api-key-file", "nothing"], "the file of API keys 'nothing' cannot be read"),
        (["--tls-key", "nothing"], "must be used together"),
        (
            ["--tls-key", "nothing", "--tls-certificate", "nothing"],
            "the TLS file 'nothing' does not exist",
        ),
        (["--model", "nothing-here"], "loading 'nothing-here' …"),
        *(
            ([name], f"there is no persona file at '{name}'; a model is given by --model")
            for name in ("pocket", "models/a.gguf", os.curdir)
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_served_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], problem: str
) -> None:
    monkeypatch.delenv("MARITH_API_KEYS", raising=False)
    socket = [] if "--host" in arguments else ["--unix-socket", str(tmp_path / "socket")]
    told = CliRunner().invoke(app, ["serve", *arguments, *socket])
    assert told.exit_code == 2, told.output
    assert problem in told.output
    assert "Traceback" not in told.output
    assert not os.path.exists(tmp_path / "socket")


def test_a_file_in_place_of_the_socket_stays(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious", encoding="utf-8")
    told = CliRunner().invoke(app, ["serve", "--unix-socket", str(precious)])
    assert told.exit_code == 2
    assert "is a file, not a socket" in told.output
    assert precious.read_text(encoding="utf-8") == "precious"


def test_a_port_that_is_taken_is_said_in_one_sentence() -> None:
    """In a process of its own, for those of the tests have no sockets."""
    code = (
        "import socket\n"
        "from marith.cli import app\n"
        "taken = socket.create_server(('127.0.0.1', 0))\n"
        "app(['serve', '--port', str(taken.getsockname()[1])])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 2
    assert "address already in use" in told.stderr
    assert "marith: cannot listen at http://127.0.0.1:" in told.stderr
    assert "Traceback" not in told.stderr
