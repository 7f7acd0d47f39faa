"""Run the lines of a shell block: marith and other Python programs run in this process.

A line that takes hours gets options that make it short, unless the page shows its output. `marith
serve` and `marith play` run in the main thread until a signal; meanwhile the next lines of the page
run in another thread.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path
from threading import Thread
from unittest.mock import patch

import uvloop  # noqa: F401 (it keeps the socket class of its first import, which a test may block)
from typer.testing import CliRunner

# What is appended to a command: the last value of an option counts.
FEW = {
    "marith eval harness": "--include_path . --limit 2",
    "marith eval attributes": "--n 2 --max-tokens 8 --curve 1",
    "marith eval": "--n 2 --max-tokens 8",
    "marith tune": "--n 2 --max-tokens 8 --trials 2",
    "inspect eval marith/": "-T n=2 --max-tokens 8",
    "inspect eval": "--max-tokens 8",
    "lm_eval run": "--include_path . --limit 2",
    "python -m benchmarks": "--tokens 2 --rounds 1 --only terms --shape 512,6,8,1024,4096",
}
# What is on no machine of the tests, and what takes its place.
INSTEAD = {
    ".venv/bin/": "",
    "/models/my-model": "models/my-model",
    "--device cuda": "--device cpu",
    "owner/large": "pocket",
}
_SERVERS = ("marith serve", "marith play")


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def lines_of(code: str) -> list[str]:
    """Return the commands of a shell block, without comments."""
    joined = re.sub(r"\\\n\s*", " ", code)
    whole = [re.sub(r"(^|\s+)#.*", "", line).strip() for line in joined.splitlines()]
    return [line for line in whole if line]


def serves(line: str) -> bool:
    return line.startswith(_SERVERS)


def run(line: str, whole: bool = False) -> str:
    """Run one line and return its standard output. Raises AssertionError if the line fails.

    Unless `whole`, the options of `FEW` make a long run short.
    """
    few = "" if whole else next((FEW[start] for start in FEW if line.startswith(start)), "")
    words = shlex.split(f"{line} {few}")
    if words[0] == "marith":
        return _marith(words[1:])
    if words[:2] == ["python", "-m"]:
        sys.modules.pop(f"{words[2]}.__main__", None)  # another test may have imported it
        return _in_process(words[2:], lambda: runpy.run_module(words[2], run_name="__main__"))
    scripts = entry_points(group="console_scripts", name=words[0])
    if scripts:
        return _in_process(words, next(iter(scripts)).load())
    shell = ["bash", "-euc", f'curl() {{ command curl --fail "$@"; }}\n{line}']
    environment = dict(os.environ)  # a copy: another thread may change the process's own
    done = subprocess.run(
        shell, capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout


def _marith(words: Sequence[str]) -> str:
    from marith.cli import app

    sent = None
    if "<" in words:
        at = words.index("<")
        words, sent = words[:at], Path(words[at + 1]).read_text(encoding="utf-8")
    environment = {"COLUMNS": "100", "NO_COLOR": "1"}
    done = CliRunner().invoke(app, words, sent, environment, prog_name="marith")
    assert done.exit_code == 0, f"{words}\n{done.output}\n{done.exception!r}"
    return done.stdout


def _in_process(words: Sequence[str], main: Callable[[], object]) -> str:
    out, err = io.StringIO(), io.StringIO()
    with patch.object(sys, "argv", [*words]), redirect_stdout(out), redirect_stderr(err):
        try:
            code = main()
        except SystemExit as end:
            code = end.code
    failed = isinstance(code, (int, str)) and code  # a function may return something else
    assert not failed, f"{words}\n{code}\n{out.getvalue()}\n{err.getvalue()}"
    return out.getvalue()


def run_server(line: str, port: int, ask: Callable[[], str | None]) -> str | None:
    """Run a server as `line` says, call `ask` in a thread once it is ready, and stop the server."""
    asked: Future[str | None] = Future()
    Thread(target=_ask, args=(port, ask, asked), daemon=True).start()
    run(f"{line} --port {port}")
    return asked.result(60)


def _ask(port: int, ask: Callable[[], str | None], asked: Future[str | None]) -> None:
    ready = ["curl", "-sf", f"http://localhost:{port}/ready"]
    end = time.monotonic() + 300  # a real model takes minutes on a busy machine
    while subprocess.run(ready, capture_output=True, check=False, env=dict(os.environ)).returncode:
        if time.monotonic() > end:
            return
        time.sleep(0.05)
    try:
        asked.set_result(ask())
    except BaseException as error:
        asked.set_exception(error)
    os.kill(os.getpid(), signal.SIGTERM)
