"""Whether llama.cpp loads a file, and may repack its weights for this processor.

Both are tried once for each file, in a process of its own: llama.cpp ends the process where a file
is wrong, and its repacked weights crash on some processors.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from marith.errors import ModelError

_TRIAL = """
import sys
from marith.scoring.weights.ggml import GGMLContext, Item
from marith.scoring.weights.ggml import GGMLModel
path, threads, accelerated = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
for repacked in (False, True):
    model = GGMLModel(path, threads=threads, repacked=repacked, accelerated=accelerated)
    context = GGMLContext(model)
    for count in (1, 4, 64):
        context.decode([Item(0, i, 0, True) for i in range(count)])
        context.drop(0)
    print("repacked" if repacked else "plain", flush=True)
    if accelerated:
        break
"""
_SECONDS = 900.0
_log = logging.getLogger(__name__)
_FILE = "llama_cpp.json"


def may_repack(name: str, path: str, threads: int, accelerated: bool) -> bool:
    """Whether a process that reads this file from repacked weights ends well.

    Where it crashes, as with Q8_0 on processors with AMX, weights stay as the file has them. Kept
    for the next process, by the processor, llama.cpp's release and the file. Raises ModelError for
    a file that crashes it either way.
    """

    def tried() -> bool:
        _log.info("a process tries %r, once on this machine", path)
        command = [sys.executable, "-c", _TRIAL, path, str(threads), str(accelerated)]
        try:
            done = subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise ModelError(f"llama.cpp does not load {name!r} within {_SECONDS:.0f} s") from None
        passed = done.stdout.split()
        if done.returncode < 0 and "plain" not in passed:
            raise ModelError(f"llama.cpp does not load {name!r}: it {_end(done)}")
        if done.returncode > 0:
            raise _FailedError  # an error, which the caller's own loading says better
        if done.returncode:
            _log.warning("llama.cpp's repacked weights of %r stay off: it %s", path, _end(done))
        return "repacked" in passed

    state = Path(path).stat()
    what = f"llama-cpp-python {version('llama-cpp-python')} repacks {path} of {state.st_size} bytes"
    try:
        return kept(f"{what}, {state.st_mtime_ns}, {accelerated}", tried)
    except _FailedError:
        return False


class _FailedError(Exception):
    """What is kept for no other process."""


def _end(done: subprocess.CompletedProcess[str]) -> str:
    reason = next((line for line in done.stderr.splitlines() if "ASSERT" in line), "")
    return f"ended by signal {-done.returncode} {reason}".strip()


def kept(what: str, trial: Callable[[], bool]) -> bool:
    """Return what a trial has found before, or what it finds now. `what` names the trial."""
    key = f"{_machine()}, {torch.get_num_threads()} threads, {what}"
    found = _read().get(key)
    if isinstance(found, bool):
        return found
    found = trial()
    _write(_read() | {key: found})
    return found


def directory() -> Path:
    """Where marith keeps what can be made anew: `MARITH_CACHE`, or in the user's own."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("MARITH_CACHE") or Path(home) / "marith")


def _read() -> dict[str, bool]:
    with suppress(OSError, ValueError, RuntimeError):  # no home, no file, or junk in it
        known = json.loads((directory() / _FILE).read_text(encoding="utf-8"))
        return known if isinstance(known, dict) else {}
    return {}


def _write(known: dict[str, bool]) -> None:
    """Whole or not at all, whoever else writes it; nothing where nothing can be written."""
    with suppress(OSError, RuntimeError):
        folder = directory()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=folder, prefix=_FILE, delete=False, encoding="utf-8"
        ) as file:
            json.dump(known, file, indent=1, sort_keys=True)
        os.replace(file.name, folder / _FILE)


@cache
def _machine() -> str:
    """The processor, as this torch sees it."""
    flags = [name for name, has in sorted(torch.cpu.get_capabilities().items()) if has is True]
    isa = os.environ.get("ONEDNN_MAX_CPU_ISA", "")
    return f"{platform.machine()} {' '.join(flags)} {isa}, torch {torch.__version__}"
