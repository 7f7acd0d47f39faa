"""The bar of a list of requests: for who looks on, once it takes long enough to ask for one."""

from __future__ import annotations

import io
import sys
import time
from types import ModuleType

import pytest

from marith import Engine
from marith.engine import entrypoints as many


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, seconds: float = 0.15) -> str:
    """What standard error gets while three requests end, each after so many seconds."""
    monkeypatch.setattr(many, "PATIENCE", 0.05)
    monkeypatch.setattr(sys, "stderr", stream)
    with many.progress(3) as advance:
        for _ in range(3):
            time.sleep(seconds)
            advance()
        return stream.getvalue()


def test_a_pipe_has_no_bar_and_a_kernel_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO()) == ""
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert "2/3" in shown(monkeypatch, io.StringIO())


def test_an_engine_shows_the_bar_of_a_list_and_none_of_a_single_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(many, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Engine.load("pocket") as engine:
        engine.generate("Hello!", max_tokens=2)
        assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
        engine.generate(["Hello!"] * 5, max_tokens=2)
    assert "/5 [" in sys.stderr.getvalue()  # type: ignore[attr-defined]
