"""Bars are shown where somebody can see them: on a terminal, or by a notebook's widgets."""

from __future__ import annotations

import io
import sys
import time
import warnings

import pytest
from rich.progress import BarColumn, TextColumn

from marith import console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, everywhere: bool) -> str:
    """What bars print to standard error over two refreshes."""
    monkeypatch.setattr(sys, "stderr", stream)
    columns = TextColumn("{task.description}"), BarColumn()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with console.bars(*columns, everywhere=everywhere) as bars:
            bars.advance(bars.add_task("answering", total=2))
            time.sleep(0.25)
    return stream.getvalue()


def test_a_terminal_has_bars_and_a_pipe_where_it_wants_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "answering" in printed(monkeypatch, Terminal(), everywhere=False)
    assert printed(monkeypatch, io.StringIO(), everywhere=False) == ""
    assert "answering" in printed(monkeypatch, io.StringIO(), everywhere=True)
