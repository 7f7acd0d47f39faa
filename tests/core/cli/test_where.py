"""`--where`: each column once."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from marith.cli import app


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("hard=True", "hard=False"), "--where gives 'hard' twice: 'True' and 'False'"),
        (("hard",), "--where is COLUMN=VALUE, not 'hard'"),
    ],
)
def test_a_column_is_given_once_and_with_a_value(values: tuple[str, ...], words: str) -> None:
    arguments = [word for value in values for word in ("--where", value)]
    result = CliRunner().invoke(app, ["eval", "toxicity", *arguments])
    assert result.exit_code == 2
    assert words in result.stderr
