"""The sentence with which marith answers a mistake of a user."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from marith.cli import app
from marith.errors import MarithError, from_validation

SECONDS = 1.0  # of the processor's time for one mistake
LETTERS = 600  # of a sentence, with the formula that it quotes


def refusal(call: Callable[[], object]) -> str:
    """Return the sentence of the error that a call raises in less than a second of the processor.

    The error is marith's own, or pydantic's or an ImportError with a sentence of marith.
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


def commanded(line: str) -> tuple[int, str, str]:
    """Run a command line in this process, and return its exit code, its output and its errors."""
    program, *arguments = shlex.split(line)
    assert program == "marith"
    begun = time.process_time()
    result = CliRunner().invoke(app, arguments)
    assert time.process_time() - begun < SECONDS
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr
