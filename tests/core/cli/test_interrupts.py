"""Ctrl-C ends a command with exit code 130, and prints no traceback."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from marith.cli import app
from marith.evals.tuning import search, tune
from marith.evals.tuning.unknowns import Range

TUNE = ("tune", "a*M", "--range", "a=1:2", "--attribute", "vader:positive", "--direction", "up")


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_search_that_is_interrupted_logs_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        search.search("a*M", [Range.read("a=1:2")], "lower", 9.0, 3, 0, interrupt, interrupt)  # type: ignore[arg-type]
    assert capfd.readouterr() == ("", "")


def test_an_interrupted_command_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "run", interrupt)
    result = CliRunner().invoke(app, list(TUNE))
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")
