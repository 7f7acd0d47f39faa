"""The options of commands that take those of `Options`."""

from __future__ import annotations

import re
from dataclasses import fields
from inspect import Parameter, signature
from typing import Any

import pytest
import typer

from marith import Options
from marith.cli import app, evaluation_commands, generate_command
from marith.cli.options import placed
from marith.evals.evaluations import PASSED_ON, EvaluationConfig

OWN = {
    *generate_command._NOT_OPTIONS,
    "import", "prompt", "n", "schema", "regex", "continuation", "top", "every", "as_json",
}  # fmt: skip


def parameters(command: str) -> list[Any]:
    group: Any = typer.main.get_command(app)
    return [each for each in group.commands[command].params if each.name not in OWN]


@pytest.mark.parametrize("command", ["generate", "why"])
def test_every_option_of_a_command_is_an_option_of_the_application(command: str) -> None:
    assert {each.name for each in parameters(command)} <= {*Options.option_names()}


@pytest.mark.parametrize("command", ["generate", "why", "chat"])
def test_help_says_the_default_of_an_option(command: str) -> None:
    for each in parameters(command):
        default = Options.model_fields[each.name].get_default(call_default_factory=True)
        said = re.search(r"\[default: (.+)\]", each.help)
        assert said is None or default is None or said[1] == str(default), each.name


def test_options_of_evaluation_commands_have_the_defaults_of_evaluations() -> None:
    settings = {field.name: field.default for field in fields(EvaluationConfig)}
    declared: dict[str, Parameter] = {}
    for group in (evaluation_commands.evaluated, evaluation_commands.sampled, placed):
        declared |= signature(group).parameters
    assert declared.keys() <= settings.keys()
    assert all(each.default in (None, settings[name]) for name, each in declared.items())
    assert {*PASSED_ON} == {*signature(placed).parameters, "max_tokens", "temperature"}
