"""Read the files that run the server, and run the server as they say: a process, until SIGTERM."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from pathlib import Path

import httpx
from support.documents import ROOT
from support.signals import default_signals

EXAMPLES = ROOT / "docs" / "examples"
# The program needs these variables in a checkout. A service or a container has no others of ours.
_OF_THE_TESTS = ("PATH", "PYTHONPATH", "OMP_NUM_THREADS")


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, each with its arguments, in order."""
    text = re.sub(r"^\s*#.*\n", "", dockerfile.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [
        (name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines) if name
    ]


def exec_form(arguments: str) -> list[str]:
    """Return the words of an instruction's JSON list, without the options before the list."""
    words = json.loads(arguments[arguments.index("[") :])
    assert all(isinstance(word, str) for word in words)
    return list(words)


def in_comments(file: Path, start: str) -> list[str]:
    """Return the words of the command in a file's comments that begins with `start`."""
    lines = re.findall(r"^# ?(.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    commands = re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()
    [command] = [line for line in map(str.strip, commands) if line.startswith(start)]
    return shlex.split(command)


def read_unit(file: Path) -> ConfigParser:
    """Return a unit of systemd. An option or a section that is there twice is an error."""
    unit = ConfigParser(delimiters="=", comment_prefixes="#", interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(file.read_text(encoding="utf-8"))
    return unit


def program(words: Sequence[str], instead: Mapping[str, str]) -> list[str]:
    """Return a command of marith's with this Python, and other paths and names for some words."""
    assert Path(words[0]).name == "marith"
    return [sys.executable, "-m", "marith", *(instead.get(word, word) for word in words[1:])]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that has these variables and no home."""
    ours = {name: os.environ[name] for name in _OF_THE_TESTS if name in os.environ}
    return {**ours, "HOME": "/nonexistent", **variables}


@contextmanager
def server(
    words: Sequence[str], variables: Mapping[str, str], port: int, log: Path
) -> Iterator[subprocess.Popen[str]]:
    """Yield the process of a server once it is ready, and kill it at the end."""
    with log.open("w", encoding="utf-8") as written, default_signals():
        process = subprocess.Popen(
            [*words], env=environment(variables), stderr=written, text=True, cwd=log.parent
        )
    try:
        end = time.monotonic() + 60
        while not is_ready(port):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < end, log.read_text(encoding="utf-8")
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait(20)


def is_ready(port: int) -> bool:
    """Return whether a server answers at /ready that its models are loaded."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ready", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
