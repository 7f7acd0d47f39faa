"""The help: whole sentences, short options, and an example of each command that can be run."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import marith
from marith.cli import app
from marith.cli.help_pages import EXAMPLES

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


def commands(group: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, part in (group or typer.main.get_command(app)).commands.items():
        if hasattr(part, "commands"):
            yield from commands(part, f"{prefix}{name} ")
        else:
            yield prefix + name, part


COMMANDS = dict(commands())


def test_every_command_has_an_example_and_every_example_a_command() -> None:
    assert sorted(COMMANDS) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_an_example_is_read_as_the_command_of_whose_help_it_is_a_part(name: str) -> None:
    words = shlex.split(EXAMPLES[name])
    asked = ["marith", *name.split()]
    assert words[: len(asked)] == asked
    COMMANDS[name].make_context(name, words[len(asked) :])  # exits for an unknown option


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"eval harness"}))
def test_the_help_of_a_command_ends_with_its_example(name: str) -> None:
    code, out, _ = run(*name.split(), "-h")
    assert code == 0
    assert out == run(*name.split(), "--help")[1]
    assert out.rstrip().endswith(f"Example:\n  {EXAMPLES[name]}".replace("\n", "\n  "))


def test_the_list_of_commands_cuts_no_sentence() -> None:
    for group in ((), ("eval",)):
        code, out, _ = run(*group, "-h")
        assert code == 0
        assert "..." not in out.partition("Commands:")[2]


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version") == (0, f"marith {marith.__version__}\n", "")


def test_the_package_can_be_run_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "marith", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"marith {marith.__version__}\n"), done.stderr
    usage = subprocess.run([sys.executable, "-m", "marith", "-h"], capture_output=True, text=True)
    assert usage.stdout.startswith("Usage: python -m marith [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("marith gen", ["generate"]),
        ("marith generate hi --model pocket-t", ["pocket-toxicity"]),
        ("marith calibrate M -m pocket-d", ["pocket-draft"]),
        ("marith recipes fud", ["fudge"]),
    ],
)
def test_a_shell_can_complete_commands_models_and_recipes(
    words: str, completions: list[str]
) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    environment = {"_MARITH_COMPLETE": "complete_bash", **asked}
    completed = CliRunner().invoke(app, prog_name="marith", env=environment)
    assert completed.stdout.split() == completions


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


def test_no_annotation_of_a_command_is_evaluated_when_the_program_starts() -> None:
    for group in (app, *(group.typer_instance for group in app.registered_groups)):
        for command in group.registered_commands:
            assert not any(isinstance(a, str) for a in command.callback.__annotations__.values())


def test_an_argument_does_not_look_like_a_choice() -> None:
    assert " show [OPTIONS] FORMULA\n" in run("show", "-h")[1]
    assert " models [OPTIONS] [NAME]...\n" in run("models", "-h")[1]
    assert " show [OPTIONS] FORMULA\n" in run("show")[2]


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"eval harness"}))
def test_a_value_is_named_as_one_writes_it(name: str) -> None:
    out = run(*name.split(), "-h")[1].replace("{message}", "")
    for mark in ("list[", "{", "[[", "]]", "None"):
        assert mark not in out


@pytest.mark.parametrize("name", ["", "eval", *sorted(set(COMMANDS) - {"eval harness"})])
def test_help_has_no_colours_where_there_is_no_terminal(name: str) -> None:
    assert "\x1b" not in run(*name.split(), "-h")[1]
    assert "\x1b" not in run(*name.split(), "--no-such-option")[2]
