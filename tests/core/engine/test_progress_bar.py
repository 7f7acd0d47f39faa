"""The progress bar of a list of requests: on a terminal, if the list takes long."""

from __future__ import annotations

import io
import sys

import pytest

from marith import Engine
from marith.engine import entrypoints as many


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_list_has_a_bar_on_a_terminal_and_a_single_prompt_or_a_pipe_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(many, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    terminal, pipe = Terminal(), io.StringIO()
    with Engine.load("pocket") as engine:
        monkeypatch.setattr(sys, "stderr", pipe)
        engine.generate(["Hello!"] * 5, max_tokens=2)
        monkeypatch.setattr(sys, "stderr", terminal)
        engine.generate("Hello!", max_tokens=2)
        assert pipe.getvalue() == terminal.getvalue() == ""
        engine.generate(["Hello!"] * 5, max_tokens=2)
    assert "5/5" in terminal.getvalue()


def test_a_list_is_answered_when_standard_error_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with Engine.load("pocket") as engine:
        assert len(engine.generate(["Hello!"] * 2, max_tokens=2)) == 2
