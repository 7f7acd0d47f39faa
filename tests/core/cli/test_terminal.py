"""What a terminal shows and a pipe does not: one quiet bar while models load."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

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
