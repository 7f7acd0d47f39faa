"""The version, the program, and what a command imports that loads no model."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import marith
from marith.cli import app

# The program that the last argument asks of the command line, and what of torch it imported.
WITHOUT_TORCH = """
import sys
from marith.cli import app
try: app(sys.argv[1:])
except SystemExit as end: assert not end.code, end.code
heavy = {"torch", "transformers", "numpy"} & set(sys.modules)
assert not heavy, heavy
"""


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version") == (0, f"marith {marith.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("show", "M - 0.5*a"),
        ("generate", "--help"),
        ("models",),
        ("recipes",),
    ],
)
def test_what_loads_no_model_imports_no_torch(arguments: tuple[str, ...]) -> None:
    program = [sys.executable, "-c", WITHOUT_TORCH, *arguments]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
