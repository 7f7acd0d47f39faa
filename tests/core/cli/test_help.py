"""The version, the program, and what a command imports that loads no model."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import marith
from marith.cli import app
from marith.cli.application import OTHER_NAMES

# A process that runs commands of the command line one after the other, and imports no torch.
WITHOUT_TORCH = """
import sys
from marith.cli import app
for line in sys.argv[1:]:
    try: app(line.split("|"))
    except SystemExit as end: assert not end.code, (line, end.code)
    heavy = {"torch", "transformers", "numpy"} & set(sys.modules)
    assert not heavy, (line, heavy)
"""
COMMANDS = ("--help", "--version", "show|M - 0.5*a", "generate|--help", "models", "recipes")


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version") == (0, f"marith {marith.__version__}\n", "")


@pytest.mark.parametrize("other", OTHER_NAMES)
def test_a_command_by_another_name_names_the_command(other: str) -> None:
    code, out, err = run(other, "M")
    assert (code, out) == (2, "")
    assert f"No such command {other!r}. Write `marith {OTHER_NAMES[other]} …`." in err
    assert run(OTHER_NAMES[other], "--help")[0] == 0


def test_a_misspelt_command_has_a_suggestion() -> None:
    assert "'sho'. Did you mean 'show'?" in run("sho", "M")[2]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--temp", "No such option: --temp; did you mean '--temperature'?\n"),
        ("--tempreature", "No such option: --tempreature; did you mean '--temperature'?\n"),
        ("--max-token", "No such option: --max-token; did you mean '--max-tokens'?\n"),
        ("--top_k", "No such option: --top_k; did you mean '--top-k'?\n"),
        ("--zzzz", "No such option: --zzzz\n"),
        ("--temperature", "Invalid value for '--temperature': write a number\n"),
        ("--max-tokens", "Invalid value for '--max-tokens': write a whole number\n"),
    ],
)
def test_an_invalid_option_is_told_what_to_write(option: str, says: str) -> None:
    code, out, err = run("generate", "Hi", option, "hot")
    assert (code, out) == (2, "")
    assert err.endswith(f"Error: {says}")


def test_commands_that_load_no_model_do_not_import_torch() -> None:
    program = [sys.executable, "-c", WITHOUT_TORCH, *COMMANDS]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
