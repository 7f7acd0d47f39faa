"""Mistakes as users type them, each with the sentence that answers it, in tables."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from marith.cli import app
from marith.errors import MarithError, from_validation

SECONDS = 1.0  # of the processor's time for one mistake
LETTERS = 600  # of a sentence, with the formula that it quotes

Row = tuple[str, str]  # what was typed, and what the error says


def table(rows: Iterable[Row]) -> Any:
    """The rows as the parameters `typed` and `sentence` of a test."""
    listed = list(rows)
    return pytest.mark.parametrize(
        ("typed", "sentence"), listed, ids=[typed for typed, _ in listed]
    )


def refusal(call: Callable[[], object]) -> str:
    """The sentence of the error that a call raises in less than a second.

    An error is marith's own, or one of pydantic's or Python's imports with a sentence of marith's.
    """
    begun = time.process_time()
    with pytest.raises((MarithError, ValidationError, ImportError)) as caught:
        call()
    assert time.process_time() - begun < SECONDS
    error: BaseException = caught.value
    if isinstance(error, ValidationError):
        assert error.error_count() == 1
        error = from_validation(error)
    sentence, *quoted = str(error).split("\n")
    assert len(quoted) in (0, 2), "a sentence, or one with a quoted formula and its carets"
    assert len(str(error)) < LETTERS
    return sentence


def evaluated(typed: str, names: Mapping[str, Any]) -> object:
    """The value of Python code of a table: the code is this project's own."""
    return eval(typed, {**names})  # its rows are literals of the tests


def commanded(line: str) -> tuple[int, str, str]:
    """The exit code, the output and the errors of a command line, run in this process."""
    program, *arguments = shlex.split(line)
    assert program == "marith"
    begun = time.process_time()
    result = CliRunner().invoke(app, arguments)
    assert time.process_time() - begun < SECONDS
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr
