"""Every command runs when standard streams are closed at the start, as under cron or a daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from marith.cli import app
from marith.cli.__main__ import _open_closed_streams

# A short line of each command with its exit code. Lines that would be long end with a sentence.
LINES = {
    "generate Hi --max-tokens 2": 0,
    "why Hi --max-tokens 2": 0,
    "chat": 0,
    "play --port 0": 2,
    "serve no-such-file.toml": 2,
    "calibrate M": 2,
    "show M+M": 0,
    "models": 0,
    "recipes": 0,
    "demo --model ./no-such-model": 2,
    "train-vector --positive same --negative same --out out.gguf": 2,
    "train-classifier --base pocket-toxicity --data no-such-file.csv --out out": 2,
    "tune a*M --range a --attribute length --direction up": 2,
    "eval texts --measure length --formulas M+ --n 1": 2,
    "eval toxicity --formulas M+ --n 1": 2,
    "eval sentiment --to positive --formulas M+ --n 1": 2,
    "eval perplexity --formulas M+ --n 1": 2,
    "eval attributes --judge x": 2,
    "eval harness --import no-such-file.py": 2,
    "eval speed --only x": 2,
    "--version": 0,
    "--help": 0,
}
# The program runs each line in a fork, because a command ends its process, and writes the codes.
FORKS = """
import json, os, sys
from marith.cli import __main__ as program
import marith.engine.engine
import marith.evals.evaluations
codes = []
for line in sys.argv[2:]:
    if not (child := os.fork()):
        sys.argv = ["marith", *line.split()]
        program.main()
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
with open(sys.argv[1], "w") as file:
    json.dump(codes, file)
"""


def _names(command: Any, prefix: str = "") -> list[str]:
    """The full names of a group's commands."""
    if not hasattr(command, "commands"):
        return [prefix.strip()]
    parts = command.commands.items()
    return [name for key, each in parts for name in _names(each, f"{prefix} {key}")]


def test_every_command_is_tested_here() -> None:
    for name in _names(get_command(app)):
        assert any(line.split()[: len(name.split())] == name.split() for line in LINES), name


def test_every_command_runs_with_closed_streams(tmp_path: Path) -> None:
    codes = tmp_path / "codes.json"
    program = ["bash", "-c", 'exec "$@" <&- >&-', "-", sys.executable, "-c", FORKS]
    environment = {
        "PYTHONPATH": ":".join(sys.path),
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [*program, str(codes), *LINES],
        capture_output=True,
        cwd=tmp_path,
        env={**environment, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert dict(zip(LINES, json.loads(codes.read_text()), strict=True)) == LINES
    assert b"Traceback" not in done.stderr, done.stderr.decode()


def test_writing_to_a_closed_standard_error_does_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    _open_closed_streams()
    print("nobody reads this", file=sys.stderr)
    sys.stderr.close()
