"""Which files llama.cpp may repack: kept in the user's cache directory for the next process.

A trial loads the file twice. The cache may be deleted at any time, and a damaged one is ignored.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

_FILE = "llama_cpp.json"


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
