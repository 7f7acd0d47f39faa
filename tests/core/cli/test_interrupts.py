"""Ctrl-C ends a command with exit code 130, and prints no traceback."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from marith.cli import app
from marith.evals.tuning import tune
from marith.evals.tuning.unknowns import Range

TUNE = ("tune", "a*M", "--range", "a=1:2", "--attribute", "vader:positive", "--direction", "up")


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_search_that_is_interrupted_logs_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tune.Tuning, "measure", interrupt)
    ranges = (Range.read("a=1:2"),)
    asked = tune.Tuning(formula="a*M", ranges=ranges, attribute="vader:positive", direction="up")
    with pytest.raises(KeyboardInterrupt):
        list(tune.search(asked, 9.0))
    assert capfd.readouterr() == ("", "")


def test_an_interrupted_command_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "run", interrupt)
    result = CliRunner().invoke(app, list(TUNE))
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")
