"""What a terminal shows and a pipe does not: one quiet bar while models load, and colours."""

from __future__ import annotations

import io
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from marith.cli.terminal.colours import formula_colours, styled
from marith.cli.terminal.loading_bar import loading

HIDDEN = """
import sys
from marith.cli.terminal.loading_bar import hide_bars_of_transformers
sys.stderr.isatty = lambda: {terminal}
hide_bars_of_transformers()
from huggingface_hub.utils import are_progress_bars_disabled
from transformers.utils import logging
print(logging.is_progress_bar_enabled(), are_progress_bars_disabled("huggingface_hub.http_get"))
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with loading("pocket"):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_one_bar_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with loading("pocket"):
        pass
    assert "loading pocket" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert capsys.readouterr().out == ""


def test_a_file_is_a_model_on_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    (tmp_path / "it.gguf").write_bytes(b"GGUF")
    with loading(str(tmp_path / "it.gguf")):
        pass
    assert "it.gguf" in sys.stderr.getvalue()  # type: ignore[attr-defined]


def test_where_loading_is_logged_there_is_no_bar(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    caplog.set_level(logging.INFO, "marith")
    with loading("pocket"):
        pass
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_a_model_to_be_downloaded_has_the_bars_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    for model in ("nobody/nothing", "/no/where"):
        with loading(model):
            pass
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


@pytest.mark.parametrize(("terminal", "printed"), [(True, "False False"), (False, "False True")])
def test_the_bars_of_transformers_are_off_and_those_of_downloads_for_terminals(
    terminal: bool, printed: str
) -> None:
    code = HIDDEN.format(terminal=terminal)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == printed, done.stderr


EXPLAINED = """sum
├── M
└── -0.5 × prompted("be 2 kind")

total weight: 0.5
warning: the weights add up to 0.5"""


def test_colours_are_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert formula_colours(EXPLAINED) == EXPLAINED
    monkeypatch.setattr(sys, "stdout", Terminal())
    coloured = formula_colours(EXPLAINED)
    assert re.sub(r"\x1b\[\d*m", "", coloured) == EXPLAINED
    for part, style in (
        ("-0.5", {"fg": "cyan"}),
        ('"be 2 kind"', {"fg": "green"}),
        ("└──", {"dim": True}),
        ("warning:", {"fg": "yellow", "bold": True}),
    ):
        assert typer.style(part, **style) in coloured
    assert styled("a", bold=True) == typer.style("a", bold=True)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_without_colours_gets_none(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv(name, value)
    assert formula_colours(EXPLAINED) == EXPLAINED
