"""The sentence with which marith answers a mistake of a user."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from marith.cli import app
from marith.errors import FormulaError, MarithError, RequestError, from_validation

SECONDS = 1.0  # of the processor's time for one mistake
LETTERS = 600  # of a sentence, with the formula that it quotes
# Stands for the name of the class in a message.
MODEL = "<model>"
# Options that the constructor of any adapter refuses, with the kind of the error and its message.
CONSTRUCTOR_MISTAKES: list[tuple[dict[str, Any], type[MarithError], str]] = [
    (
        {"formula": "happy - M", "terms": {"happy": "Be happy."}},
        FormulaError,
        "the weights of a formula must add up to more than zero, not 0; write, for example, "
        "2*happy - M\n  happy - M\n  ^^^^^^^^^",
    ),
    (
        {"tempe": 1},
        RequestError,
        f"{MODEL} takes no option 'tempe'; did you mean 'temperature'?",
    ),
    (
        {"terms": ["happy"]},
        FormulaError,
        "terms map names to prompts or terms, such as {'formal': 'Speak formally.'}, not ['happy']",
    ),
    ({"file": 5}, RequestError, "file must be a path, not 5"),
]


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
