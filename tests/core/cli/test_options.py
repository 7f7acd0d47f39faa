"""The options of commands that take those of `Options`."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from marith import Options
from marith.cli import app, generate_command

OWN = {
    *generate_command._NOT_OPTIONS,
    "import", "prompt", "n", "schema", "regex", "continuation", "top", "every", "as_json",
}  # fmt: skip


def parameters(command: str) -> list[Any]:
    group: Any = typer.main.get_command(app)
    return [each for each in group.commands[command].params if each.name not in OWN]


@pytest.mark.parametrize("command", ["generate", "why"])
def test_an_option_of_a_command_is_one_of_options_or_its_own(command: str) -> None:
    assert {each.name for each in parameters(command)} <= {*Options.option_names()}
