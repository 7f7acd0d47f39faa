"""A folder of results that survives a kill: settings, and lines of JSON that are only appended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from marith.errors import RequestError, unreadable

SETTINGS = "settings.json"
LOCK = ".lock"
_LONGEST = 120


class Journal:
    """Lines of JSON in a file. Keeps state: the lines that are there.

    Each is appended by one write, as soon as it is known. What a kill left half-written at the
    end is dropped.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.is_file():
            _mend(path)
        self.lines = read_lines(path) if path.is_file() else []

    def add(self, data: Mapping[str, Any]) -> None:
        """Append a line."""
        line = json.dumps(data, ensure_ascii=False) + "\n"
        with self._path.open("ab", buffering=0) as file:
            file.write(line.encode())
        self.lines.append(dict(data))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects in a file of JSON lines. Raises RequestError for a line that is none."""
    try:
        raw_lines = path.read_bytes().splitlines()
    except OSError as error:
        raise unreadable(path, error) from None
    lines: list[dict[str, Any]] = []
    for line in raw_lines:
        try:
            lines.append(dict(json.loads(line)))
        except (ValueError, TypeError, RecursionError):
            problem = f"line {len(lines) + 1} of {str(path)!r} is no JSON object"
            raise RequestError(problem) from None
    return lines


@contextmanager
def opened(folder: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    """A folder for one run of these settings, which goes on where it was broken off.

    Raises RequestError where another run uses it, where it holds the results of other
    settings, naming the first that differs, or files that no evaluation wrote.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise RequestError(f"another run writes to {str(folder)!r} now") from None
    except OSError as error:
        raise RequestError(f"cannot write to {str(folder)!r}: {error.strerror}") from None
    try:
        _claim(folder, json.loads(json.dumps(settings)))
        yield folder
    finally:
        lock.release()


def write(path: Path, text: str) -> None:
    """Write a whole file, or leave what was there."""
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _claim(folder: Path, settings: Mapping[str, Any]) -> None:
    path = folder / SETTINGS
    if not path.is_file():
        other_files = sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
        if other_files:
            raise RequestError(
                f"{str(folder)!r} holds {other_files[0]!r}, which no evaluation wrote"
            )
        write(path, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
        return
    try:
        earlier = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    difference = _difference(earlier, settings)
    if difference:
        raise RequestError(f"{str(folder)!r} holds results of other settings: {difference}")


def _difference(earlier: Any, here: Any, name: str = "") -> str:
    """The first setting that differs, in a few words; nothing where all are equal."""
    if isinstance(earlier, dict) and isinstance(here, dict):
        for key in dict.fromkeys((*here, *earlier)):
            inner = f"{name}.{key}" if name else key
            if key not in earlier or key not in here:
                where = "there" if key in earlier else "here"
                return f"{inner} is only {where}"
            if difference := _difference(earlier[key], here[key], inner):
                return difference
        return ""
    if earlier == here:
        return ""
    if name in ("prompts", "texts"):  # of which a digest is kept
        return f"the {name} are not the same"
    return f"{name} is {_short(earlier)} there and {_short(here)} here"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _mend(path: Path) -> None:
    """Drop half a line at the end."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
